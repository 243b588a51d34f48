"""SyncResources outside the namespace of their module, as whoever has a namespace in KCP may write them."""

from typing import Any

import pytest

from kube_runtime import ObjectKey, Result
from kube_simulation import ApiRequest, Refuse, Refused, Simulation
from lifecycle_manager.contract.resources import MODULE_POLICIES, NAMESPACES, SYNC_RESOURCES
from lifecycle_manager_api import SyncResource, find, names
from lifecycle_manager_api.documents import plain
from tests.kinds import CONFIG_MAPS
from tests.policies import ANYTHING
from tests.unit.sync_resource.clusters import Syncing
from tests.unit.sync_resource.test_controller import SYNCED

KCP, SKR, FOREIGN, MODULE = names.KCP_NAMESPACE, names.SKR_NAMESPACE, "foreign", "cloud-resources"


@pytest.fixture
async def world(world: Syncing) -> Syncing:
    """Clusters with a namespace whose label names the module."""
    namespace = {"metadata": {"name": FOREIGN, "labels": {names.MODULE_NAME: MODULE}}}
    await world.kcp.apply(NAMESPACES, FOREIGN, namespace, field_manager="stranger")
    return world


async def set_policy(world: Syncing, **spec: Any) -> None:
    document = {"metadata": {"name": MODULE, "namespace": KCP}, "spec": plain(ANYTHING) | spec}
    await world.kcp.apply(MODULE_POLICIES, MODULE, document, KCP, field_manager="operator")
    await world.see(MODULE_POLICIES, KCP)


async def write(world: Syncing, name: str, *objects: str, claims: bool = False, **metadata: Any) -> None:
    """Write a SyncResource in the foreign namespace; with a status that claims an object, where its writer may."""
    text = "---\n".join(
        f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {each}, namespace: {SKR}}}\n" for each in objects
    )
    document = {
        "metadata": {"name": name, "namespace": FOREIGN, **metadata},
        "spec": {"kyma": "demo", "module": MODULE, "resource": text},
    }
    await world.kcp.create(SYNC_RESOURCES, document, FOREIGN, field_manager="stranger")
    if claims:
        status = {"status": {"state": "Ready", "synced": SYNCED}}
        await world.kcp.merge_patch(SYNC_RESOURCES, name, status, FOREIGN, subresource="status")


async def reconcile(world: Syncing, name: str) -> Result:
    await world.see(SYNC_RESOURCES, None)
    return await world.controller.reconcile_now(ObjectKey(FOREIGN, name))


async def stored(world: Syncing, name: str) -> SyncResource:
    return await world.kcp.get(SYNC_RESOURCES, name, FOREIGN)


async def test_it_is_refused_with_the_right_namespace_whatever_label_its_namespace_has(world: Syncing) -> None:
    await write(world, "strange", "two")
    await reconcile(world, "strange")
    found = await stored(world, "strange")
    valid = find(found.status.conditions, "Valid")
    assert valid is not None
    assert (valid.reason, KCP in valid.message) == ("WrongNamespace", True)
    assert (await world.objects(), found.metadata.finalizers) == (set(), ())


async def test_what_it_says_of_users_objects_keeps_none_of_another_module(world: Syncing) -> None:
    """Otherwise the objects would stay in the cluster for good."""
    await world.write("m", "one")
    await world.reconcile("m")
    await write(world, "strange", "one")
    found = [{key: each[key] for key in ("group", "version", "kind", "namespace", "name")} for each in SYNCED]
    for name, namespace, status in (("strange", FOREIGN, {"found": found}), ("m", KCP, {"synced": None})):
        await world.kcp.merge_patch(SYNC_RESOURCES, name, {"status": status}, namespace, subresource="status")
    await world.see(SYNC_RESOURCES, None)
    async with world.process():
        await world.reconcile("m")
    assert (await world.kcp.get(SYNC_RESOURCES, "m", KCP)).status.found == ()


async def test_it_claims_nothing(world: Syncing) -> None:
    """Although it is older, and its status says that it has the object."""
    await write(world, "strange", "one", claims=True)
    await reconcile(world, "strange")
    await world.write("first", "one")
    await world.reconcile("first")
    assert (await world.objects(), await world.reason("first")) == ({"one"}, "ObjectsReady")


async def test_its_deletion_deletes_no_object(world: Syncing) -> None:
    """Not even one that names it as its owner, as after the deletion of a policy that nobody refused."""
    await world.write("first", "one")
    await world.reconcile("first")
    owned = {"metadata": {"annotations": {names.OWNED_BY: f"{FOREIGN}/strange"}}}
    await world.skr.merge_patch(CONFIG_MAPS, "one", owned, SKR)
    await write(world, "strange", "one", claims=True, finalizers=[names.SYNC_RESOURCE_FINALIZER])
    await world.kcp.delete(SYNC_RESOURCES, "strange", FOREIGN)
    await reconcile(world, "strange")
    assert (await world.kcp.list(SYNC_RESOURCES, FOREIGN)).items == ()
    assert await world.objects() == {"one"}


async def test_where_lifecycle_manager_has_no_rights_it_waits_for_the_interval(
    world: Syncing, simulation: Simulation
) -> None:
    def is_foreign(request: ApiRequest) -> bool:
        return request.is_write and f"/namespaces/{FOREIGN}/" in request.path

    await write(world, "strange", "two")
    await write(world, "ends", finalizers=[names.SYNC_RESOURCE_FINALIZER])
    await world.kcp.delete(SYNC_RESOURCES, "ends", FOREIGN)
    with simulation.cluster("kcp").ruled_by(Refuse(is_foreign, refused=Refused(403, "Forbidden", "no RoleBinding"))):
        for name in ("strange", "ends"):
            assert (await reconcile(world, name)).requeue_after == pytest.approx(120)
    assert await world.objects() == set()


async def test_policy_that_is_written_later_makes_it_valid(world: Syncing) -> None:
    """A manager that was installed before the policy of its module."""
    await world.kcp.delete(MODULE_POLICIES, MODULE, KCP)
    await write(world, "early", "one")
    await reconcile(world, "early")
    world.controller.connect()
    await set_policy(world, controlPlaneNamespace=FOREIGN)
    assert ObjectKey(FOREIGN, "early") in world.controller.queue.keys()  # noqa: SIM118 - no mapping
    await reconcile(world, "early")
    assert await world.objects() == {"one"}
