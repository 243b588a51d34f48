"""An object that was refused first goes with its module where the Lifecycle Manager created it, and else stays."""

from dataclasses import replace

import pytest

from kube_runtime import KubeError, NotFound
from kube_simulation import ApiRequest, Rule, Simulation
from kube_simulation.requests import Answer
from kube_simulation.rules import Proceed
from lifecycle_manager_api import names
from tests.integration.manifest.test_objects_of_users import MEADOW, created, found_by, is_there, namespace, remove
from tests.kinds import CONFIG_MAPS, NAMESPACES
from tests.manifest_clusters import Modules
from tests.modules import config_map


class Unanswered(Rule):
    """Does what is asked for one object, and answers with a failure."""

    async def around(self, request: ApiRequest, proceed: Proceed) -> Answer:
        answer = await proceed()
        return replace(answer, body=b"gone") if (request.verb, request.name) == ("apply", "settings") else answer


class NoStatus(Rule):
    """Refuses every status but the first ones."""

    def __init__(self, first: int = 0) -> None:
        self.first = first

    async def around(self, request: ApiRequest, proceed: Proceed) -> Answer:
        if request.is_write and request.subresource == "status":
            self.first -= 1
            if self.first < 0:
                return Answer(503)
        return await proceed()


async def refused_first(world: Modules) -> None:
    await world.want([config_map("other"), config_map("settings", "shop")])
    with pytest.raises(KubeError):
        await world.reconcile()
    await created(world.skr, namespace("shop"), NAMESPACES)


async def goes(world: Modules) -> None:
    await world.reconcile_until(("Ready", "ModuleReady"))
    assert await found_by(world) == []
    await remove(world)
    assert not await is_there(world.skr, "settings", "shop")


async def test_answer_to_the_creation_is_lost(world: Modules, simulation: Simulation) -> None:
    await refused_first(world)
    with simulation.cluster("skr").ruled_by(Unanswered()), pytest.raises(KubeError):
        await world.reconcile()
    assert await is_there(world.skr, "settings", "shop")
    await goes(world)


@pytest.mark.parametrize("is_restarted", [False, True])
async def test_status_after_the_creation_is_lost(world: Modules, simulation: Simulation, is_restarted: bool) -> None:
    await refused_first(world)
    with simulation.cluster("kcp").ruled_by(NoStatus()), pytest.raises(KubeError):
        await world.reconcile()
    assert await is_there(world.skr, "settings", "shop")
    if is_restarted:
        await world.restart()
    await goes(world)


async def test_another_module_created_it_meanwhile(world: Modules) -> None:
    await refused_first(world)
    await world.want([config_map("settings", "shop")], MEADOW)
    await world.reconcile_until(("Ready", "ModuleReady"), MEADOW)
    await world.reconcile_until(("Ready", "ModuleReady"))
    await remove(world, MEADOW)
    await goes(world)


async def test_object_that_users_created_meanwhile_stays_although_the_status_is_lost(
    world: Modules, simulation: Simulation
) -> None:
    await refused_first(world)
    await created(world.skr, config_map("settings", "shop", mine="1"))
    with simulation.cluster("kcp").ruled_by(NoStatus(first=1)), pytest.raises(KubeError):
        await world.reconcile()
    assert (await world.skr.get(CONFIG_MAPS, "settings", "shop"))["metadata"].get("labels")
    await world.restart()
    await world.reconcile_until(("Ready", "ModuleReady"))
    assert await found_by(world) == ["settings"]
    await remove(world)
    assert await is_there(world.skr, "settings", "shop")


async def test_objects_of_a_module_that_is_managed_again_before_all_was_applied_go_with_it(world: Modules) -> None:
    await refused_first(world)
    await world.change({"metadata": {"annotations": {names.IS_UNMANAGED: "true"}}})
    await world.reconcile()
    await world.change({"metadata": {"annotations": {names.IS_UNMANAGED: None}}})
    await goes(world)
    assert not await is_there(world.skr, "other")


@pytest.mark.parametrize("is_restarted", [False, True])
async def test_object_that_users_create_after_it_was_refused_stays_when_the_module_goes(
    world: Modules, is_restarted: bool
) -> None:
    await world.want([config_map("other"), config_map("settings", "shop", theirs="1")])
    with pytest.raises(NotFound):
        await world.reconcile()
    assert (await world.state())[1] == "ApplyFailed"
    await created(world.skr, namespace("shop"), NAMESPACES)
    await created(world.skr, config_map("settings", "shop", mine="1"))
    if is_restarted:
        await world.restart()
    await world.reconcile_until(("Ready", "ModuleReady"))
    assert await found_by(world) == ["settings"]
    await remove(world)
    assert await is_there(world.skr, "settings", "shop")
    assert not await is_there(world.skr, "other")


async def test_object_that_is_refused_again_and_again_has_nothing_written(world: Modules) -> None:
    await world.want([config_map("other"), config_map("settings", "shop")])
    for _ in range(2):
        with pytest.raises(NotFound):
            await world.reconcile()
    first = await world.manifest()
    for _ in range(3):
        with pytest.raises(NotFound):
            await world.reconcile()
    assert await world.manifest() == first
    await created(world.skr, namespace("shop"), NAMESPACES)
    await world.reconcile_until(("Ready", "ModuleReady"))
    assert await found_by(world) == []
    await remove(world)
    assert not await is_there(world.skr, "settings", "shop")
