"""A module like a real operator is installed, corrected, upgraded and removed; failures are reported."""

import base64
import ssl
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from kube_runtime import Client, KindUnknown, NotFound, NotServed, Resource, load_yaml
from kyma_demo.environment import Environment
from kyma_demo.walkthrough import Walkthrough
from lifecycle_manager.contract.resources import KYMAS, MANIFESTS, MODULE_RELEASE_METAS
from lifecycle_manager_api import Condition, Manifest, find, names
from tests.integration.lifecycle_manager.catalog_entries import (
    in_catalog,
    put_in_catalog,
    refusal,
    release,
    remove_from_catalog,
    template,
    with_layer,
    with_link,
)
from tests.integration.lifecycle_manager.file_server import FileServer, file_server
from tests.integration.lifecycle_manager.programs import without
from tests.integration.lifecycle_manager.slow_webhook import blocked_config_maps
from tests.kinds import CONFIG_MAPS, DEPLOYMENTS, EVENTS, WEBHOOKS
from tests.modules import Document, as_text, default_module_cr, group_of, module_crs, operator
from tests.registries import BlobServer, packed
from tests.waiting import eventually

KCP, SKR = names.KCP_NAMESPACE, names.SKR_NAMESPACE
CLOUD_RESOURCES = {"name": "cloud-resources", "managed": True}
MODULE = "gardener"
MODULE_CRS = module_crs(MODULE)
RULES: Resource[Document] = Resource.dynamic(group_of(MODULE), "v1", "GardenerRule", "gardenerrules", namespaced=True)
OLD = operator(MODULE, "1.0.0")
NEW = operator(MODULE, "1.1.0", config_maps=10)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def links(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[FileServer]:
    async with file_server(tmp_path_factory.mktemp("links")) as server:
        yield server


def module_template(version: str, **given: Any) -> Document:
    manager = {"group": "apps", "version": "v1", "kind": "Deployment", "name": f"{MODULE}-manager", "namespace": SKR}
    document = template(MODULE, version, data=default_module_cr(MODULE))
    document["spec"] |= {"manager": manager, **given}
    return document


@pytest_asyncio.fixture(loop_scope="session")
async def gardener_in_catalog(
    walkthrough: Walkthrough, layers: BlobServer, links: FileServer
) -> AsyncIterator[Walkthrough]:
    """A module of 40 objects in two versions: the old one behind a link, the new one in a layer."""
    kcp = walkthrough.environment.kcp
    old = with_link(module_template("1.0.0"), links.add("gardener.yaml", as_text(OLD)))
    digest = layers.hold(packed({"gardener/all.yaml": as_text(NEW)}))
    new = with_layer(module_template("1.1.0"), layers.host, digest)
    async with in_catalog(kcp, old, new, release(MODULE, regular="1.0.0")):
        yield walkthrough
        await walkthrough.set_modules([CLOUD_RESOURCES])
        await release_held(walkthrough.environment.skr)
        await eventually(
            is_gone(walkthrough.environment), within=120
        )  # an event may be lost if the webhooks have just changed


@asynccontextmanager
async def enabled(walkthrough: Walkthrough) -> AsyncIterator[None]:
    """Enable the module until the block ends; then it is gone."""
    await walkthrough.set_modules([CLOUD_RESOURCES, {"name": MODULE, "managed": True}])
    try:
        yield
    finally:
        await walkthrough.set_modules([CLOUD_RESOURCES])
        await eventually(is_gone(walkthrough.environment))


async def release_held(skr: Client) -> None:
    """Remove what a test that has failed leaves, and what would keep the module: users' objects and a finalizer."""
    with suppress(NotFound, NotServed):
        await skr.merge_patch(MODULE_CRS, "default", {"metadata": {"finalizers": []}}, SKR, field_manager=MODULE)
    for resource, name in ((MODULE_CRS, "roses"), (RULES, "water")):
        with suppress(NotFound, NotServed):
            await skr.delete(resource, name, SKR)


@pytest_asyncio.fixture(loop_scope="session")
async def gardener(gardener_in_catalog: Walkthrough) -> Walkthrough:
    await gardener_in_catalog.set_modules([CLOUD_RESOURCES, {"name": MODULE, "managed": True}])
    return gardener_in_catalog


async def manifest_of(environment: Environment) -> Manifest | None:
    selector = f"{names.KYMA_NAME}=demo,{names.MODULE_NAME}={MODULE}"
    found = (await environment.kcp.list(MANIFESTS, KCP, label_selector=selector)).items
    return found[0] if found else None


def is_gone(environment: Environment) -> Callable[[], Awaitable[bool]]:
    async def gone() -> bool:
        return await manifest_of(environment) is None

    return gone


def condition_of(
    environment: Environment, kind: str, status: str, reason: str
) -> Callable[[], Awaitable[Condition | None]]:
    """Return a condition of the Manifest once it has a status and reason for the current generation."""

    async def current() -> Condition | None:
        manifest = await manifest_of(environment)
        if manifest is None:
            return None
        condition = find(manifest.status.conditions, kind)
        if condition is None or condition.observed_generation != manifest.metadata.generation:
            return None
        return condition if (condition.status, condition.reason) == (status, reason) else None

    return current


async def start_manager(environment: Environment) -> None:
    """Set the status of the running Deployment, as controllers and kubelet do."""

    async def started() -> bool:
        try:
            deployment = await environment.skr.get(DEPLOYMENTS, f"{MODULE}-manager", SKR)
        except (NotFound, NotServed):
            return False
        replicas = {"replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1}
        status = {"observedGeneration": deployment["metadata"]["generation"], **replicas}
        await environment.skr.merge_patch(
            DEPLOYMENTS, f"{MODULE}-manager", {"status": status}, SKR, subresource="status"
        )
        return True

    await eventually(started)


async def set_state(environment: Environment, state: str) -> None:
    async def current() -> bool:
        try:
            await environment.skr.merge_patch(
                MODULE_CRS, "default", {"status": {"state": state}}, SKR, subresource="status"
            )
        except (NotFound, NotServed):
            return False
        return True

    await eventually(current)


async def make_ready(environment: Environment) -> None:
    """Simulate the module's manager until the module is ready."""
    await start_manager(environment)
    await set_state(environment, "Ready")
    await eventually(condition_of(environment, "Ready", "True", "ModuleReady"))


async def watched(environment: Environment, resource: str) -> bool:
    found = await environment.skr.get(WEBHOOKS, "skr-webhook")
    return any(resource in rule["resources"] for hook in found["webhooks"] for rule in hook["rules"])


async def live(skr: Client, document: Document) -> Document | None:
    try:
        resource = await skr.mapper.resource(document["apiVersion"], document["kind"])
        return await skr.get(resource, document["metadata"]["name"], document["metadata"].get("namespace"))
    except (KindUnknown, NotFound):
        return None


async def missing(skr: Client, documents: Collection[Document]) -> list[str]:
    return [each["metadata"]["name"] for each in documents if await live(skr, each) is None]


async def test_forty_objects_are_installed_upgraded_and_removed_completely(gardener: Walkthrough) -> None:
    environment = gardener.environment
    condition = await eventually(condition_of(environment, "Ready", "False", "ManagerNotReady"))
    assert f"Deployment {SKR}/{MODULE}-manager" in condition.message
    with pytest.raises(NotFound):
        await environment.skr.get(MODULE_CRS, "default", SKR)
    await make_ready(environment)

    assert await missing(environment.skr, OLD) == []
    manifest = await manifest_of(environment)
    assert manifest is not None
    assert (manifest.status.state, len(manifest.status.synced)) == ("Ready", 40)
    deployment = await live(environment.skr, next(each for each in OLD if each["kind"] == "Deployment"))
    assert deployment is not None
    assert deployment["metadata"]["labels"][names.WATCHED_BY] == "kyma"
    assert deployment["metadata"]["annotations"][names.OWNED_BY] == f"{KCP}/{manifest.metadata.name}"
    default = await environment.skr.get(MODULE_CRS, "default", SKR)
    assert default["spec"] == {"verbosity": "info"}

    foreign = {"metadata": {"name": f"{MODULE}-part-of-somebody-else"}, "data": {"keep": "me"}}
    await environment.skr.create(CONFIG_MAPS, foreign, SKR, field_manager="user")
    await put_in_catalog(environment.kcp, release(MODULE, regular="1.1.0"))
    await eventually(condition_of(environment, "Ready", "False", "ManagerNotReady"))
    await make_ready(environment)
    left = [each for each in OLD if each["metadata"]["name"] not in {new["metadata"]["name"] for new in NEW}]
    assert await missing(environment.skr, NEW) == []
    assert sorted(await missing(environment.skr, left)) == [f"{MODULE}-part-{number}" for number in (10, 11, 12, 13)]

    await gardener.set_modules([CLOUD_RESOURCES])
    await eventually(is_gone(environment))
    assert len(await missing(environment.skr, NEW)) == len(NEW)
    assert (await environment.skr.get(CONFIG_MAPS, foreign["metadata"]["name"], SKR))["data"] == {"keep": "me"}


@pytest.mark.usefixtures("on_events_only")
async def test_state_of_a_module_cr_is_read_at_once(gardener: Walkthrough) -> None:
    environment = gardener.environment
    await make_ready(environment)

    await eventually(lambda: watched(environment, "gardeners/status"))
    for state, status, reason in (("Warning", "False", "ModuleCRWarning"), ("Ready", "True", "ModuleReady")) * 2:
        await set_state(environment, state)
        await eventually(condition_of(environment, "Ready", status, reason))


async def test_default_module_cr_belongs_to_the_user_after_its_creation(gardener: Walkthrough) -> None:
    environment = gardener.environment
    await make_ready(environment)
    await environment.skr.merge_patch(
        MODULE_CRS, "default", {"spec": {"verbosity": "debug"}}, SKR, field_manager="user"
    )
    await set_state(environment, "Warning")
    await eventually(condition_of(environment, "Ready", "False", "ModuleCRWarning"))
    assert (await environment.skr.get(MODULE_CRS, "default", SKR))["spec"] == {"verbosity": "debug"}
    await environment.skr.delete(MODULE_CRS, "default", SKR)
    await eventually(condition_of(environment, "Ready", "True", "ModuleReady"))
    await put_in_catalog(environment.kcp, release(MODULE, regular="1.1.0"))
    await eventually(condition_of(environment, "Ready", "False", "ManagerNotReady"))
    await start_manager(environment)
    await eventually(condition_of(environment, "Ready", "True", "ModuleReady"))
    with pytest.raises(NotFound):
        await environment.skr.get(MODULE_CRS, "default", SKR)


async def test_module_crs_of_users_block_the_removal_and_are_named(gardener: Walkthrough) -> None:
    environment = gardener.environment
    await make_ready(environment)
    await environment.skr.create(MODULE_CRS, {"metadata": {"name": "roses"}, "spec": {}}, SKR, field_manager="user")
    await environment.skr.create(RULES, {"metadata": {"name": "water"}, "spec": {}}, SKR, field_manager="user")
    await gardener.set_modules([CLOUD_RESOURCES])
    condition = await eventually(condition_of(environment, "Ready", "False", "ModuleCRsInUse"))
    assert f"Gardener {SKR}/roses" in condition.message
    assert f"GardenerRule {SKR}/water" in condition.message
    assert f"{MODULE}-rule" not in condition.message
    manifest = await manifest_of(environment)
    assert manifest is not None
    assert manifest.status.state == "Deleting"
    assert await missing(environment.skr, OLD) == []
    await environment.skr.delete(MODULE_CRS, "roses", SKR)
    await environment.skr.delete(RULES, "water", SKR)
    await eventually(is_gone(environment))
    assert len(await missing(environment.skr, OLD)) == len(OLD)


async def test_deleted_manager_does_not_block_the_removal(gardener: Walkthrough) -> None:
    environment = gardener.environment
    await make_ready(environment)
    finalizers = {"metadata": {"finalizers": ["modules.example.com/clean-up"]}}
    await environment.skr.merge_patch(MODULE_CRS, "default", finalizers, SKR, field_manager=MODULE)
    await gardener.set_modules([CLOUD_RESOURCES])
    await eventually(condition_of(environment, "Ready", "False", "Deleting"))
    await environment.skr.delete(DEPLOYMENTS, f"{MODULE}-manager", SKR)
    await eventually(is_gone(environment))


async def test_custom_state_checks_of_a_template_determine_the_state_of_the_module(
    gardener: Walkthrough, links: FileServer
) -> None:
    environment = gardener.environment
    checks = [
        {"jsonPath": "status.health", "value": "green", "mappedState": "Ready"},
        {"jsonPath": "status.conditions[0].status", "value": "True", "mappedState": "Ready"},
        {"jsonPath": "status.health", "value": "red", "mappedState": "Error"},
    ]
    await make_ready(environment)
    await put_in_catalog(
        environment.kcp, with_link(module_template("1.0.0", customStateCheck=checks), f"{links.base}/gardener.yaml")
    )
    await eventually(condition_of(environment, "Ready", "False", "ModuleCRProcessing"))

    async def set_status(**status: Any) -> None:
        await environment.skr.merge_patch(MODULE_CRS, "default", {"status": status}, SKR, subresource="status")

    await set_status(health="green", conditions=[{"type": "Grown", "status": "True"}])
    await eventually(condition_of(environment, "Ready", "True", "ModuleReady"))
    await set_status(health="red")
    condition = await eventually(condition_of(environment, "Ready", "False", "ModuleCRError"))
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


async def test_invalid_modules_report_the_reason_and_do_not_affect_others(
    walkthrough: Walkthrough, layers: BlobServer, tmp_path: Path
) -> None:
    environment = walkthrough.environment
    first = with_layer(template(MODULE, "0.1.0", data=None), layers.host, f"sha256:{'0' * 64}")
    async with in_catalog(environment.kcp, first, release(MODULE, regular="0.1.0")), enabled(walkthrough):
        await eventually(condition_of(environment, "Ready", "False", "LayerNotFound"))
        for content, reason, text in BAD.values():
            changed = with_layer(template(MODULE, "0.1.0", data=None), layers.host, layers.hold(content))
            await put_in_catalog(environment.kcp, changed)
            condition = await eventually(condition_of(environment, "Ready", "False", reason))
            assert text in condition.message

        async def reported() -> bool:
            events = (await environment.kcp.list(EVENTS, KCP)).items
            return any(event["reason"] == "ObjectsForbidden" and event["type"] == "Warning" for event in events)

        await eventually(reported)
        await walkthrough.change_volume("730Gi")


@pytest.mark.usefixtures("layers")
async def test_invalid_template_is_refused_by_the_webhook(environment: Environment) -> None:
    document = template("orchard", "1.0.0")
    document["metadata"]["name"] = "orchard-2.0.0"
    assert "metadata.name is that of version 2.0.0, and spec.version is 1.0.0" in await refusal_of(
        environment, document
    )
    document = template("orchard", "1.0.0")
    document["spec"]["descriptor"] = {"not": "ocm"}
    assert "spec.descriptor.component is missing" in await refusal_of(environment, document)


async def refusal_of(environment: Environment, document: Document) -> str:
    return await refusal(
        lambda: put_in_catalog(environment.kcp, document), lambda: remove_from_catalog(environment.kcp, document)
    )


@pytest.mark.usefixtures("layers")
async def test_release_of_a_missing_version_is_stored_with_a_warning(environment: Environment) -> None:
    path = MODULE_RELEASE_METAS.path(KCP)
    document = {"apiVersion": MODULE_RELEASE_METAS.api_version, "kind": MODULE_RELEASE_METAS.kind}
    document |= release("orchard", regular="1.0.0")

    async def warnings() -> list[str]:
        async with administrator(environment.kcp_kubeconfig) as session, session.post(path, json=document) as response:
            assert response.status == 201
        await remove_from_catalog(environment.kcp, document)
        return response.headers.getall("Warning", [])

    returned = await eventually(warnings)  # none if the webhook did not answer in time
    assert any("there is no ModuleTemplate orchard-1.0.0" in each for each in returned)


@pytest.mark.usefixtures("layers")
async def test_failed_lookup_of_a_component_is_shown_to_users_and_its_cause_to_operators(
    walkthrough: Walkthrough,
) -> None:
    environment, document = walkthrough.environment, template(MODULE, "0.1.0", data=None)
    document["spec"]["descriptor"] = {}
    named = release(MODULE, regular="0.1.0", spec={"ocmComponentName": f"kyma-project.io/module/{MODULE}"})
    async with in_catalog(environment.kcp, document, named), enabled(walkthrough):

        async def reported() -> bool:
            inner = await environment.skr.get(KYMAS, "default", SKR)
            outer = await environment.kcp.get(KYMAS, "demo", names.KCP_NAMESPACE)
            messages = [each.message for kyma in (inner, outer) for each in kyma.status.modules if each.name == MODULE]
            return (
                len(messages) == 2
                and all(each.endswith("(DescriptorUnreadable)") for each in messages)
                and ["oci-registry-host names no registry" in each for each in messages] == [False, True]
            )

        await eventually(reported)


def administrator(kubeconfig: Path) -> aiohttp.ClientSession:
    """Return a plain HTTP session to an API server, to read warnings in headers as kubectl does."""
    config = load_yaml(kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    tls = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    with tempfile.NamedTemporaryFile() as identity:
        identity.write(base64.b64decode(user["client-certificate-data"]) + base64.b64decode(user["client-key-data"]))
        identity.flush()
        tls.load_cert_chain(identity.name)
    return aiohttp.ClientSession(cluster["server"], connector=aiohttp.TCPConnector(ssl=tls))


async def test_lifecycle_manager_killed_during_an_installation_leaves_nothing_behind(
    gardener_in_catalog: Walkthrough, tmp_path: Path
) -> None:
    walkthrough, environment = gardener_in_catalog, gardener_in_catalog.environment
    async with blocked_config_maps(environment, tmp_path, f"{MODULE}-part-1"):
        await walkthrough.set_modules([CLOUD_RESOURCES, {"name": MODULE, "managed": True}])
        await eventually(lambda: live(environment.skr, OLD[3]))
        async with without(walkthrough.programs, "lifecycle-manager", killed=True):
            assert await missing(environment.skr, OLD)
    await walkthrough.set_modules([CLOUD_RESOURCES])
    await eventually(is_gone(environment))
    assert len(await missing(environment.skr, OLD)) == len(OLD)
