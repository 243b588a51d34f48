"""A module in a cluster that was replaced by a new one, under the same Kyma."""

from typing import Any

import pytest

from kube_simulation import Simulation
from lifecycle_manager.contract.signals import ReadScope
from lifecycle_manager_api import names
from tests.clusters import simulated_client
from tests.manifest_clusters import KEY, Modules
from tests.modules import default_module_cr, module_crs, operator
from tests.waiting import is_gone

SKR, GARDENS = names.SKR_NAMESPACE, module_crs("garden")
CRD = operator("garden", "1.0.0")[0]
ROSE: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "rose", "namespace": SKR}}
MANAGER = {"group": "", "version": "v1", "kind": "ConfigMap", "name": "rose", "namespace": SKR}


async def install(world: Modules, **other: str) -> None:
    await world.want([CRD, {**ROSE, "data": other}], resource=default_module_cr("garden"), manager=MANAGER)
    await world.reconcile()
    await world.reconcile()


@pytest.mark.parametrize("is_restarted", [False, True])
async def test_default_module_cr_is_created_in_a_cluster_that_was_replaced(
    world: Modules, simulation: Simulation, is_restarted: bool
) -> None:
    await install(world)
    place = default_module_cr("garden")["metadata"]
    name, namespace = place.get("name", "default"), place.get("namespace", SKR)
    assert not await is_gone(world.skr.get(GARDENS, name, namespace))
    async with await simulated_client(simulation, "another") as world.skr:
        if is_restarted:
            await world.restart()
        for _ in range(3):
            await world.reconcile(KEY, ReadScope.EVERYTHING)
        assert not await is_gone(world.skr.get(GARDENS, name, namespace))


async def test_default_module_cr_that_users_deleted_stays_deleted(world: Modules) -> None:
    await install(world)
    place = default_module_cr("garden")["metadata"]
    name, namespace = place.get("name", "default"), place.get("namespace", SKR)
    await world.skr.delete(GARDENS, name, namespace)
    await install(world, other="1")
    assert await is_gone(world.skr.get(GARDENS, name, namespace))
