"""`klm adopt` takes a control plane over and gives it back, as an administrator runs it."""

import asyncio
import json
from typing import Any

import pytest_asyncio

from kube_runtime import InventoryEntry, JsonObject
from kyma_takeover import marks
from kyma_takeover.adoption.back import WATCHER_ONLY_OURS
from kyma_takeover.adoption.cluster import WATCHER
from kyma_takeover.lease import LEASE, LEASES
from lifecycle_manager.contract.resources import (
    KYMAS,
    MANIFESTS,
    MODULE_RELEASE_METAS,
    RAW_KYMAS,
    SECRETS,
    SYNC_RESOURCES,
)
from lifecycle_manager_api import names
from tests import builders
from tests.integration.takeover.conftest import KCP, SKR, Takeover
from tests.integration.takeover.test_lease import renew
from tests.integration.takeover.test_modules import OBJECTS, is_settled, managers_of, module_objects
from tests.kinds import DEPLOYMENTS
from tests.klm import Output, run_klm
from tests.takeover_from_go import surroundings
from tests.takeover_from_go.modules import NEW, OLD
from tests.takeover_from_go.recordings import content_of, restore
from tests.takeover_from_go.restored import filled
from tests.takeover_from_go.starts import IN_PRODUCTION, KYMA, MANIFEST, MODULE, REMOVED_WATCHER, start
from tests.waiting import eventually

FORMER = "klm-controller-manager"
ACCESS = f"kubeconfig-{KYMA}"


async def klm(world: Takeover, *arguments: str) -> Output:
    return await run_klm(world.clusters.kcp.admin_kubeconfig, "adopt", *arguments)


async def test_check_reports_what_there_is_and_what_becomes_of_it(world: Takeover) -> None:
    unlabelled = {"metadata": {"labels": {names.MANAGED_BY: None}}}
    await world.kcp.merge_patch(SECRETS, ACCESS, unlabelled, KCP, field_manager="administrator")
    deployment = {each["metadata"]["name"]: each for each in start("kcp", IN_PRODUCTION)}[FORMER]
    await restore(world.kcp, [deployment])

    result = await klm(world, "--check", "--sample", "1", "-o", "json")

    assert result.code == 0, result.text + result.errors
    found: dict[str, Any] = json.loads(result.text)
    assert found["inTheWay"] == []
    assert [each["name"] for each in found["former"]] == ["klm-controller-manager"]
    counts = {"kymas": 1, "manifests": 1, "accessSecrets": 1, "accessSecretsWithoutLabel": 1, "certificates": 1}
    assert {each: found["counts"][each] for each in counts} == counts
    assert {each["given"]: each["becomes"] for each in found["options"]} == {
        "--leader-elect": "--leader-elect",
        "--kyma-requeue-success-interval": "--kyma-requeue-success-interval=5m",
        "--istio-gateway-name": "--istio-gateway-name=klm-watcher",
        "--listener-port-overwrite": "",
        "--cert-management": "--cert-management=cert.gardener.cloud/v1alpha1",
        "--log-level": "--log-level=DEBUG",
    }
    (cluster,) = found["clusters"]
    expected = {"moved": 5, "missing": 0, "foreign": 0, "replaced": 5, "removed": 5, "catalog": 3, "error": ""}
    assert {each: cluster[each] for each in expected} == expected


async def test_check_is_readable(world: Takeover) -> None:
    result = await klm(world, "--check", "--sample", "1")
    assert result.lines[0].split() == ["WHAT", "FOUND", "WITH", "THIS", "VERSION"]
    assert "nothing is in the way" in result.lines
    assert "klm adopt labels them: others are not read" in result.text


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def before(world: Takeover) -> dict[str, JsonObject]:
    """The objects in the cluster as the former version left them."""
    return await everything(world)


async def everything(world: Takeover) -> dict[str, JsonObject]:
    """Return the objects of the module, of the Watcher and the Kyma CR."""
    found = await module_objects(world)
    for entry in (*WATCHER, InventoryEntry(names.GROUP, "v1beta2", "Kyma", SKR, "default")):
        live = await world.live(entry.api_version, entry.kind, entry.name)
        if live is not None:
            found[f"{entry.kind} {entry.name}"] = live
    return found


def uids(found: dict[str, JsonObject]) -> dict[str, Any]:
    return {key: live["metadata"]["uid"] for key, live in found.items()}


async def replicas(world: Takeover) -> int:
    deployment = await world.kcp.get(DEPLOYMENTS, FORMER, KCP)
    return int(deployment["spec"]["replicas"])


async def access_labels(world: Takeover) -> Any:
    return (await world.kcp.get(SECRETS, ACCESS, KCP)).metadata.labels


async def test_adopt_refuses_while_somebody_unknown_holds_the_lease(
    world: Takeover, before: dict[str, JsonObject]
) -> None:
    assert before
    await renew(world, "laptop_1f6f9a3e", seconds=600)
    result = await klm(world, "--yes")
    assert (result.code, result.text) == (2, "")
    assert "is held by laptop_1f6f9a3e, which klm may not stop" in result.errors
    assert await replicas(world) == 1
    await renew(world)


async def test_adopt_asks_before_each_step_and_changes_nothing_without_an_answer(world: Takeover) -> None:
    result = await klm(world)
    assert (result.code, result.text) == (2, "")
    assert "nothing more changed" in result.errors
    assert names.MANAGED_BY not in await access_labels(world)


async def test_adopt_labels_stops_the_former_version_and_waits_for_its_lease(world: Takeover) -> None:
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(klm(world, "--yes"))

        async def is_stopped() -> bool:
            return await replicas(world) == 0

        await eventually(is_stopped, what="the former version is stopped")
        assert (await access_labels(world))[names.MANAGED_BY] == names.LIFECYCLE_MANAGER
        ended = {"spec": {"renewTime": "2026-08-01T00:00:00.000000Z"}}
        await world.kcp.merge_patch(LEASES, LEASE, ended, KCP, field_manager="former")
        result = await running
    assert result.code == 0, result.errors
    assert result.lines[-1] == "this version may work: install it now, if it is not"
    again = await klm(world, "--yes")
    assert (again.code, again.lines) == (0, result.lines[-1:])


async def test_way_back_gives_everything_back(world: Takeover, before: dict[str, JsonObject]) -> None:
    async with world.running():
        await eventually(lambda: is_settled(world, OLD), what="the module is ready")

        async def is_recorded() -> bool:
            return bool((await world.kyma()).status.records.watcher)

        await eventually(is_recorded, what="the Watcher is installed")
    part = builders.as_written(builders.sync_resource("left", text="", kyma=KYMA, module="other"))
    part["metadata"]["finalizers"] = [names.SYNC_RESOURCE_FINALIZER, "example.com/other"]
    await world.kcp.apply(SYNC_RESOURCES, "left", part, KCP, field_manager="test")

    result = await klm(world, "--back", "--yes")

    assert result.code == 0, result.text + result.errors
    after = await everything(world)
    assert uids(after) == uids(before)
    for version, kind, name in OBJECTS:
        live = await world.stored(version, kind, name)
        metadata = live["metadata"]
        assert managers_of(live) == {marks.APPLIER}
        assert metadata["labels"][names.MANAGED_BY] == "kyma"
        assert names.MODULE_NAME not in metadata["labels"]
        assert metadata["annotations"][names.DEPRECATED_OWNED_BY] == f"{KCP}/{MANIFEST}"
        assert names.OWNED_BY not in metadata["annotations"]
    for entry in WATCHER:
        live = after[f"{entry.kind} {entry.name}"]
        assert managers_of(live) == {names.LIFECYCLE_MANAGER}, entry
        assert live["metadata"]["labels"][names.MANAGED_BY] == "kyma"
    for entry in WATCHER_ONLY_OURS:
        assert await world.live(entry.api_version, entry.kind, entry.name) is None
    raw = await world.skr.mapper.resource(KYMAS.api_version, MODULE_RELEASE_METAS.kind)
    for live in (await world.skr.list(raw, SKR)).items:
        assert "catalog-sync" in {each["manager"] for each in live["metadata"]["managedFields"]}
        assert live["metadata"]["labels"][names.MANAGED_BY] == "kyma"
    cr = after["Kyma default"]["metadata"]
    assert cr["labels"][names.MANAGED_BY] == "kyma"
    assert cr["annotations"][names.DEPRECATED_OWNED_BY] == f"{KCP}/{KYMA}"


async def test_control_plane_is_as_the_former_version_expects_it(world: Takeover) -> None:
    kyma = await world.kcp.get(RAW_KYMAS, KYMA, KCP)
    assert "records" not in kyma["status"]
    types = {each["type"] for each in kyma["status"]["conditions"]}
    assert types <= {"Modules", "ModuleCatalog", "SKRWebhook", "CRDsSync", "SKRImagePullSecretSync"}
    manifest = await world.manifest()
    assert {each.type for each in manifest.status.conditions} == {"Resources", "Installation", "ModuleCR"}
    assert {"label-removal-finalizer", "resource.kyma-project.io/finalizer"} <= set(manifest.metadata.finalizers)
    left = await world.kcp.get(SYNC_RESOURCES, "left", KCP)
    assert left.metadata.finalizers == ("example.com/other",)
    secrets = {each.metadata.name for each in (await world.kcp.list(SECRETS, KCP)).items}
    assert ACCESS in secrets
    assert {"klm-watcher", f"{KYMA}-webhook-tls"}.isdisjoint(secrets)  # of two it would use none
    assert names.MANAGED_BY not in await access_labels(world)
    assert await replicas(world) == 1


async def test_next_apply_of_the_former_version_removes_what_it_no_longer_has(
    world: Takeover, before: dict[str, JsonObject]
) -> None:
    held = {(each["kind"], each["metadata"]["name"]): each for each in start("skr-1", REMOVED_WATCHER)}
    for document in MODULE.objects(NEW):
        metadata = held[document["kind"], document["metadata"]["name"]]["metadata"]
        document["metadata"] |= {"labels": metadata["labels"], "annotations": metadata["annotations"]}
        await surroundings.apply(world.skr, document, marks.APPLIER)
    live = await world.stored("apps/v1", "Deployment", MODULE.name)
    assert live["metadata"]["uid"] == before[f"Deployment {MODULE.name}"]["metadata"]["uid"]
    pod = live["spec"]["template"]["spec"]
    assert [each["name"] for each in pod["containers"]] == ["manager"]
    assert not pod.get("volumes")
    secrets = world.issued.secrets_in(world.leaf)
    for kind in ("ValidatingWebhookConfiguration", "Deployment"):
        watcher_object = content_of(filled(held[kind, "skr-webhook"], secrets))
        await surroundings.apply(world.skr, watcher_object, names.LIFECYCLE_MANAGER)
    webhooks = await world.stored("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "skr-webhook")
    assert {each["name"] for each in webhooks["webhooks"]} == {
        "kcp-system.klm-watcher.operator.kyma-project.io",
        "kcp-system.removed.operator.kyma-project.io",
    }
    watcher = await world.stored("apps/v1", "Deployment", "skr-webhook")
    spec = watcher["spec"]["template"]["spec"]
    assert [each["name"] for each in spec["volumes"]] == ["ssl"]
    assert [each["name"] for each in spec["containers"]] == ["server"]
    assert watcher["metadata"]["uid"] == before["Deployment skr-webhook"]["metadata"]["uid"]


async def test_second_takeover_finds_what_the_first_found(world: Takeover) -> None:
    result = await klm(world, "--check", "--sample", "1", "-o", "json")
    assert result.code == 0, result.text
    (cluster,) = json.loads(result.text)["clusters"]
    assert (cluster["moved"], cluster["own"]) == (5, 0)
    assert [each.metadata.name for each in (await world.kcp.list(MANIFESTS, KCP)).items] == [MANIFEST]
