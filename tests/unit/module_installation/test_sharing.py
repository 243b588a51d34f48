"""Objects that several modules of a cluster bring: they stay for as long as one of them has them."""

import asyncio

import pytest

from kube_runtime import InventoryEntry, KubeError, NotFound, NotServed, ObjectKey
from kube_simulation import Refuse, Simulation
from lifecycle_manager.contract.resources import MANIFESTS, NAMESPACES
from lifecycle_manager.contract.signals import ReadScope
from lifecycle_manager_api import names
from tests.manifest_clusters import KEY, Modules
from tests.modules import Document, config_map, default_module_cr, module_crs, operator

SKR = names.SKR_NAMESPACE
MEADOW, ORCHARD = ObjectKey(KEY.namespace, "demo-meadow"), ObjectKey(KEY.namespace, "demo-orchard")
FIELDS = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "fields"}}
ENTRY = InventoryEntry("", "v1", "Namespace", "", "fields")
CRD = operator("garden", "1.0.0")[0]
GARDENS = module_crs("garden")


async def module_of_namespace(world: Modules) -> str:
    metadata = (await world.skr.get(NAMESPACES, "fields"))["metadata"]
    module: str = metadata["labels"][names.MODULE_NAME]
    assert metadata["annotations"][names.OWNED_BY] == f"{KEY.namespace}/demo-{module}"
    return module


async def is_there(world: Modules, name: str = "fields") -> bool:
    try:
        await world.skr.get(NAMESPACES, name)
    except (NotFound, NotServed):
        return False
    return True


async def both_bring(world: Modules, *objects: Document) -> None:
    for key in (MEADOW, KEY):
        await world.want([*objects, config_map(key.name)], key)
        await world.reconcile(key)


async def goes(world: Modules, key: ObjectKey) -> None:
    """Reconcile until a Manifest is gone: a cluster takes its time to delete a Namespace or a definition."""
    for _ in range(5):
        await world.reconcile(key)
        if await world.manifest(key) is None:
            return
    raise AssertionError(await world.manifest(key))


@pytest.mark.parametrize("first", [KEY, MEADOW], ids=["who wrote it last", "who wrote it first"])
async def test_module_that_goes_leaves_what_another_has_and_the_last_one_takes_it(
    world: Modules, first: ObjectKey
) -> None:
    await both_bring(world, FIELDS)
    last = MEADOW if first == KEY else KEY
    await world.delete(key=first)
    await goes(world, first)
    assert await module_of_namespace(world) == last.name.removeprefix("demo-")
    assert (world.is_enqueued(last), world.is_enqueued(first)) == (True, False)
    await world.restart()
    await world.delete(key=last)
    await goes(world, last)
    assert not await is_there(world)


async def test_module_that_no_longer_has_an_object_leaves_it_to_another_that_has(world: Modules) -> None:
    await both_bring(world, FIELDS)
    await world.want([config_map("other")])
    await world.reconcile()
    assert await world.state() == ("Ready", "ModuleReady")
    assert (await module_of_namespace(world), world.is_enqueued(MEADOW)) == ("meadow", True)
    manifest = await world.manifest()
    assert manifest is not None
    assert [each.name for each in manifest.status.synced] == ["other"]
    await world.want([config_map("another")], MEADOW)
    await world.reconcile(MEADOW)
    assert not await is_there(world)


async def test_namespace_that_moves_to_a_module_that_changes_too_is_not_deleted(world: Modules) -> None:
    await world.want([FIELDS, config_map(KEY.name)])
    await world.reconcile()
    before = await world.skr.get(NAMESPACES, "fields")
    await world.want([config_map(KEY.name)])
    await world.want([FIELDS, config_map(MEADOW.name)], MEADOW)
    for key in (KEY, MEADOW, KEY):
        await world.reconcile(key)
    after = await world.skr.get(NAMESPACES, "fields")
    assert (after["metadata"]["uid"], await module_of_namespace(world)) == (before["metadata"]["uid"], "meadow")
    assert await world.state() == ("Ready", "ModuleReady")


async def test_two_modules_that_drop_an_object_at_once_do_not_leave_it_to_each_other(world: Modules) -> None:
    await both_bring(world, FIELDS)
    for key in (KEY, MEADOW):
        await world.want([config_map("other")], key)
    for _ in range(2):  # each waits for what the other has by its new version
        await world.see(MANIFESTS)
        await asyncio.gather(*(world.controller.reconcile_now(key) for key in (KEY, MEADOW)))
    assert not await is_there(world)


@pytest.mark.parametrize("first", [KEY, MEADOW])
async def test_what_only_modules_have_that_go_goes_with_them(world: Modules, first: ObjectKey) -> None:
    await both_bring(world, FIELDS)
    for key in (KEY, MEADOW):
        await world.delete(key=key)
    for key in (first, MEADOW if first == KEY else KEY):
        await goes(world, key)
    assert not await is_there(world)


async def test_object_of_a_module_that_is_not_to_be_touched_stays_with_its_users(world: Modules) -> None:
    await both_bring(world, FIELDS)
    await world.change({"metadata": {"annotations": {names.IS_UNMANAGED: "true"}}}, MEADOW)
    await world.delete()
    await world.reconcile()
    assert await module_of_namespace(world) == "meadow"
    await world.delete(key=MEADOW)
    await goes(world, MEADOW)
    assert await is_there(world)


async def test_object_that_can_not_be_handed_over_stays_with_its_module(world: Modules, simulation: Simulation) -> None:
    await both_bring(world, FIELDS)
    refused = Refuse(lambda it: it.name == "fields" and it.verb == "patch")
    simulation.cluster("skr").add_rule(refused)
    await world.delete()
    with pytest.raises(KubeError):
        await world.reconcile()
    manifest = await world.manifest()
    assert manifest is not None
    assert "fields" in {each.name for each in manifest.status.synced}
    simulation.cluster("skr").remove_rule(refused)
    await world.reconcile()
    assert (await world.manifest(), await module_of_namespace(world)) == (None, "meadow")


async def test_crd_that_another_module_has_stays_with_the_objects_of_users(world: Modules) -> None:
    await both_bring(world, CRD)
    await world.change({"spec": {"resource": default_module_cr("garden")}})
    await world.reconcile()
    await world.skr.create(GARDENS, {"metadata": {"name": "mine"}, "spec": {}}, SKR, field_manager="user")
    await world.delete()
    await goes(world, KEY)
    assert [each["metadata"]["name"] for each in (await world.skr.list(GARDENS, SKR)).items] == ["mine"]
    await world.delete(key=MEADOW)
    await world.reconcile(MEADOW)
    manifest = await world.manifest(MEADOW)
    assert manifest is not None
    assert manifest.status.state == "Deleting"
    await world.skr.delete(GARDENS, "mine", SKR)
    await goes(world, MEADOW)


async def test_modules_triggered_by_each_others_writes_come_to_rest(world: Modules, simulation: Simulation) -> None:
    """An event about a shared object enqueues both, so one write too many would be repeated forever."""
    theirs = {**FIELDS, "metadata": {"name": "fields", "labels": {"content": "theirs"}}}
    await both_bring(world, FIELDS)
    await world.want([theirs, config_map(MEADOW.name)], MEADOW)
    await world.reconcile(MEADOW)
    for restarted in (False, True):
        if restarted:
            await world.restart()
        written: list[int] = []
        for _ in range(4):
            before = len(simulation.requests(lambda it: it.is_write and it.cluster == "skr"))
            for key in (KEY, MEADOW):
                await world.reconcile(key, ReadScope.EVERYTHING)
            written.append(len(simulation.requests(lambda it: it.is_write and it.cluster == "skr")) - before)
        assert written[1:] == [0, 0, 0]


async def test_drift_of_an_object_that_is_another_modules_by_now_is_put_right_by_that_one(world: Modules) -> None:
    await both_bring(world, {**FIELDS, "metadata": {"name": "fields", "labels": {"grass": "green"}}})
    owner = await module_of_namespace(world)
    await world.skr.merge_patch(NAMESPACES, "fields", {"metadata": {"labels": {"grass": "brown"}}})
    for key in (KEY, MEADOW):
        await world.reconcile(key, ReadScope.EVERYTHING)
    live = await world.skr.get(NAMESPACES, "fields")
    assert (live["metadata"]["labels"]["grass"], await module_of_namespace(world)) == ("green", owner)
