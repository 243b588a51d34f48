"""What replicas share: all that belongs to one Kyma is with one of them, and begins from scratch where it moves to."""

from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from typing import Any

from kube_runtime import Manager
from lifecycle_manager.app import lifecycle_manager
from lifecycle_manager.contract.signals import ObjectChanged
from lifecycle_manager.kyma import SKR_KYMA
from lifecycle_manager.module_config import ModuleKey
from lifecycle_manager.settings import Settings
from tests import builders
from tests.world import KCP, World, key_of


async def enqueued(manager: Manager) -> dict[str, set[Hashable]]:
    """Take what waits out of all queues, by the names of the controllers."""
    taken: dict[str, set[Hashable]] = {}
    for name, controller in manager.controllers.items():
        while len(controller.queue):
            taken.setdefault(name, set()).add(await controller.queue.get())
    return taken


async def create_parts_of(world: World, *kymas: str) -> None:
    """Create a Manifest, a ModuleConfig and a SyncResource of each Kyma."""
    for kyma in kymas:
        await world.create(
            builders.manifest(kyma=kyma),
            builders.module_config(f"{kyma}-config", kyma=kyma),
            builders.sync_resource(f"{kyma}-sync", kyma=kyma),
        )


@asynccontextmanager
async def synced(world: World) -> AsyncIterator[Manager]:
    """Open Lifecycle Manager as its command composes it, up to the start of its controllers."""
    options: dict[str, Any] = {"health_probe_bind_address": ":0", "metrics_bind_address": ":0"}
    async with lifecycle_manager(Settings(options), world.kcp) as manager, manager.background():
        await manager.wait_synced()
        yield manager


def parts_of(kyma: str) -> dict[str, set[Hashable]]:
    return {
        "manifest": {key_of(f"{kyma}-cloud-resources")},
        "module-config": {ModuleKey(KCP, kyma, "cloud-resources")},
        "sync-resource": {key_of(f"{kyma}-sync")},
    }


async def test_replica_that_gains_a_kyma_begins_with_all_of_it_and_with_nothing_else(world: World) -> None:
    for name in ("mine", "other"):
        await world.register(name)
    await create_parts_of(world, "mine", "other")
    async with synced(world) as manager:
        assert {"mine", "other"} <= manager.owners()
        manager.begin({"mine"}, ())
        begun = await enqueued(manager)
    of_kyma = {name: {key_of("mine")} for name in ("kyma", "catalog", "mandatory-modules", "watcher")}
    assert {name: begun.get(name) for name in (*of_kyma, *parts_of("mine"))} == {**of_kyma, **parts_of("mine")}


async def test_parts_of_a_kyma_that_is_gone_are_begun_too(world: World) -> None:
    await create_parts_of(world, "gone")
    async with synced(world) as manager:
        assert "gone" in manager.owners()
        manager.begin({"gone"}, ())
        begun = await enqueued(manager)
    assert {name: begun.get(name) for name in parts_of("gone")} == parts_of("gone")
    assert "kyma" not in begun


async def test_changes_that_were_announced_are_forgotten_where_a_kyma_moves(world: World) -> None:
    await world.register()
    await world.introduced()
    version = (await world.in_skr()).metadata.resource_version or ""
    change = ObjectChanged("demo", SKR_KYMA, "UPDATE", resource_version=version)
    await world.turn("kyma", key_of("demo"), change)
    state = world.manager.controllers["kyma"].state_or_new(key_of("demo"))
    assert [each.object for each in state.announcements.of()] == [SKR_KYMA]
    world.manager.begin((), {"demo"})
    assert world.manager.controllers["kyma"].state(key_of("demo")) is None


async def test_change_announced_for_a_kyma_that_is_gone_is_dropped(world: World) -> None:
    await world.sync_caches()
    assert world.manager.publish(ObjectChanged("gone", SKR_KYMA, "UPDATE")) == 0
