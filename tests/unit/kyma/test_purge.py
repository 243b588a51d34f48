"""Purge of finalizers: only on objects of a module, and only on those that are being deleted."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from kube_runtime import Client, KubeconfigPolicy, Resource, ServerUnavailable
from kube_simulation import Refuse, SimulatedCluster, Simulation
from lifecycle_manager.kyma.deletion.apply import purge_finalizers
from lifecycle_manager_api import Manifest, SyncResource
from tests import builders
from tests.kinds import crd_of
from tests.waiting import is_gone

THINGS: Resource[Any] = Resource.dynamic("example.com", "v1", "Thing", "things", namespaced=True)
OTHERS: Resource[Any] = Resource.dynamic("example.com", "v1", "Other", "others", namespaced=True)
HELD = ["example.com/nobody-is-there"]


@pytest.fixture
def cluster(simulation: Simulation) -> SimulatedCluster:
    return simulation.cluster("skr")


@pytest.fixture
async def skr(cluster: SimulatedCluster) -> AsyncIterator[Client]:
    async with await Client.from_kubeconfig(cluster.kubeconfig, policy=KubeconfigPolicy.permissive()) as client:
        yield client


def manifest_of_things() -> Manifest:
    entry = {"group": "apiextensions.k8s.io", "version": "v1", "kind": "CustomResourceDefinition", "namespace": ""}
    built = builders.manifest(status={"state": "Deleting", "synced": [entry | {"name": "things.example.com"}]})
    default = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "default"}}
    spec = msgspec.structs.replace(built.spec, resource=msgspec.Raw(msgspec.json.encode(default)))
    return msgspec.structs.replace(built, spec=spec)


async def create(client: Client, resource: Resource[Any], name: str, *, deleted: bool) -> None:
    document = {"metadata": {"name": name, "finalizers": HELD}}
    await client.create(resource, document, "default", field_manager="user")
    if deleted:
        await client.delete(resource, name, "default")


async def test_finalizers_of_deleted_objects_are_removed_and_no_others(cluster: SimulatedCluster, skr: Client) -> None:
    cluster.create(crd_of("example.com", "Thing"), crd_of("example.com", "Other"))
    await create(skr, THINGS, "going", deleted=True)
    await create(skr, THINGS, "staying", deleted=False)
    await create(skr, OTHERS, "of-another-module", deleted=True)

    await purge_finalizers(skr, [manifest_of_things()])

    assert await is_gone(skr.get(THINGS, "going", "default"))
    for resource, name in ((THINGS, "staying"), (OTHERS, "of-another-module")):
        left = await skr.get(resource, name, "default")
        assert left["metadata"]["finalizers"] == HELD


async def test_kind_is_read_in_a_version_that_is_served(cluster: SimulatedCluster, skr: Client) -> None:
    document = crd_of("example.com", "Thing")
    served = {**document["spec"]["versions"][0], "storage": False}
    document["spec"]["versions"] = [{**served, "name": "v2", "storage": True, "served": False}, served]
    cluster.create(document)
    await create(skr, THINGS, "going", deleted=True)
    await purge_finalizers(skr, [manifest_of_things()])
    assert await is_gone(skr.get(THINGS, "going", "default"))


async def test_objects_are_purged_without_a_conversion_that_nobody_serves(
    cluster: SimulatedCluster, skr: Client
) -> None:
    document = crd_of("example.com", "Thing")
    stored = document["spec"]["versions"][0]
    document["spec"]["versions"] = [{**stored, "name": "v0", "storage": False}, stored]
    cluster.create(document)
    converted = Refuse(lambda request: "/apis/example.com/v0/" in request.path)
    await create(skr, THINGS, "going", deleted=True)
    with cluster.ruled_by(converted):
        await purge_finalizers(skr, [manifest_of_things()])
    assert await is_gone(skr.get(THINGS, "going", "default"))


async def test_object_that_may_not_be_changed_keeps_no_other_one(cluster: SimulatedCluster, skr: Client) -> None:
    cluster.create(crd_of("example.com", "Thing"), crd_of("example.com", "Other"))
    entry = {"group": "example.com", "version": "v1", "kind": "Other", "namespace": "default", "name": "going"}
    await create(skr, THINGS, "refused", deleted=True)
    await create(skr, OTHERS, "going", deleted=True)
    parts: list[Manifest | SyncResource] = [
        manifest_of_things(),
        builders.sync_resource(status={"synced": [entry]}),
    ]
    with (
        cluster.ruled_by(Refuse(lambda it: it.name == "refused" and it.is_write)),
        pytest.raises(ServerUnavailable),
    ):
        await purge_finalizers(skr, parts)
    assert await is_gone(skr.get(OTHERS, "going", "default"))
    await purge_finalizers(skr, parts)
    assert await is_gone(skr.get(THINGS, "refused", "default"))


async def test_module_whose_kinds_are_gone_already_is_no_obstacle(skr: Client) -> None:
    await purge_finalizers(skr, [manifest_of_things()])


async def test_object_in_an_inventory_is_purged_if_it_is_being_deleted(cluster: SimulatedCluster, skr: Client) -> None:
    cluster.create(crd_of("example.com", "Thing"), crd_of("example.com", "Other"))
    of_others = {"group": "example.com", "version": "v1", "kind": "Other", "namespace": "default"}
    unknown = {"group": "example.com", "version": "v1", "kind": "Unknown", "namespace": "", "name": "x"}
    entries = [unknown, *(of_others | {"name": name} for name in ("going", "staying", "gone"))]
    for brought in (
        purge_finalizers(skr, [builders.sync_resource(status={"synced": entries})]),
        purge_finalizers(skr, [builders.manifest(status={"state": "Deleting", "synced": entries})]),
    ):
        await create(skr, OTHERS, "going", deleted=True)
        await create(skr, OTHERS, "staying", deleted=False)
        await brought
        assert await is_gone(skr.get(OTHERS, "going", "default"))
        left = await skr.get(OTHERS, "staying", "default")
        assert left["metadata"]["finalizers"] == HELD
        await skr.merge_patch(OTHERS, "staying", {"metadata": {"finalizers": []}}, "default")
        await skr.delete(OTHERS, "staying", "default")


async def test_object_that_existed_before_keeps_its_finalizers(cluster: SimulatedCluster, skr: Client) -> None:
    cluster.create(crd_of("example.com", "Other"))
    entry = {"group": "example.com", "version": "v1", "kind": "Other", "namespace": "default", "name": "mine"}
    await create(skr, OTHERS, "mine", deleted=True)
    await purge_finalizers(skr, [builders.sync_resource(status={"synced": [entry], "found": [entry]})])
    assert (await skr.get(OTHERS, "mine", "default"))["metadata"]["finalizers"] == HELD


async def test_object_of_another_group_is_no_crd_whatever_its_kind_is_called(
    cluster: SimulatedCluster, skr: Client
) -> None:
    cluster.create(crd_of("example.com", "Thing"))
    entry = {"group": "example.com", "version": "v1", "kind": "CustomResourceDefinition", "namespace": ""}
    await create(skr, THINGS, "mine", deleted=True)
    status = {"state": "Deleting", "synced": [entry | {"name": "things.example.com"}]}
    await purge_finalizers(skr, [builders.manifest(status=status)])
    assert (await skr.get(THINGS, "mine", "default"))["metadata"]["finalizers"] == HELD
