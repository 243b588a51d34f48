"""The Kyma CR in an SKR, whatever its users do there: the controller on simulated clusters, turn by turn."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from kube_runtime import KubeError, NotFound, Resource
from kube_simulation import Refuse
from lifecycle_manager import catalog_sync
from lifecycle_manager.catalog_sync import CatalogSettings
from lifecycle_manager.contract.conditions import CATALOG, WEBHOOK, write_condition
from lifecycle_manager.contract.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    KYMAS,
    MANIFESTS,
    MODULE_RELEASE_METAS,
    MODULE_TEMPLATES,
    RAW_KYMAS,
)
from lifecycle_manager.contract.signals import ClusterReplaced
from lifecycle_manager.kyma.reasons import KYMA_CREATED_AGAIN
from lifecycle_manager.kyma.rules import MAX_REPEATS
from lifecycle_manager.kyma.writes import CREATED_AGAIN
from lifecycle_manager_api import ConditionStatus, State, find, names
from tests import builders
from tests.kinds import NAMESPACES
from tests.world import KCP, NO_API, World, is_manifest, key_of, open_world

SKR = names.SKR_NAMESPACE


def add_catalog(world: World) -> None:
    catalog_sync.setup(world.manager, world.connections, world.offers, CatalogSettings(interval_seconds=0.0))


async def test_quiet_kyma_is_read_and_never_written(world: World) -> None:
    await world.register()
    await world.introduced()
    before = world.requests
    await world.reconcile(times=3)
    assert world.writes_to("demo", before) == []
    assert world.writes_to("kcp", before) == []


async def test_label_that_is_removed_in_kcp_is_removed_in_the_skr(world: World) -> None:
    await world.register(**{names.BETA: "true", names.REGION: "eu"})
    await world.introduced()
    await world.label(names.BETA, None)
    await world.reconcile(times=2)
    labels = (await world.in_skr()).metadata.labels
    assert names.BETA not in labels
    assert labels[names.REGION] == "eu"
    before = world.requests
    await world.reconcile(times=2)
    assert world.writes_to("demo", before) == []


async def test_kcp_label_that_users_set_themselves_is_removed(world: World) -> None:
    await world.register()
    await world.introduced()
    skr = await world.skr()
    patch = {"metadata": {"labels": {names.BETA: "true", "mine": "stays"}}}
    await skr.merge_patch(KYMAS, "default", patch, SKR, field_manager="kubectl")
    await world.reconcile(times=2)
    labels = (await world.in_skr()).metadata.labels
    assert names.BETA not in labels
    assert labels["mine"] == "stays"
    before = world.requests
    await world.reconcile(times=2)
    assert world.writes_to("demo", before) == []


async def test_status_that_users_write_is_corrected_once(world: World) -> None:
    await world.register()
    await world.introduced()
    skr = await world.skr()
    foreign = builders.condition("Mine", "Mine", status="True")
    status = {"state": "Ready", "conditions": [foreign], "modules": [{"name": "x", "state": "Ready"}]}
    await skr.merge_patch(KYMAS, "default", {"status": status}, SKR, subresource="status", field_manager="kubectl")
    await world.reconcile(times=2)
    outer, inner = await world.in_kcp(), await world.in_skr()
    assert inner.status.state == outer.status.state
    assert inner.status.modules == ()
    assert {each.type for each in inner.status.conditions} == {each.type for each in outer.status.conditions}
    before = world.requests
    await world.reconcile(times=2)
    assert world.writes_to("demo", before) == []


@pytest.mark.parametrize("kind", ["Kyma", "ModuleTemplate", "ModuleReleaseMeta"])
async def test_crd_that_users_delete_is_created_again_with_its_objects(world: World, kind: str) -> None:
    add_catalog(world)
    await world.register()
    await world.offer(builders.template(), builders.release(regular="0.1.0"))
    await world.introduced()
    await world.turn("catalog", key_of("demo"))
    skr = await world.skr()
    plural = {"Kyma": "kymas", "ModuleTemplate": "moduletemplates", "ModuleReleaseMeta": "modulereleasemetas"}[kind]
    await skr.delete(CUSTOM_RESOURCE_DEFINITIONS, f"{plural}.{names.GROUP}")
    await world.reconcile(times=2)
    for _ in range(2):  # the kinds take turns
        await world.turn("catalog", key_of("demo"))
    assert (await world.in_skr()).spec.channel == "regular"
    assert await skr.get(MODULE_TEMPLATES, "cloud-resources-0.1.0", SKR)
    assert await skr.get(MODULE_RELEASE_METAS, "cloud-resources", SKR)


async def test_new_kyma_has_a_list_of_modules_to_which_a_json_patch_can_add(world: World) -> None:
    await world.register()
    await world.reconcile(times=2)
    created = await (await world.skr()).get(RAW_KYMAS, names.DEFAULT_KYMA_NAME, SKR)
    assert created["spec"]["modules"] == []


async def test_server_side_apply_by_users_changes_and_removes_default_modules(world: World) -> None:
    """As Flux and `kubectl apply --server-side` do with a Kyma CR that users keep in Git."""
    await world.register("demo", "api", "nats")
    await world.reconcile(times=2)
    skr = await world.skr()
    for channel, modules in (("fast", ("api", "nats")), ("fast", ("api",))):
        spec = {"channel": channel, "modules": [{"name": each, "managed": True} for each in modules]}
        await skr.apply(RAW_KYMAS, "default", {"spec": spec}, SKR, field_manager="kubectl", force=False)
        inner = await world.in_skr()
        assert (inner.spec.channel, tuple(each.name for each in inner.spec.modules)) == (channel, modules)
    before = world.requests
    await world.reconcile(times=3)
    assert {each.subresource for each in world.writes_to("demo", before)} <= {"status"}


async def test_namespace_that_users_delete_is_created_again_with_its_objects(world: World) -> None:
    add_catalog(world)
    await world.register(names.DEFAULT_KYMA_NAME)
    world_name = names.DEFAULT_KYMA_NAME
    await world.offer(builders.template(), builders.release(regular="0.1.0"))
    await world.introduced(world_name)
    await world.turn("catalog", key_of(world_name))
    skr = await world.skr(world_name)
    await skr.delete(NAMESPACES, SKR)
    with pytest.raises(NotFound):
        await world.in_skr(world_name)
    await world.reconcile(world_name, times=2)
    for _ in range(2):
        await world.turn("catalog", key_of(world_name))
    assert (await world.in_skr(world_name)).status.state == (await world.in_kcp(world_name)).status.state
    assert await skr.get(MODULE_TEMPLATES, "cloud-resources-0.1.0", SKR)
    assert await skr.get(MODULE_RELEASE_METAS, "cloud-resources", SKR)


async def test_status_of_thousands_of_modules_with_huge_names_is_limited(world: World) -> None:
    await world.register()
    await world.offer(builders.template(installs=True), builders.release(regular="0.1.0"))
    await world.introduced()
    await world.choose("cloud-resources", "x" * 100_000, *(f"none{number}" for number in range(3_000)))
    await world.reconcile()
    assert await world.manifests() == {"demo-cloud-resources": "0.1.0"}
    for kyma in (await world.in_kcp(), await world.in_skr()):
        assert kyma.status.state == "Warning"
        assert len(msgspec.json.encode(kyma.status)) < 300_000
        modules = find(kyma.status.conditions, "Modules")
        assert modules is not None
        assert "of 3002 modules" in modules.message
    assert 0 < len(world.skr_events) < 50
    assert 0 < len(world.events) < 50


async def test_status_of_modules_with_huge_channels_is_limited(world: World) -> None:
    await world.register()
    await world.introduced()
    skr = await world.skr()
    crd = await skr.get(CUSTOM_RESOURCE_DEFINITIONS, KYMAS.plural_name)  # of which users may make what they want
    for version in crd["spec"]["versions"]:
        anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        version["schema"]["openAPIV3Schema"].get("properties", {})["spec"] = anything
    definition = {"spec": {"versions": crd["spec"]["versions"]}}
    await skr.merge_patch(CUSTOM_RESOURCE_DEFINITIONS, KYMAS.plural_name, definition)
    modules = [{"name": f"none{number}"} for number in range(100)]
    spec = {"channel": "x" * 100_000, "modules": [{**modules[0], "channel": "y" * 100_000}, *modules[1:]]}
    await skr.merge_patch(RAW_KYMAS, names.DEFAULT_KYMA_NAME, {"spec": spec}, SKR)
    await world.reconcile()
    for kyma in (await world.in_kcp(), await world.in_skr()):
        assert kyma.status.state == "Warning"
        assert len(kyma.status.modules) == 100
        assert len(msgspec.json.encode(kyma.status)) < 100_000


async def test_module_that_kcp_refuses_does_not_delay_others(world: World) -> None:
    for module in ("api", "nats"):
        await world.offer(builders.template(module, "1.0.0", installs=True), builders.release(module, regular="1.0.0"))
    await world.register("demo", "api", "nats")
    with world.cluster("kcp").ruled_by(Refuse(is_manifest("api"), refused=NO_API)), pytest.raises(KubeError):
        await world.reconcile()
    assert list(await world.manifests()) == ["demo-nats"]
    assert ("ModuleNotWritten", "no api today (403 Forbidden)") in world.events
    assert [each.name for each in (await world.in_kcp()).status.modules] == ["api", "nats"]
    await world.reconcile()
    assert list(await world.manifests()) == ["demo-api", "demo-nats"]


async def test_crd_that_changes_in_kcp_is_applied_to_the_skr_once(world: World) -> None:
    await world.register()
    await world.introduced()
    recorded = (await world.in_kcp()).status.records.kyma_crd
    await world.change_crd({"spec": {"names": {"shortNames": ["ky"]}}})
    before = world.requests
    await world.reconcile()
    assert [record.name for record in world.writes_to("demo", before)] == [SKR, KYMAS.plural_name]
    assert [record.name for record in world.writes_to("kcp", before)] == ["demo"]
    definition = await (await world.skr()).get(CUSTOM_RESOURCE_DEFINITIONS, KYMAS.plural_name)
    assert definition["spec"]["names"]["shortNames"] == ["ky"]
    assert (await world.in_kcp()).status.records.kyma_crd != recorded
    before = world.requests
    await world.reconcile(times=2)
    assert world.writes_to("demo", before) == world.writes_to("kcp", before) == []


async def test_restored_cluster_with_an_older_crd_gets_that_of_kcp(world: World) -> None:
    await world.register()
    await world.introduced()
    skr = await world.skr()
    brought = await skr.get(CUSTOM_RESOURCE_DEFINITIONS, KYMAS.plural_name)
    older = [{**each, "additionalPrinterColumns": []} for each in brought["spec"]["versions"]]
    await skr.merge_patch(CUSTOM_RESOURCE_DEFINITIONS, KYMAS.plural_name, {"spec": {"versions": older}})
    await world.turn("kyma", key_of("demo"), ClusterReplaced("demo"))
    assert (await skr.get(CUSTOM_RESOURCE_DEFINITIONS, KYMAS.plural_name))["spec"] == brought["spec"]


async def test_kyma_that_is_created_again_is_reported_on_both_sides(world: World) -> None:
    await world.register("demo", "tpyo")
    await world.introduced()
    again = (KYMA_CREATED_AGAIN, CREATED_AGAIN)
    assert again not in {*world.events, *world.skr_events}
    await (await world.skr()).delete(KYMAS, "default", SKR)
    await world.reconcile(times=3)
    assert world.events.count(again) == world.skr_events.count(again) == 1


async def test_events_are_recorded_once_on_both_sides(world: World) -> None:
    await world.register("demo", "tpyo")
    await world.introduced()
    recorded = [reason for reason, _ in world.skr_events]
    assert recorded.count("ModuleWarning") == [reason for reason, _ in world.events].count("ModuleWarning") == 1
    await world.reconcile(times=3)
    assert [reason for reason, _ in world.skr_events] == recorded
    await world.choose(name="demo")
    await world.reconcile()
    assert ("ModuleRemoved", "module tpyo is removed") in world.skr_events
    assert ("ModuleRemoved", "module tpyo is removed") in world.events


async def test_skr_of_a_skipped_kyma_gets_no_requests(world: World) -> None:
    add_catalog(world)
    await world.register("demo", "cloud-resources")
    await world.offer(builders.template(installs=True), builders.release(regular="0.1.0"))
    await world.introduced()
    await world.label(names.SKIP_RECONCILIATION, "true")
    before = world.requests
    await world.reconcile()
    await world.turn("catalog", key_of("demo"))
    assert world.cluster("demo").requests(since=before) == []
    assert world.writes_to("kcp", before) == []


async def report_ready(world: World) -> None:
    """Report the parts of the Kyma as ready, and its modules as installed, in place of their controllers."""
    for part in (WEBHOOK, CATALOG):
        ready: tuple[ConditionStatus, str, str] = ("True", "Ready", "")
        kyma = await world.in_kcp()
        await write_condition(world.kcp, kyma, part, ready, now=world.clock.now(), field_manager=part)
    for each in (await world.kcp.list(MANIFESTS, KCP)).items:
        status = {"status": {"state": "Ready", "observedGeneration": each.metadata.generation}}
        await world.kcp.merge_patch(MANIFESTS, each.metadata.name, status, KCP, subresource="status")


@asynccontextmanager
async def ready_world() -> AsyncIterator[World]:
    """Open a world with a Kyma that is ready, of whose module there is a new version."""
    async with open_world() as world:
        await world.register("demo", "cloud-resources")
        await world.offer(builders.template(installs=True), builders.release(regular="0.1.0"))
        await world.introduced()
        await report_ready(world)
        await world.reconcile()
        assert (await world.in_kcp()).status.state is State.READY
        await world.offer(builders.template(version="0.2.0", installs=True))
        yield world


async def shown(world: World) -> set[tuple[State, str]]:
    """Return state and version of the module, as the statuses in KCP and in the SKR have them."""
    kymas = (await world.in_kcp(), await world.in_skr())
    return {(module.state, module.version) for kyma in kymas for module in kyma.status.modules}


async def test_module_that_is_updated_is_shown_as_processing_until_it_is_ready() -> None:
    async with ready_world() as world:
        await world.offer(builders.release(regular="0.2.0"))
        before = world.requests
        await world.reconcile()
        assert await shown(world) == {(State.PROCESSING, "0.2.0")}
        assert [each.resource for each in world.writes_to("kcp", before)] == [MANIFESTS.plural_name, KYMAS.plural_name]
        assert [each.subresource for each in world.writes_to("demo", before)] == ["status"]
        await report_ready(world)
        before = world.requests
        await world.reconcile()
        assert await shown(world) == {(State.READY, "0.2.0")}
        assert [each.subresource for each in world.writes_to("kcp", before)] == ["status"]
        assert [each.subresource for each in world.writes_to("demo", before)] == ["status"]
        assert ("ModuleReady", "module cloud-resources 0.2.0 is ready") in world.skr_events


async def test_module_stays_when_its_kyma_loses_the_label_that_allowed_it(world: World) -> None:
    await world.offer(builders.template(installs=True), builders.release(regular="0.1.0", spec={"beta": True}))
    await world.register("demo", "cloud-resources", **{names.BETA: "true"})
    await world.introduced()
    assert await world.manifests() == {"demo-cloud-resources": "0.1.0"}
    await world.label(names.BETA, None)
    await world.offer(builders.template(version="0.2.0", installs=True))
    await world.offer(builders.release(regular="0.2.0", spec={"beta": True}))
    await world.reconcile(times=2)
    assert await world.manifests() == {"demo-cloud-resources": "0.1.0"}
    (module,) = (await world.in_skr()).status.modules
    assert (module.state, module.version) == ("Error", "0.1.0")
    await world.choose()
    await world.reconcile()
    await world.uninstall()
    assert await world.manifests() == {}


async def test_kyma_cr_that_can_not_be_read_is_reported_and_changes_no_module(world: World) -> None:
    """Users who change the CRD can write what it would have refused."""
    await world.register("demo", "cloud-resources")
    await world.offer(builders.template(installs=True), builders.release(regular="0.1.0"))
    await world.introduced()
    skr = await world.skr()
    definition = await skr.get(CUSTOM_RESOURCE_DEFINITIONS, f"kymas.{names.GROUP}")
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    versions = [{**each, "schema": {"openAPIV3Schema": anything}} for each in definition["spec"]["versions"]]
    patch = {"spec": {"versions": versions}}
    await skr.merge_patch(CUSTOM_RESOURCE_DEFINITIONS, f"kymas.{names.GROUP}", patch)
    raw: Resource[Any] = Resource.dynamic(names.GROUP, "v1beta2", "Kyma", "kymas", namespaced=True)
    await skr.merge_patch(raw, "default", {"spec": {"modules": "none, please"}}, SKR)
    with pytest.raises(KubeError):
        await world.reconcile()
    kyma = await world.in_kcp()
    reachable = find(kyma.status.conditions, "SKRReachable")
    assert reachable is not None
    assert (kyma.status.state, reachable.reason) == ("Error", "SKRObjectUnreadable")
    assert "modules" in reachable.message
    assert await world.manifests() == {"demo-cloud-resources": "0.1.0"}


async def test_skr_that_deletes_its_kyma_cr_each_time_counts_as_replaced_a_few_times(world: World) -> None:
    await world.register()
    await world.introduced()
    replaced: list[ClusterReplaced] = []
    world.manager.on(ClusterReplaced, replaced.append)
    skr = await world.skr()
    for _ in range(MAX_REPEATS + 2):
        await skr.delete(KYMAS, "default", SKR)
        await world.reconcile()
    assert len(replaced) == MAX_REPEATS
    await world.reconcile()
    await skr.delete(KYMAS, "default", SKR)
    await world.reconcile()
    assert len(replaced) == MAX_REPEATS + 1
