"""An object is gone when its server says so: not where a page of a gateway, or another API version, hides it."""

from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest

from kube_runtime import KubeError
from kube_simulation import ApiRequest, Rule, SimulatedCluster, serve_simulation
from kube_simulation.requests import Answer
from lifecycle_manager_api import Manifest, names
from tests.clusters import simulated_clusters
from tests.kinds import CONFIG_MAPS, CRDS
from tests.manifest_clusters import Modules
from tests.modules import config_map, crd, group_of, module_crs

SKR = names.SKR_NAMESPACE
GARDENS = module_crs("garden")
CONFIG = config_map("rose")


class Page(Rule):
    """Answers every request, or those with a text in their path, with 404."""

    def __init__(self, body: bytes, path: str = "") -> None:
        self.body, self.path = body, path

    async def around(self, request: ApiRequest, proceed: Any) -> Answer:
        if self.path in request.path:
            return Answer(404, self.body, content_type="text/html")
        answer: Answer = await proceed()
        return answer


@pytest.fixture
async def cluster_and_world() -> AsyncIterator[tuple[SimulatedCluster, Modules]]:
    async with (
        serve_simulation() as simulation,
        simulated_clusters(simulation) as (kcp, skr),
        Modules(kcp, skr) as world,
    ):
        yield simulation.cluster("skr"), world


@pytest.fixture
def world(cluster_and_world: tuple[SimulatedCluster, Modules]) -> Modules:
    return cluster_and_world[1]


async def manifest(world: Modules) -> Manifest:
    found = await world.manifest()
    assert found is not None
    return found


async def plant_roses(world: Modules, version: str = "v1") -> None:
    users = {"apiVersion": f"{group_of('garden')}/{version}", "kind": "Garden", "metadata": {"name": "roses"}}
    await world.skr.create(GARDENS, {**users, "spec": {}}, SKR, field_manager="user")


@pytest.mark.parametrize("is_restarted", [True, False])
@pytest.mark.parametrize("page", [b"<html>nginx</html>", b"404 page not found\n", b""])
async def test_module_whose_cluster_answers_404_does_not_count_as_removed(
    cluster_and_world: tuple[SimulatedCluster, Modules], page: bytes, is_restarted: bool
) -> None:
    cluster, world = cluster_and_world
    await world.want([CONFIG, crd("garden", "v1")])
    await world.reconcile()
    await world.delete()
    if is_restarted:
        await world.restart()
    cluster.add_rule(portal := Page(page))
    for _ in range(2):
        with suppress(KubeError):  # retried
            await world.reconcile()
    cluster.remove_rule(portal)
    assert await world.skr.get(CONFIG_MAPS, "rose", SKR)
    assert (await manifest(world)).status.synced
    await world.reconcile_until_gone()
    assert [each for each in (await world.skr.list(CONFIG_MAPS, SKR)).items if each["metadata"]["name"] == "rose"] == []


async def test_users_objects_block_the_removal_while_their_list_answers_404(
    cluster_and_world: tuple[SimulatedCluster, Modules],
) -> None:
    cluster, world = cluster_and_world
    await world.want([CONFIG, crd("garden", "v1")])
    await world.reconcile()
    await plant_roses(world)
    await world.delete()
    cluster.add_rule(Page(b"404 page not found\n", "/v1/gardens"))
    for _ in range(3):
        with suppress(KubeError):  # retried
            await world.reconcile()
    assert await world.skr.get(CRDS, f"gardens.{group_of('garden')}")
    assert await world.skr.get(CONFIG_MAPS, "rose", SKR)


async def test_crd_with_users_objects_stays_when_a_version_no_longer_has_it(world: Modules) -> None:
    await world.want([crd("garden", "v1", stored="v2"), CONFIG])
    await world.reconcile()
    await plant_roses(world)
    await world.want([CONFIG])
    for _ in range(3):
        with suppress(KubeError):  # retried
            await world.reconcile()
    assert await world.skr.get(CRDS, f"gardens.{group_of('garden')}")
    assert await world.skr.get(GARDENS, "roses", SKR)


@pytest.mark.parametrize("is_restarted", [True, False])
@pytest.mark.parametrize("how", ["module removed", "object pruned", "module unmanaged"])
async def test_object_is_managed_although_its_version_is_not_served_any_more(
    world: Modules, how: str, is_restarted: bool
) -> None:
    await world.skr.create(CRDS, crd("shop", "v1", "v1alpha1"), field_manager="other")
    shop = {"apiVersion": f"{group_of('shop')}/v1alpha1", "kind": "Shop", "metadata": {"name": "ours"}, "spec": {}}
    await world.want([CONFIG, shop])
    await world.reconcile()
    name = f"shops.{group_of('shop')}"
    await world.skr.apply(CRDS, name, crd("shop", "v1"), field_manager="other")
    if is_restarted:
        await world.restart()
    match how:
        case "module removed":
            await world.delete()
        case "object pruned":
            await world.want([CONFIG], version="2.0.0")
        case _:
            await world.change({"metadata": {"annotations": {names.IS_UNMANAGED: "true"}}})
    for _ in range(3):
        with suppress(KubeError):  # retried
            await world.reconcile()
    left = (await world.skr.list(module_crs("shop"), SKR)).items
    if how == "module unmanaged":
        assert names.MANAGED_BY not in left[0]["metadata"]["labels"]
    else:
        assert left == ()
