"""A module in the shape of a real operator: installed, put right, upgraded, removed; and what goes wrong on the way."""

import base64
import ssl
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from kube_runtime import Client, KindUnknown, NotFound, Resource, load_yaml
from kyma_demo.stage import Stage
from kyma_demo.story import Story
from lifecycle_manager.resources import KYMAS, MANIFESTS, MODULE_RELEASE_METAS, WATCHERS
from lifecycle_manager_api import Condition, Manifest, find, names
from tests.integration.lifecycle_manager.links import LinkServer, link_server
from tests.integration.lifecycle_manager.offers import (
    installing,
    linking,
    offer,
    on_offer,
    refusal,
    release,
    template,
    withdraw,
)
from tests.integration.lifecycle_manager.programs import manager_with
from tests.integration.lifecycle_manager.slow_webhook import held_config_maps
from tests.integration.lifecycle_manager.watching import has_taken, is_well, moment
from tests.modules import Document, as_text, default_module_cr, group_of, module_crs, operator
from tests.registries import BlobServer, packed
from tests.waiting import eventually

KCP, SKR = names.KCP_NAMESPACE, names.SKR_NAMESPACE
CLOUD_RESOURCES = {"name": "cloud-resources", "managed": True}
MODULE = "gardener"
MODULE_CRS = module_crs(MODULE)
RULES: Resource[Document] = Resource.dynamic(group_of(MODULE), "v1", "GardenerRule", "gardenerrules", namespaced=True)
DEPLOYMENTS: Resource[Document] = Resource.dynamic("apps", "v1", "Deployment", "deployments", namespaced=True)
CONFIG_MAPS: Resource[Document] = Resource.dynamic("", "v1", "ConfigMap", "configmaps", namespaced=True)
WEBHOOKS: Resource[Document] = Resource.dynamic(
    "admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", False
)
EVENTS: Resource[Document] = Resource.dynamic("events.k8s.io", "v1", "Event", "events", namespaced=True)
OLD = operator(MODULE, "1.0.0")
NEW = operator(MODULE, "1.1.0", config_maps=10)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def links(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[LinkServer]:
    async with link_server(tmp_path_factory.mktemp("links")) as server:
        yield server


def module_template(version: str, **given: Any) -> Document:
    manager = {"group": "apps", "version": "v1", "kind": "Deployment", "name": f"{MODULE}-manager", "namespace": SKR}
    document = template(MODULE, version, data=default_module_cr(MODULE))
    document["spec"] |= {"manager": manager, **given}
    return document


@pytest_asyncio.fixture(loop_scope="session")
async def gardener_on_offer(story: Story, layers: BlobServer, links: LinkServer) -> AsyncIterator[Story]:
    """A module of 40 objects in two versions: the old one behind a link, the new one in a layer."""
    kcp = story.stage.kcp
    old = linking(module_template("1.0.0"), links.hold("gardener.yaml", as_text(OLD)))
    digest = layers.hold(packed({"gardener/all.yaml": as_text(NEW)}))
    new = installing(module_template("1.1.0"), layers.host, digest)
    async with on_offer(kcp, old, new, release(MODULE, regular="1.0.0")):
        yield story
        await story.set_modules([CLOUD_RESOURCES])
        await eventually(is_gone(story.stage), within=120)  # an event may be lost where the webhooks just changed


@pytest_asyncio.fixture(loop_scope="session")
async def gardener(gardener_on_offer: Story) -> Story:
    """The module chosen by the user."""
    await gardener_on_offer.set_modules([CLOUD_RESOURCES, {"name": MODULE, "managed": True}])
    return gardener_on_offer


@pytest_asyncio.fixture(loop_scope="session")
async def without_interval(story: Story) -> AsyncIterator[None]:
    """Modules are looked at when somebody tells of them, and otherwise not for longer than a test waits."""
    async with manager_with(story.cast, "--manifest-requeue-success-interval=10m"):
        await eventually(lambda: is_well(story.stage))
        yield


async def manifest_of(stage: Stage) -> Manifest | None:
    selector = f"{names.KYMA_NAME}=demo,{names.MODULE_NAME}={MODULE}"
    found = (await stage.kcp.list(MANIFESTS, KCP, label_selector=selector)).items
    return found[0] if found else None


def is_gone(stage: Stage) -> Callable[[], Awaitable[bool]]:
    async def gone() -> bool:
        return await manifest_of(stage) is None

    return gone


def says(stage: Stage, kind: str, status: str, reason: str) -> Callable[[], Awaitable[Condition | None]]:
    """Return a condition of the Manifest once it says this of what is wanted now."""

    async def said() -> Condition | None:
        manifest = await manifest_of(stage)
        if manifest is None:
            return None
        condition = find(manifest.status.conditions, kind)
        if condition is None or condition.observed_generation != manifest.metadata.generation:
            return None
        return condition if (condition.status, condition.reason) == (status, reason) else None

    return said


async def start_manager(stage: Stage) -> None:
    """Do what controllers and kubelet do: say that the Deployment runs."""

    async def started() -> bool:
        try:
            deployment = await stage.skr.get(DEPLOYMENTS, f"{MODULE}-manager", SKR)
        except NotFound:
            return False
        replicas = {"replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1}
        status = {"observedGeneration": deployment["metadata"]["generation"], **replicas}
        await stage.skr.merge_patch(DEPLOYMENTS, f"{MODULE}-manager", {"status": status}, SKR, subresource="status")
        return True

    await eventually(started)


async def say(stage: Stage, state: str) -> None:
    async def said() -> bool:
        try:
            await stage.skr.merge_patch(MODULE_CRS, "default", {"status": {"state": state}}, SKR, subresource="status")
        except NotFound:
            return False
        return True

    await eventually(said)


async def runs(stage: Stage) -> None:
    """Bring the module to where it is ready."""
    await start_manager(stage)
    await say(stage, "Ready")
    await eventually(says(stage, "Ready", "True", "ModuleReady"))


async def watched(stage: Stage, resource: str) -> bool:
    """Tell whether the Watcher is called for a resource."""
    found = await stage.skr.get(WEBHOOKS, "skr-webhook")
    return any(resource in rule["resources"] for hook in found["webhooks"] for rule in hook["rules"])


async def live(skr: Client, document: Document) -> Document | None:
    try:
        resource = await skr.mapper.resource(document["apiVersion"], document["kind"])
        return await skr.get(resource, document["metadata"]["name"], document["metadata"].get("namespace"))
    except (KindUnknown, NotFound):
        return None


async def missing(skr: Client, documents: Collection[Document]) -> list[str]:
    return [each["metadata"]["name"] for each in documents if await live(skr, each) is None]


async def test_forty_objects_are_installed_upgraded_and_removed_and_nothing_is_left(gardener: Story) -> None:
    stage = gardener.stage
    condition = await eventually(says(stage, "Ready", "False", "ManagerNotReady"))
    assert f"Deployment {SKR}/{MODULE}-manager" in condition.message
    with pytest.raises(NotFound):
        await stage.skr.get(MODULE_CRS, "default", SKR)
    await runs(stage)

    assert await missing(stage.skr, OLD) == []
    manifest = await manifest_of(stage)
    assert manifest is not None
    assert (manifest.status.state, len(manifest.status.synced)) == ("Ready", 40)
    deployment = await live(stage.skr, next(each for each in OLD if each["kind"] == "Deployment"))
    assert deployment is not None
    assert deployment["metadata"]["labels"][names.WATCHED_BY] == "kyma"
    assert deployment["metadata"]["annotations"][names.OWNED_BY] == f"{KCP}/{manifest.metadata.name}"
    default = await stage.skr.get(MODULE_CRS, "default", SKR)
    assert default["spec"] == {"verbosity": "info"}

    foreign = {"metadata": {"name": f"{MODULE}-part-of-somebody-else"}, "data": {"keep": "me"}}
    await stage.skr.create(CONFIG_MAPS, foreign, SKR, field_manager="user")
    await offer(stage.kcp, release(MODULE, regular="1.1.0"))
    await eventually(says(stage, "Ready", "False", "ManagerNotReady"))
    await runs(stage)
    left = [each for each in OLD if each["metadata"]["name"] not in {new["metadata"]["name"] for new in NEW}]
    assert await missing(stage.skr, NEW) == []
    assert sorted(await missing(stage.skr, left)) == [f"{MODULE}-part-{number}" for number in (10, 11, 12, 13)]

    await gardener.set_modules([CLOUD_RESOURCES])
    await eventually(is_gone(stage))
    assert len(await missing(stage.skr, NEW)) == len(NEW)
    assert (await stage.skr.get(CONFIG_MAPS, foreign["metadata"]["name"], SKR))["data"] == {"keep": "me"}


async def test_object_that_somebody_changes_or_deletes_is_put_right(gardener: Story) -> None:
    stage = gardener.stage
    await runs(stage)
    patch = {"data": {"version": "mine"}}
    await stage.skr.merge_patch(CONFIG_MAPS, f"{MODULE}-part-3", patch, SKR, field_manager="user")
    await stage.skr.delete(CONFIG_MAPS, f"{MODULE}-part-4", SKR)

    async def right() -> bool:
        try:
            found = [await stage.skr.get(CONFIG_MAPS, f"{MODULE}-part-{number}", SKR) for number in (3, 4)]
        except NotFound:
            return False
        return all(each["data"] == {"version": "1.0.0"} for each in found)

    await eventually(right)  # at the next interval


async def test_what_a_module_cr_says_is_heard_at_once(without_interval: None, gardener: Story) -> None:
    stage = gardener.stage
    await runs(stage)

    await eventually(lambda: watched(stage, "gardeners/status"))
    for state, status, reason in (("Warning", "False", "ModuleCRWarning"), ("Ready", "True", "ModuleReady")) * 2:
        await say(stage, state)
        await eventually(says(stage, "Ready", status, reason))


async def test_object_that_the_watcher_tells_of_is_put_right_at_once(without_interval: None, gardener: Story) -> None:
    stage = gardener.stage
    await runs(stage)
    watcher = {
        "metadata": {"name": "config-maps", "labels": {names.MANAGED_BY: names.LIFECYCLE_MANAGER}},
        "spec": {
            "resourceToWatch": {"group": "", "version": "v1", "resource": "configmaps"},
            "field": "spec",
            "gateway": {"selector": {}},
            "serviceInfo": {"name": "lifecycle-manager", "namespace": KCP, "port": 8082},
            "labelsToWatch": {names.WATCHED_BY: "kyma"},
        },
    }
    await stage.kcp.create(WATCHERS, watcher, KCP, field_manager="operator")

    async def right() -> bool:
        try:
            return bool((await stage.skr.get(CONFIG_MAPS, f"{MODULE}-part-3", SKR))["data"] == {"version": "1.0.0"})
        except NotFound:
            return False

    versions = (f"mine {number}" for number in count())

    async def is_told() -> bool:
        """Change the object; the API server may not ask about it yet, however long the webhook is there."""
        began, patch = moment(), {"data": {"version": next(versions)}}
        await stage.skr.merge_patch(CONFIG_MAPS, f"{MODULE}-part-3", patch, SKR, field_manager="user")
        return has_taken(stage, f"ConfigMap {SKR}/{MODULE}-part-3", began)

    try:
        await eventually(lambda: watched(stage, "configmaps"))
        await eventually(is_told, every=0.5)
        await eventually(right)
        for _ in range(2):
            patch = {"data": {"version": "mine"}}
            await stage.skr.merge_patch(CONFIG_MAPS, f"{MODULE}-part-3", patch, SKR, field_manager="user")
            await eventually(right)
            await stage.skr.delete(CONFIG_MAPS, f"{MODULE}-part-3", SKR)
            await eventually(right)
    finally:
        await stage.kcp.delete(WATCHERS, "config-maps", KCP)
        await eventually(lambda: watched(stage, "kymas"))  # as without any Watcher


async def test_default_module_cr_is_the_users_own_once_it_is_made(gardener: Story) -> None:
    stage = gardener.stage
    await runs(stage)
    await stage.skr.merge_patch(MODULE_CRS, "default", {"spec": {"verbosity": "debug"}}, SKR, field_manager="user")
    await say(stage, "Warning")
    await eventually(says(stage, "Ready", "False", "ModuleCRWarning"))
    assert (await stage.skr.get(MODULE_CRS, "default", SKR))["spec"] == {"verbosity": "debug"}
    await stage.skr.delete(MODULE_CRS, "default", SKR)
    await eventually(says(stage, "Ready", "True", "ModuleReady"))
    await offer(stage.kcp, release(MODULE, regular="1.1.0"))
    await eventually(says(stage, "Ready", "False", "ManagerNotReady"))
    await start_manager(stage)
    await eventually(says(stage, "Ready", "True", "ModuleReady"))
    with pytest.raises(NotFound):
        await stage.skr.get(MODULE_CRS, "default", SKR)


async def test_module_crs_of_users_hold_the_removal_and_are_named(gardener: Story) -> None:
    stage = gardener.stage
    await runs(stage)
    await stage.skr.create(MODULE_CRS, {"metadata": {"name": "roses"}, "spec": {}}, SKR, field_manager="user")
    await stage.skr.create(RULES, {"metadata": {"name": "water"}, "spec": {}}, SKR, field_manager="user")
    await gardener.set_modules([CLOUD_RESOURCES])
    condition = await eventually(says(stage, "Ready", "False", "ModuleCRsInUse"))
    assert f"Gardener {SKR}/roses" in condition.message
    assert f"GardenerRule {SKR}/water" in condition.message
    assert f"{MODULE}-rule" not in condition.message
    manifest = await manifest_of(stage)
    assert manifest is not None
    assert manifest.status.state == "Warning"
    assert await missing(stage.skr, OLD) == []
    await stage.skr.delete(MODULE_CRS, "roses", SKR)
    await stage.skr.delete(RULES, "water", SKR)
    await eventually(is_gone(stage))
    assert len(await missing(stage.skr, OLD)) == len(OLD)


async def test_manager_that_is_gone_does_not_hold_the_removal(gardener: Story) -> None:
    stage = gardener.stage
    await runs(stage)
    finalizers = {"metadata": {"finalizers": ["modules.example.com/clean-up"]}}
    await stage.skr.merge_patch(MODULE_CRS, "default", finalizers, SKR, field_manager=MODULE)
    await gardener.set_modules([CLOUD_RESOURCES])
    await eventually(says(stage, "Ready", "False", "Deleting"))
    await stage.skr.delete(DEPLOYMENTS, f"{MODULE}-manager", SKR)
    await eventually(is_gone(stage))


async def test_values_that_a_template_names_are_the_state_of_the_module(gardener: Story, links: LinkServer) -> None:
    stage = gardener.stage
    checks = [
        {"jsonPath": "status.health", "value": "green", "mappedState": "Ready"},
        {"jsonPath": 'status.conditions[?(@.type=="Grown")].status', "value": "True", "mappedState": "Ready"},
        {"jsonPath": "status.health", "value": "red", "mappedState": "Error"},
    ]
    await runs(stage)
    await offer(stage.kcp, linking(module_template("1.0.0", customStateCheck=checks), f"{links.base}/gardener.yaml"))
    await eventually(says(stage, "Ready", "False", "ModuleCRProcessing"))

    async def become(**status: Any) -> None:
        await stage.skr.merge_patch(MODULE_CRS, "default", {"status": status}, SKR, subresource="status")

    await become(health="green", conditions=[{"type": "Grown", "status": "True"}])
    await eventually(says(stage, "Ready", "True", "ModuleReady"))
    await become(health="red")
    condition = await eventually(says(stage, "Ready", "False", "ModuleCRError"))
    assert "status.health = red" in condition.message


REFUSED = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "refused", "namespace": SKR},
    "data": {"not a key": "x"},
}
OURS = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "skr-webhook-tls", "namespace": SKR},
}
BAD: dict[str, tuple[bytes, str, str]] = {
    "no objects": (b"just a text", "ObjectsInvalid", "no mapping"),
    "truncated": (packed({"all.yaml": as_text(OLD)})[:300], "LayerTruncated", "ends"),
    "unsafe": (packed({"../all.yaml": as_text(OLD)}), "ArchiveUnsafe", "../all.yaml"),
    "ours": (as_text([OURS]).encode(), "ObjectsForbidden", "skr-webhook-tls"),
    "refused by the cluster": (as_text([REFUSED]).encode(), "ApplyFailed", "not a key"),
}


async def test_bad_modules_say_why_and_the_others_go_on(story: Story, layers: BlobServer, tmp_path: Path) -> None:
    stage = story.stage
    first = installing(template(MODULE, "0.1.0", data=None), layers.host, f"sha256:{'0' * 64}")
    async with on_offer(stage.kcp, first, release(MODULE, regular="0.1.0")):
        await story.set_modules([CLOUD_RESOURCES, {"name": MODULE, "managed": True}])
        await eventually(says(stage, "Ready", "False", "LayerNotFound"))
        for content, reason, text in BAD.values():
            changed = installing(template(MODULE, "0.1.0", data=None), layers.host, layers.hold(content))
            await offer(stage.kcp, changed)
            condition = await eventually(says(stage, "Ready", "False", reason))
            assert text in condition.message

        async def told() -> bool:
            events = (await stage.kcp.list(EVENTS, KCP)).items
            return any(event["reason"] == "ObjectsForbidden" and event["type"] == "Warning" for event in events)

        await eventually(told)
        await story.change_volume("730Gi")
        await story.set_modules([CLOUD_RESOURCES])
        await eventually(is_gone(stage))
    await withdraw(stage.kcp, first)


@pytest.mark.usefixtures("layers")
async def test_template_that_can_not_be_meant_is_refused_when_it_is_written(stage: Stage) -> None:
    document = template("orchard", "1.0.0")
    document["metadata"]["name"] = "orchard-2.0.0"
    assert "must be 'orchard-1.0.0'" in await refusal_of(stage, document)
    document = template("orchard", "1.0.0")
    document["spec"]["descriptor"] = {"not": "ocm"}
    assert "spec.descriptor.component is missing" in await refusal_of(stage, document)


async def refusal_of(stage: Stage, document: Document) -> str:
    return await refusal(lambda: offer(stage.kcp, document), lambda: withdraw(stage.kcp, document))


@pytest.mark.usefixtures("layers")
async def test_release_of_a_version_that_is_not_there_is_written_with_a_warning(stage: Stage) -> None:
    path = MODULE_RELEASE_METAS.path(KCP)
    document = {"apiVersion": MODULE_RELEASE_METAS.api_version, "kind": MODULE_RELEASE_METAS.kind}
    document |= release("orchard", regular="1.0.0")

    async def warnings() -> list[str]:
        async with administrator(stage.kcp_kubeconfig) as session, session.post(path, json=document) as response:
            assert response.status == 201
        await withdraw(stage.kcp, document)
        return response.headers.getall("Warning", [])

    told = await eventually(warnings)  # none where nobody could look at it in time
    assert any("there is no ModuleTemplate orchard-1.0.0" in each for each in told)


@pytest.mark.usefixtures("layers")
async def test_component_that_can_not_be_looked_up_is_told_to_the_users(story: Story) -> None:
    stage, document = story.stage, template(MODULE, "0.1.0", data=None)
    document["spec"]["descriptor"] = {}
    named = release(MODULE, regular="0.1.0", spec={"ocmComponentName": f"kyma-project.io/module/{MODULE}"})
    async with on_offer(stage.kcp, document, named):
        await story.set_modules([CLOUD_RESOURCES, {"name": MODULE, "managed": True}])

        async def told() -> bool:
            kyma = await stage.skr.get(KYMAS, "default", SKR)
            shown = [each for each in kyma.status.modules if each.name == MODULE]
            return bool(shown) and "oci-registry-host names no registry" in shown[0].message

        await eventually(told)
        await story.set_modules([CLOUD_RESOURCES])


def administrator(kubeconfig: Path) -> aiohttp.ClientSession:
    """Speak to an API server as plain HTTP has it, to see what clients such as kubectl show of an answer."""
    config = load_yaml(kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    tls = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    with tempfile.NamedTemporaryFile() as identity:
        identity.write(base64.b64decode(user["client-certificate-data"]) + base64.b64decode(user["client-key-data"]))
        identity.flush()
        tls.load_cert_chain(identity.name)
    return aiohttp.ClientSession(cluster["server"], connector=aiohttp.TCPConnector(ssl=tls))


async def test_lifecycle_manager_that_dies_while_it_installs_leaves_nothing_behind(
    gardener_on_offer: Story, tmp_path: Path
) -> None:
    story, stage = gardener_on_offer, gardener_on_offer.stage
    async with held_config_maps(stage, tmp_path, f"{MODULE}-part-1"):
        await story.set_modules([CLOUD_RESOURCES, {"name": MODULE, "managed": True}])
        await eventually(lambda: live(stage.skr, OLD[3]))
        await story.cast.kill("lifecycle-manager")
        try:
            assert await missing(stage.skr, OLD)
        finally:
            await story.cast.restart("lifecycle-manager")
    await story.set_modules([CLOUD_RESOURCES])
    await eventually(is_gone(stage))
    assert len(await missing(stage.skr, OLD)) == len(OLD)
