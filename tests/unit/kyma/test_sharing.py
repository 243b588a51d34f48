"""What replicas share: all that belongs to one Kyma is with one of them, and begins from scratch where it moves to."""

from collections.abc import Hashable

from lifecycle_manager import catalog_sync, mandatory_modules
from lifecycle_manager.catalog_sync import CatalogSettings
from lifecycle_manager.kyma import SKR_KYMA
from lifecycle_manager.mandatory_modules import MandatorySettings
from lifecycle_manager.signals import ObjectChanged
from tests.world import World, key_of, open_world


async def enqueued(world: World) -> dict[str, set[Hashable]]:
    """Take what waits out of all queues, by the names of the controllers."""
    taken: dict[str, set[Hashable]] = {}
    for name, controller in world.manager.controllers.items():
        while len(controller.queue):
            taken.setdefault(name, set()).add(await controller.queue.get())
    return taken


async def test_replica_that_gains_a_kyma_begins_with_all_of_it_and_with_nothing_else() -> None:
    async with open_world() as world:
        catalog_sync.setup(world.manager, world.connections, world.offers, CatalogSettings())
        mandatory_modules.setup(world.manager, world.offers, MandatorySettings())
        for name in ("mine", "other"):
            await world.register(name)
        await world.look()
        assert {"mine", "other"} <= world.manager.owners()
        world.manager.begin({"mine"}, ())
        key = key_of("mine")
        assert await enqueued(world) == {"kyma": {key}, "catalog": {key}, "mandatory-modules": {key}}


async def test_changes_that_were_announced_are_forgotten_where_a_kyma_moves() -> None:
    async with open_world() as world:
        await world.register()
        await world.introduced()
        assert world.manager.publish(ObjectChanged("demo", SKR_KYMA, "UPDATE", resource_version="1")) == 1
        state = world.manager.controllers["kyma"].state_or_new(key_of("demo"))
        assert [each.object for each in state.announcements.of()] == [SKR_KYMA]
        world.manager.begin((), {"demo"})
        assert world.manager.controllers["kyma"].state(key_of("demo")) is None


async def test_change_announced_for_a_kyma_that_is_gone_is_dropped() -> None:
    async with open_world() as world:
        await world.look()
        assert world.manager.publish(ObjectChanged("gone", SKR_KYMA, "UPDATE")) == 0
