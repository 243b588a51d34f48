"""An object of a module that was refused, and that users create meanwhile, is the users'."""

import pytest

from kube_runtime import NotFound
from tests.integration.manifest.test_objects_of_users import (
    config_map,
    created,
    found_by,
    is_there,
    namespace,
    remove,
)
from tests.kinds import NAMESPACES
from tests.manifest_clusters import Modules


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
