"""A namespace that was created for a SyncResource, and that users delete, is created again."""

from collections.abc import AsyncIterator

import pytest

from kube_runtime import NotFound
from kube_simulation import Simulation
from lifecycle_manager_api import names
from tests.kinds import CONFIG_MAPS, NAMESPACES
from tests.unit.sync_resource.clusters import Syncing, syncing

TEXT = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one, namespace: shop}\n"


@pytest.fixture
async def world(simulation: Simulation) -> AsyncIterator[Syncing]:
    async with syncing(simulation) as made, made.process():
        yield made


async def test_namespace_that_users_delete_is_created_again(world: Syncing) -> None:
    await world.write("m", resource=TEXT, annotations={names.CREATE_NAMESPACES: "true"})
    await world.reconcile("m")
    await world.skr.delete(CONFIG_MAPS, "one", "shop")
    await world.skr.delete(NAMESPACES, "shop")
    with pytest.raises(NotFound):
        await world.reconcile("m")
    await world.reconcile("m")
    assert await world.reason("m") == "ObjectsReady"
