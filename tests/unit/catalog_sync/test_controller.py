"""The catalog in a simulated SKR: requests, triggers and conditions."""

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Any

import pytest

from kube_runtime import KubeError, NotFound, NotServed
from kube_simulation import ApiRequest, Freeze, Refuse
from lifecycle_manager.catalog_sync.snapshot import MAX_SILENT_SECONDS
from lifecycle_manager.catalog_sync.status import REMOVING
from lifecycle_manager.contract.conditions import (
    CATALOG,
    CATALOG_SYNC_FAILED,
    CATALOG_SYNCED,
    NO_WATCHER_EVENTS,
    WEBHOOK,
    ConditionContent,
    write_condition,
)
from lifecycle_manager.contract.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    KYMAS,
    MODULE_RELEASE_METAS,
    MODULE_TEMPLATES,
)
from lifecycle_manager.contract.signals import ClusterReplaced, ObjectChanged, ObjectReference, ResyncRequested
from lifecycle_manager.options.shared import PurgeSettings
from lifecycle_manager.skr.announcement import FIRST_RETRY_SECONDS, TIMEOUT_SECONDS
from lifecycle_manager_api import Condition, ModuleTemplate, as_document, find, names
from tests import builders
from tests.unit.catalog_sync.worlds import catalog_world, sync
from tests.waiting import eventually, is_gone
from tests.world import NO_API, World

SKR = names.SKR_NAMESPACE
TEMPLATE = ObjectReference(names.GROUP, ModuleTemplate.KIND, SKR, "api-1.0.0")
CRD = MODULE_TEMPLATES.plural_name


@asynccontextmanager
async def brought() -> AsyncIterator[World]:
    """Open a world whose SKR has the first of two versions."""
    async with catalog_world(interval_seconds=600.0) as world:
        await world.offer(builders.template("api", "1.0.0"), builders.template("api", "2.0.0"))
        await world.offer(builders.release("api", regular="1.0.0"))
        await world.introduced()
        await sync(world)
        yield world


async def condition_of(world: World) -> Condition | None:
    return find((await world.in_kcp()).status.conditions, CATALOG)


async def is_synced(world: World) -> bool:
    condition = await condition_of(world)
    return condition is not None and condition.reason == CATALOG_SYNCED


async def test_crds_that_users_delete_are_created_again_with_a_newer_catalog() -> None:
    """The catalog changes before anything checks whether its CRDs still exist."""
    async with catalog_world() as world:
        await world.offer(builders.template(), builders.release(regular="0.1.0"))
        await world.introduced()
        await sync(world)
        skr = await world.skr()
        for plural in ("moduletemplates", "modulereleasemetas"):
            await skr.delete(CUSTOM_RESOURCE_DEFINITIONS, f"{plural}.{names.GROUP}")
        await world.offer(builders.template(version="0.2.0"), builders.release(regular="0.2.0"))
        await sync(world)
        assert await skr.get(MODULE_TEMPLATES, "cloud-resources-0.2.0", SKR)


async def test_first_sync_applies_crds_then_objects_and_reads_nothing() -> None:
    async with catalog_world() as world:
        await world.offer(builders.template(), builders.release(regular="0.1.0"))
        await world.introduced()
        before = world.requests
        await sync(world)
        writes = world.writes_to("demo", before)
        kinds = [record.resource.partition(".")[0] for record in writes]
        assert kinds[:2] == ["customresourcedefinitions"] * 2
        assert sorted(kinds[2:]) == ["modulereleasemetas", "moduletemplates"]
        assert {record.verb for record in writes} == {"apply"}
        lists = [record for record in world.cluster("demo").requests(since=before) if record.verb == "list"]
        assert not [record for record in lists if record.resource.startswith("module")]


async def test_only_objects_that_differ_are_applied() -> None:
    async with catalog_world() as world:
        await world.offer(builders.template(), builders.release(regular="0.1.0"))
        await world.introduced()
        await sync(world)
        await world.offer(builders.template("api", "0.2.0"))
        before = world.requests
        await sync(world)
        assert [record.name for record in world.writes_to("demo", before)] == ["api-0.2.0"]


async def test_check_without_changes_lists_the_resource_versions_of_both_kinds() -> None:
    async with catalog_world() as world:
        await world.offer(builders.template(), builders.release(regular="0.1.0"))
        await world.introduced()
        await sync(world)
        before = world.requests
        await sync(world)
        records = world.cluster("demo").requests(since=before)
        assert [record.verb for record in records] == ["list", "list"]
        assert {record.resource.partition(".")[0] for record in records} == {"moduletemplates", "modulereleasemetas"}
        assert world.writes_to("kcp", before) == []


async def test_catalog_that_is_not_due_needs_no_request() -> None:
    async with catalog_world(interval_seconds=600.0) as world:
        await world.offer(builders.template(), builders.release(regular="0.1.0"))
        await world.introduced()
        await sync(world)
        before = world.requests
        assert (await sync(world)).requeue_after == 600.0
        assert world.cluster("demo").requests(since=before) == []
        world.clock.advance(600)
        await sync(world)
        assert len(world.cluster("demo").requests(since=before)) == 2


async def test_new_version_is_written_and_recorded_at_once() -> None:
    async with brought() as world:
        before, known = world.requests, (await world.in_kcp()).status.records
        await world.offer(builders.release("api", regular="2.0.0"))
        assert (await sync(world)).requeue_after == 600.0
        assert sorted((each.verb, each.name) for each in world.writes_to("demo", before)) == [
            ("apply", "api"),
            ("apply", "api-2.0.0"),
            ("delete", "api-1.0.0"),
        ]
        assert (await world.in_kcp()).status.records != known
        requests = world.cluster("demo").requests(since=before)
        await sync(world)
        assert world.cluster("demo").requests(since=before) == requests


async def test_refused_write_that_could_not_be_reported_is_looked_after_all_the_same() -> None:
    async with brought() as world:
        await world.offer(builders.release("api", regular="2.0.0"))
        release = Refuse(lambda request: request.is_write and "modulereleasemetas" in request.path)
        report = Refuse(lambda request: request.is_write and "/kymas/" in request.path)
        skr, kcp = world.cluster("demo"), world.cluster("kcp")
        with skr.ruled_by(release), kcp.ruled_by(report), suppress(KubeError):
            await sync(world)
        assert await is_synced(world), "as it was reported before"
        await world.offer(builders.release("api", regular="1.0.0"))
        await sync(world)
        assert not await _exists(await world.skr(), MODULE_TEMPLATES, "api-2.0.0")


async def test_object_of_a_user_in_the_place_of_one_of_lm_stays_at_a_new_version() -> None:
    async with brought() as world:
        skr = await world.skr()
        await skr.delete(MODULE_TEMPLATES, "api-1.0.0", SKR)
        own = builders.template("api", "1.0.0", namespace=SKR, uid="", resourceVersion="")
        await skr.create(MODULE_TEMPLATES, as_document(own), SKR, field_manager="user")
        await world.offer(builders.release("api", regular="2.0.0"))
        await sync(world, ObjectChanged("demo", TEMPLATE, "CREATE", uid="1"))
        assert await _exists(skr, MODULE_TEMPLATES, "api-1.0.0")
        assert await _exists(skr, MODULE_TEMPLATES, "api-2.0.0")


async def test_record_that_the_cache_does_not_have_yet_counts() -> None:
    async with catalog_world() as world:
        await world.offer(builders.template("api", "1.0.0"), builders.release("api", regular="1.0.0"))
        await world.introduced()
        kcp = world.cluster("kcp")
        world.unseen.add("kymas")
        with kcp.ruled_by(Freeze(kcp.version, lambda request: request.verb == "watch" and "/kymas" in request.path)):
            await sync(world)
            before = world.requests
            await sync(world)
            assert [record.verb for record in world.cluster("demo").requests(since=before)] == ["list", "list"]
        world.unseen.clear()


async def test_refused_objects_are_reported_and_all_others_applied() -> None:
    def is_template(request: ApiRequest) -> bool:
        return request.is_write and "/moduletemplates/" in request.path

    async with catalog_world() as world:
        modules = ["".join(each) for each in itertools.islice(itertools.product("abcdefg", repeat=3), 300)]
        for module in modules:
            await world.offer(builders.template(module, "1.0.0"))
        await world.offer(builders.release(modules[7], regular="1.0.0"))
        await world.introduced()
        with world.cluster("demo").ruled_by(Refuse(is_template, refused=NO_API)), pytest.raises(KubeError):
            await sync(world)
        condition = await condition_of(world)
        assert condition is not None
        assert (condition.status, condition.reason) == ("False", CATALOG_SYNC_FAILED)
        assert "no api today" in condition.message
        skr = await world.skr()
        assert await skr.get(MODULE_RELEASE_METAS, modules[7], SKR)
        await sync(world)
        assert len((await skr.list(MODULE_TEMPLATES, SKR)).items) == 300


async def test_failed_sync_checks_the_reported_kind_again() -> None:
    async with catalog_world(interval_seconds=600.0) as world:
        await world.offer(builders.template("api", "1.0.0"), builders.release("api", regular="1.0.0"))
        await world.introduced()
        await sync(world)
        skr = await world.skr()
        await skr.delete(MODULE_TEMPLATES, "api-1.0.0", SKR)
        cause = ObjectChanged("demo", TEMPLATE, "DELETE")
        with world.cluster("demo").ruled_by(Refuse(refused=NO_API)), pytest.raises(KubeError):
            await sync(world, cause)
        await sync(world)
        assert await skr.get(MODULE_TEMPLATES, "api-1.0.0", SKR)


async def test_cluster_that_replaces_another_gets_the_whole_catalog_at_once() -> None:
    async with catalog_world(interval_seconds=600.0) as world:
        await world.offer(builders.template("api", "1.0.0"), builders.release("api", regular="1.0.0"))
        await world.introduced()
        await sync(world)
        published: list[ClusterReplaced] = []
        world.manager.on(ClusterReplaced, published.append)
        await world.reconcile()
        assert published == []
        await world.move("restored")
        await world.reconcile(times=2)
        assert published == [ClusterReplaced("demo")]
        await sync(world, *published)
        skr = await world.skr("restored")
        assert len(await skr.list_revisions(MODULE_TEMPLATES, SKR)) == 1
        assert len(await skr.list_revisions(MODULE_RELEASE_METAS, SKR)) == 1
        brought = await skr.get(CUSTOM_RESOURCE_DEFINITIONS, CRD)
        older = [{**each, "additionalPrinterColumns": []} for each in brought["spec"]["versions"]]
        await skr.merge_patch(CUSTOM_RESOURCE_DEFINITIONS, CRD, {"spec": {"versions": older}})
        await sync(world, *published)
        assert (await skr.get(CUSTOM_RESOURCE_DEFINITIONS, CRD))["spec"] == brought["spec"]


@pytest.mark.parametrize("purge", [None, timedelta(minutes=5)])
async def test_object_with_a_foreign_finalizer_keeps_its_kyma_until_the_purge(purge: timedelta | None) -> None:
    async with catalog_world(purge=PurgeSettings(enabled=purge is not None, timeout=purge or timedelta())) as world:
        await world.offer(builders.template("api", "1.0.0"), builders.release("api", regular="1.0.0"))
        await world.introduced()
        await sync(world)
        await world.without_parts(WEBHOOK)
        skr = await world.skr()
        held = {"metadata": {"finalizers": ["example.com/nobody-is-there"]}}
        await skr.merge_patch(MODULE_TEMPLATES, "api-1.0.0", held, SKR, field_manager="user")
        await world.kcp.delete(KYMAS, "demo", names.KCP_NAMESPACE)
        await world.reconcile(times=2)
        await sync(world)
        leaving = await world.in_kcp()
        assert leaving.metadata.deletion_timestamp is not None
        condition = await condition_of(world)
        assert condition is not None
        assert condition.reason == REMOVING
        world.clock.time = leaving.metadata.deletion_timestamp + timedelta(minutes=5)
        await sync(world)
        await sync(world)
        await world.reconcile(times=3)
        assert await is_gone(world.in_kcp()) is (purge is not None)


@pytest.mark.parametrize(
    "signal",
    [ObjectChanged("demo", TEMPLATE, "DELETE"), ResyncRequested("demo"), ClusterReplaced("demo")],
    ids=lambda signal: type(signal).__name__,
)
async def test_signal_has_a_deleted_object_created_again(signal: object) -> None:
    async with catalog_world(interval_seconds=600.0) as world:
        await world.offer(builders.template("api", "1.0.0"), builders.release("api", regular="1.0.0"))
        async with world.running():
            await eventually(lambda: is_synced(world))
            skr = await world.skr()
            await eventually(lambda: _exists(skr, MODULE_TEMPLATES, "api-1.0.0"))
            await skr.delete(MODULE_TEMPLATES, "api-1.0.0", SKR)
            world.manager.publish(signal)
            await eventually(lambda: _exists(skr, MODULE_TEMPLATES, "api-1.0.0"))


@pytest.mark.parametrize("operation", ["UPDATE", "DELETE"])
async def test_event_that_precedes_its_write_is_not_lost(operation: str) -> None:
    async with brought() as world:
        event = await event_of_now(world, operation)
        assert (await sync(world, event)).requeue_after == 2 * FIRST_RETRY_SECONDS
        skr = await world.skr()
        if operation == "UPDATE":
            edit = {"spec": {"version": "6.6.6"}}
            await skr.merge_patch(MODULE_TEMPLATES, "api-1.0.0", edit, SKR, field_manager="user")
        else:
            await skr.delete(MODULE_TEMPLATES, "api-1.0.0", SKR)
        assert (await sync(world)).requeue_after == 600.0
        assert (await skr.get(MODULE_TEMPLATES, "api-1.0.0", SKR)).spec.version == "1.0.0"


async def test_deletion_of_an_object_with_a_finalizer_is_shown_by_another_resource_version() -> None:
    async with brought() as world:
        skr = await world.skr()
        held = {"metadata": {"finalizers": ["example.com/nobody-is-there"]}}
        await skr.merge_patch(MODULE_TEMPLATES, "api-1.0.0", held, SKR, field_manager="user")
        event = await event_of_now(world, "DELETE")
        assert (await sync(world, event)).requeue_after == 2 * FIRST_RETRY_SECONDS
        await skr.delete(MODULE_TEMPLATES, "api-1.0.0", SKR)
        assert (await sync(world)).requeue_after == 600.0


async def test_event_of_a_refused_change_is_dropped_after_the_timeout_of_webhooks() -> None:
    async with brought() as world:
        await sync(world, await event_of_now(world, "UPDATE"))
        world.clock.advance(TIMEOUT_SECONDS)
        assert (await sync(world)).requeue_after == 600.0
        before = world.requests
        await sync(world)
        assert world.cluster("demo").requests(since=before) == []


async def test_event_that_precedes_its_write_outlives_a_failed_check() -> None:
    async with brought() as world:
        event = await event_of_now(world, "DELETE")
        with world.cluster("demo").ruled_by(Refuse(refused=NO_API)), pytest.raises(KubeError):
            await sync(world, event)
        assert (await sync(world)).requeue_after == 2 * FIRST_RETRY_SECONDS


async def test_event_about_an_object_outside_the_namespace_of_the_catalog_causes_no_check() -> None:
    async with brought() as world:
        before = world.requests
        await sync(world, ObjectChanged("demo", TEMPLATE._replace(namespace="default"), "CREATE", uid="1"))
        assert world.cluster("demo").requests(since=before) == []


async def event_of_now(world: World, operation: str) -> ObjectChanged:
    """Return the event of a change of the template that is not stored yet."""
    metadata = (await (await world.skr()).get(MODULE_TEMPLATES, "api-1.0.0", SKR)).metadata
    assert metadata.resource_version
    return ObjectChanged("demo", TEMPLATE, operation, uid=metadata.uid, resource_version=metadata.resource_version)


async def _exists(skr: Any, resource: Any, name: str) -> bool:
    try:
        return bool(await skr.get(resource, name, SKR))
    except (NotFound, NotServed):
        return False


async def test_catalog_is_checked_soon_once_no_events_arrive_any_more() -> None:
    async with catalog_world(interval_seconds=600.0) as world:
        await world.introduced()
        await sync(world, ResyncRequested("demo"))
        assert (await pause(world)) > MAX_SILENT_SECONDS
        broken = ConditionContent("False", NO_WATCHER_EVENTS, "no events")
        await write_condition(
            world.kcp, await world.in_kcp(), WEBHOOK, broken, now=world.clock.now(), field_manager="watcher"
        )
        assert (await pause(world)) <= MAX_SILENT_SECONDS


async def pause(world: World) -> float:
    requeue_after = (await sync(world)).requeue_after
    assert requeue_after is not None
    return requeue_after
