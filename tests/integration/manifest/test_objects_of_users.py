"""What users had before a set of objects, and what they put into its Namespaces and kinds, stays when the set goes."""

from collections.abc import AsyncIterator, Collection
from typing import Any

import pytest

from kube_runtime import Applier, ApplyResult, Client, InventoryEntry, NotFound, NotServed, ObjectKey, Resource
from kube_simulation import serve_simulation
from lifecycle_manager.contract.resources import FIELD_MANAGER, SYNC_RESOURCES
from lifecycle_manager.object_set.engine import OBJECTS_LEFT
from lifecycle_manager_api import SyncResource, find, names
from tests.clusters import simulated_control_plane
from tests.kinds import CONFIG_MAPS, CRDS, NAMESPACES, SERVICE_ACCOUNTS
from tests.manifest_clusters import KEY, Modules
from tests.modules import Document, as_text, config_map, group_of, module_crs, operator
from tests.unit.sync_resource.clusters import Syncing, prepare
from tests.waiting import eventually, is_gone

KCP, SKR = names.KCP_NAMESPACE, names.SKR_NAMESPACE
MEADOW = ObjectKey(KEY.namespace, "demo-meadow")
CLAIMS: Resource[Document] = Resource.dynamic(
    "", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", namespaced=True
)
LEASES: Resource[Document] = Resource.dynamic("coordination.k8s.io", "v1", "Lease", "leases", namespaced=True)


def namespace(name: str) -> Document:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


async def created(skr: Client, document: Document, resource: Resource[Document] = CONFIG_MAPS) -> Document:
    place = document["metadata"].get("namespace")
    return await skr.create(resource, document, place, field_manager="user")


def marks(live: Document) -> set[str]:
    """Return the labels, annotations and field managers by which the Lifecycle Manager has an object."""
    metadata = live["metadata"]
    keys = {*(metadata.get("labels") or {}), *(metadata.get("annotations") or {})}
    managers = {each["manager"] for each in metadata.get("managedFields") or ()}
    return {*(key for key in keys if "kyma" in key or key.startswith("app.kubernetes.io")), *managers} - {"user"}


async def is_there(skr: Client, name: str, place: str = SKR) -> bool:
    return not await is_gone(skr.get(CONFIG_MAPS, name, place))


async def is_going(skr: Client, name: str) -> bool:
    """Tell whether a Namespace is deleted: a server without its controllers does not finish that."""
    return "deletionTimestamp" in (await skr.get(NAMESPACES, name))["metadata"]


async def remove(world: Modules, key: ObjectKey = KEY) -> None:
    await world.delete(key=key)
    await world.reconcile_until_gone(key)


async def found_by(world: Modules, key: ObjectKey = KEY) -> list[str]:
    manifest = await world.manifest(key)
    assert manifest is not None
    return [each.name for each in manifest.status.found]


def left_by(world: Any) -> list[str]:
    return [note for reason, note in world.events.in_kcp if reason == OBJECTS_LEFT]


async def test_namespace_that_users_had_outlives_the_module_with_all_in_it(world: Modules) -> None:
    await created(world.skr, namespace("users-own"), NAMESPACES)
    await created(world.skr, config_map("mine", "users-own"))
    await world.want([namespace("users-own"), config_map("c", "users-own")])
    await world.reconcile()
    assert await found_by(world) == ["users-own"]
    message = (await world.condition("Resources")).message
    assert message == "2 objects are there; existed before and will stay: Namespace users-own"
    await world.restart()
    await remove(world)
    live = await world.skr.get(NAMESPACES, "users-own")
    assert not await is_going(world.skr, "users-own")
    assert marks(live) == set()
    assert (await is_there(world.skr, "mine", "users-own"), await is_there(world.skr, "c", "users-own")) == (
        True,
        False,
    )
    assert left_by(world) == ["left in the cluster, as it existed before: Namespace users-own"]


async def test_namespace_of_a_module_stays_with_what_users_put_into_it(world: Modules) -> None:
    await world.want([namespace("of-module"), config_map("c", "of-module")])
    await world.reconcile()
    assert await found_by(world) == []
    await created(world.skr, config_map("mine", "of-module"))
    await remove(world)
    live = await world.skr.get(NAMESPACES, "of-module")
    assert (marks(live), await is_going(world.skr, "of-module")) == (set(), False)
    assert (await is_there(world.skr, "mine", "of-module"), await is_there(world.skr, "c", "of-module")) == (
        True,
        False,
    )
    (note,) = left_by(world)
    assert note == "left in the cluster, as it contains objects of others: Namespace of-module has ConfigMap mine"


@pytest.mark.parametrize("first", [KEY, MEADOW], ids=str)
async def test_namespace_goes_with_a_module_that_is_removed_at_the_same_time(world: Modules, first: ObjectKey) -> None:
    place = f"of-{first.name}"
    await world.want([namespace(place)], first)
    await world.reconcile(first)
    second = MEADOW if first == KEY else KEY
    await world.want([config_map("c", place)], second)
    await world.reconcile(second)
    for key in (KEY, MEADOW):
        await world.delete(key=key)

    for key in (first, second, first, second):
        await world.reconcile(key)

    assert await is_going(world.skr, place)
    assert left_by(world) == []


async def test_namespace_of_a_module_goes_with_what_every_namespace_has(world: Modules) -> None:
    await world.want([namespace("empty"), config_map("c", "empty")])
    await world.reconcile()
    await created(world.skr, config_map("kube-root-ca.crt", "empty"))
    account = {"metadata": {"name": "default", "namespace": "empty"}}
    await created(world.skr, account, SERVICE_ACCOUNTS)
    await created(world.skr, {"metadata": {"name": "leader", "namespace": "empty"}}, LEASES)
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "gone", "uid": "1"}
    owned = config_map("owned", "empty")
    await created(world.skr, {**owned, "metadata": {**owned["metadata"], "ownerReferences": [owner]}})
    await world.delete()
    await world.reconcile()
    assert await is_going(world.skr, "empty")
    assert left_by(world) == []


async def test_namespace_that_a_new_version_lacks_waits_for_what_users_have_in_it(world: Modules) -> None:
    await world.want([namespace("in-use"), config_map("c", "in-use"), config_map("other")])
    await world.reconcile()
    await created(world.skr, config_map("mine", "in-use"))
    await world.want([config_map("other")])
    await world.reconcile_until(("Warning", "ObjectsInUse"))
    assert "Namespace in-use has ConfigMap mine" in (await world.condition()).message
    assert not await is_going(world.skr, "in-use")
    await world.skr.delete(CONFIG_MAPS, "mine", "in-use")
    await world.reconcile()
    assert await is_going(world.skr, "in-use")


async def test_namespace_that_a_new_version_lacks_stays_while_it_has_objects_there(world: Modules) -> None:
    await world.want([namespace("kept"), config_map("c", "kept")])
    await world.reconcile()
    await world.want([config_map("c", "kept")])
    await world.reconcile_until(("Warning", "ObjectsInUse"))
    assert (await is_there(world.skr, "c", "kept"), await is_going(world.skr, "kept")) == (True, False)


@pytest.mark.parametrize("is_pruned", [True, False])
async def test_object_that_users_had_is_left_with_its_present_values(world: Modules, *, is_pruned: bool) -> None:
    name = f"settings-{is_pruned}".lower()
    mine = config_map(name, mine="1")
    labels = {"app.kubernetes.io/part-of": "Kyma", "team": "a"}  # the first one is the module's, too
    await created(world.skr, {**mine, "metadata": {**mine["metadata"], "labels": labels}})
    await world.want([config_map(name, theirs="2"), config_map("other")])
    await world.reconcile()
    assert marks(await world.skr.get(CONFIG_MAPS, name, SKR)) > {FIELD_MANAGER}
    if is_pruned:
        await world.want([config_map("other")])
        await world.reconcile()
        assert await world.state() == ("Ready", "ModuleReady")
        assert await found_by(world) == []
        assert (await world.condition("Resources")).message == "1 object is in the cluster"
    else:
        await remove(world)
    live = await world.skr.get(CONFIG_MAPS, name, SKR)
    assert live["data"] == {"mine": "1", "theirs": "2"}
    assert live["metadata"]["labels"] == labels
    assert marks(live) == {"app.kubernetes.io/part-of"}
    assert [each["manager"] for each in live["metadata"]["managedFields"]] == ["user"]
    if is_pruned:
        await remove(world)


async def test_object_that_users_had_with_nobodys_fields_is_left_without_managed_fields(world: Modules) -> None:
    await created(world.skr, config_map("bare", key="1"))
    await world.skr.merge_patch(CONFIG_MAPS, "bare", {"metadata": {"managedFields": [{}]}}, SKR)
    await world.want([config_map("bare", key="2"), config_map("other")])
    await world.reconcile()
    await remove(world)
    live = await world.skr.get(CONFIG_MAPS, "bare", SKR)
    assert (live["data"], FIELD_MANAGER in marks(live)) == ({"key": "2"}, False)


@pytest.mark.parametrize("first", [KEY, MEADOW])
async def test_object_that_users_had_outlives_both_modules_that_share_it(world: Modules, first: ObjectKey) -> None:
    name = f"shared-{first.name}"
    await created(world.skr, namespace(name), NAMESPACES)
    for key in (MEADOW, KEY):
        await world.want([namespace(name), config_map(key.name)], key)
        await world.reconcile(key)
        assert await found_by(world, key) == [name]
    await remove(world, first)
    live = await world.skr.get(NAMESPACES, name)
    last = MEADOW if first == KEY else KEY
    assert live["metadata"]["annotations"][names.OWNED_BY] == f"{KCP}/{last.name}"
    await world.restart()
    await remove(world, last)
    assert (marks(await world.skr.get(NAMESPACES, name)), await is_going(world.skr, name)) == (set(), False)


async def test_crd_that_users_had_stays_with_its_objects_and_does_not_hold_the_removal(world: Modules) -> None:
    crd = operator("poppy", "1.0.0", properties=2)[0]
    await created(world.skr, crd, CRDS)
    poppies = module_crs("poppy")
    mine, default = (
        {"apiVersion": f"{group_of('poppy')}/v1", "kind": "Poppy", "metadata": {"name": name, "namespace": SKR}}
        for name in ("mine", "default")
    )

    async def served() -> bool:
        try:
            await created(world.skr, mine, poppies)
            await created(world.skr, default, poppies)
        except (NotFound, NotServed):
            return False
        return True

    await eventually(served)
    await world.want([crd, {**mine, "spec": {"field0": "x"}}, config_map("other")], resource=default)
    await world.reconcile()
    assert sorted(await found_by(world)) == ["mine", crd["metadata"]["name"]]
    await remove(world)
    assert marks(await world.skr.get(CRDS, crd["metadata"]["name"])) <= {"kube-apiserver"}
    assert (await world.skr.get(poppies, "mine", SKR))["spec"] == {"field0": "x"}
    assert "deletionTimestamp" not in (await world.skr.get(poppies, "default", SKR))["metadata"]


@pytest.fixture
async def syncing(skr: Client) -> AsyncIterator[Syncing]:
    async with serve_simulation() as simulation, await simulated_control_plane(simulation) as kcp:
        await prepare(kcp, "cloud-resources")
        clusters = Syncing(kcp, skr)
        async with clusters.process():
            yield clusters


async def sync(syncing: Syncing, *documents: Document) -> SyncResource:
    await syncing.write("m", resource=as_text(documents))
    await syncing.reconcile("m")
    resource: SyncResource = await syncing.kcp.get(SYNC_RESOURCES, "m", KCP)
    return resource


async def removed(syncing: Syncing) -> None:
    await syncing.kcp.delete(SYNC_RESOURCES, "m", KCP)
    for _ in range(3):
        await syncing.reconcile("m")


async def test_sync_resource_leaves_what_users_had_and_what_they_have_in_its_namespaces(syncing: Syncing) -> None:
    skr = syncing.skr
    await created(skr, namespace("users-sync"), NAMESPACES)
    await created(skr, config_map("mine", "users-sync"))
    wanted = [namespace("users-sync"), config_map("c", "users-sync"), namespace("of-sync"), namespace("going-sync")]
    resource = await sync(syncing, *wanted)
    assert [each.name for each in resource.status.found] == ["users-sync"]
    applied = find(resource.status.conditions, "Applied")
    assert applied is not None
    assert applied.message == "4 objects are in the cluster; existed before and will stay: Namespace users-sync"
    await created(skr, config_map("mine", "of-sync"))
    await removed(syncing)
    assert {each: await is_going(skr, each) for each in ("users-sync", "of-sync", "going-sync")} == {
        "users-sync": False,
        "of-sync": False,
        "going-sync": True,
    }
    assert (await is_there(skr, "mine", "users-sync"), await is_there(skr, "c", "users-sync")) == (True, False)
    assert marks(await skr.get(NAMESPACES, "users-sync")) == marks(await skr.get(NAMESPACES, "of-sync")) == set()
    assert len(left_by(syncing)) == 2


async def test_data_of_users_stay_in_objects_that_move_to_another_sync_resource(syncing: Syncing) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    metadata = {"name": "moving", "namespace": SKR}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}

    async def uids() -> list[str]:
        found = [await syncing.skr.get(each, "moving", SKR) for each in (CLAIMS, CONFIG_MAPS)]
        assert not any("deletionTimestamp" in each["metadata"] for each in found)
        return [each["metadata"]["uid"] for each in found]

    await sync(syncing, claim, config_map("moving", theirs="1"))
    before = await uids()
    await syncing.skr.merge_patch(CONFIG_MAPS, "moving", {"data": {"mine": "1"}}, SKR, field_manager="user")
    await syncing.write("n", resource=as_text([claim, config_map("moving", theirs="2")]))
    await sync(syncing, config_map("rest"))
    await syncing.reconcile("n")
    assert await uids() == before
    assert (await syncing.skr.get(CONFIG_MAPS, "moving", SKR))["data"] == {"theirs": "2", "mine": "1"}


async def test_namespace_goes_after_sync_resources_deleted_at_the_same_time(syncing: Syncing) -> None:
    await syncing.write("place", resource=as_text([namespace("of-both")]))
    await syncing.write("content", resource=as_text([config_map("c", "of-both")]))
    for name in ("place", "content"):
        await syncing.reconcile(name)
    for name in ("place", "content"):
        await syncing.kcp.delete(SYNC_RESOURCES, name, KCP)

    await syncing.reconcile("place")
    assert not await is_going(syncing.skr, "of-both")
    ready = find((await syncing.kcp.get(SYNC_RESOURCES, "place", KCP)).status.conditions, "Ready")
    assert ready is not None
    assert ready.message == "waits for 1 object to be deleted: Namespace of-both"
    for name in ("content", "place"):
        await syncing.reconcile(name)

    assert await is_going(syncing.skr, "of-both")
    assert left_by(syncing) == []


async def test_namespace_waits_for_a_sync_resource_deleted_while_its_contents_are_read(
    syncing: Syncing, monkeypatch: pytest.MonkeyPatch
) -> None:
    await syncing.write("place", resource=as_text([namespace("of-two")]))
    await syncing.write("content", resource=as_text([config_map("c", "of-two")]))
    for name in ("place", "content"):
        await syncing.reconcile(name)
    delete = Applier.delete

    async def reading(applier: Applier, entries: Collection[InventoryEntry]) -> ApplyResult:
        read = await delete(applier, entries)
        await syncing.kcp.delete(SYNC_RESOURCES, "content", KCP)
        await syncing.see(SYNC_RESOURCES, None)
        return read

    await syncing.kcp.delete(SYNC_RESOURCES, "place", KCP)
    with monkeypatch.context() as patched:
        patched.setattr(Applier, "delete", reading)
        await syncing.reconcile("place")
    for name in ("content", "place"):
        await syncing.reconcile(name)

    assert await is_going(syncing.skr, "of-two")
    assert left_by(syncing) == []


async def test_namespace_of_a_sync_resource_stays_with_objects_of_one_that_stays(syncing: Syncing) -> None:
    await syncing.write("m", resource=as_text([namespace("of-one")]))
    await syncing.write("staying", resource=as_text([config_map("c", "of-one")]))
    for name in ("m", "staying"):
        await syncing.reconcile(name)

    await removed(syncing)

    assert not await is_going(syncing.skr, "of-one")
    assert left_by(syncing) == [
        "left in the cluster, as it contains objects of others: Namespace of-one has ConfigMap c"
    ]


@pytest.mark.parametrize("is_pruned", [True, False])
async def test_sync_resource_keeps_a_crd_as_long_as_users_have_objects_of_it(
    syncing: Syncing, *, is_pruned: bool
) -> None:
    name = "lily" if is_pruned else "aster"
    crd = operator(name, "1.0.0", properties=2)[0]
    await sync(syncing, crd, config_map("c"))
    kind = module_crs(name)
    await created(syncing.skr, {"metadata": {"name": "mine", "namespace": SKR}, "spec": {}}, kind)
    if is_pruned:
        await sync(syncing, config_map("c"))
    else:
        await removed(syncing)
    resource: SyncResource = await syncing.kcp.get(SYNC_RESOURCES, "m", KCP)
    ready = find(resource.status.conditions, "Ready")
    assert ready is not None
    assert (ready.reason, resource.status.state) == ("ObjectsInUse", "Warning" if is_pruned else "Deleting")
    assert f"{kind.kind} {SKR}/mine" in ready.message
    assert (await syncing.skr.get(kind, "mine", SKR))["metadata"].get("deletionTimestamp") is None
    await syncing.skr.delete(kind, "mine", SKR)

    async def crd_is_gone() -> bool:
        await syncing.reconcile("m")
        return await is_gone(syncing.skr.get(CRDS, crd["metadata"]["name"]))

    await eventually(crd_is_gone, within=60)


async def test_what_runs_beside_a_crd_stays_until_users_objects_are_gone(syncing: Syncing) -> None:
    """It acts on their finalizers: without it, users could not delete these."""
    crd, own = operator("iris", "1.0.0", properties=2)[0], {"metadata": {"name": "own", "namespace": SKR}, "spec": {}}
    kind = module_crs("iris")
    await sync(syncing, crd, config_map("c"))
    await sync(syncing, crd, config_map("c"), {**own, "apiVersion": kind.api_version, "kind": kind.kind})
    held = {"metadata": {"name": "mine", "namespace": SKR, "finalizers": ["example.com/operator"]}, "spec": {}}
    await created(syncing.skr, held, kind)
    await syncing.skr.delete(kind, "mine", SKR)
    await removed(syncing)
    resource: SyncResource = await syncing.kcp.get(SYNC_RESOURCES, "m", KCP)
    ready = find(resource.status.conditions, "Ready")
    assert ready is not None
    assert ready.message.endswith(f"has {kind.kind} {SKR}/mine"), "its own are not the users'"
    for name, each in (("c", CONFIG_MAPS), ("own", kind)):
        assert "deletionTimestamp" not in (await syncing.skr.get(each, name, SKR))["metadata"]
    await syncing.skr.merge_patch(kind, "mine", {"metadata": {"finalizers": None}}, SKR, field_manager="operator")

    async def crd_is_gone() -> bool:
        await syncing.reconcile("m")
        return await is_gone(syncing.skr.get(CRDS, crd["metadata"]["name"]))

    await eventually(crd_is_gone, within=60)
    assert await is_gone(syncing.skr.get(CONFIG_MAPS, "c", SKR))
