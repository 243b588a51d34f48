"""Whatever Module Managers, users and clusters do, in any order: the SKR ends with the objects of the texts alone.

Two SyncResources may want one object: the one that had it first keeps it, and the other says so.
"""

import asyncio
from collections.abc import Hashable, Iterable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import ClassVar

from hypothesis import given, settings
from hypothesis import strategies as st

from kube_runtime import NotFound, NotServed
from kube_simulation import serve_simulation
from lifecycle_manager.contract.conditions import VALID
from lifecycle_manager.contract.resources import SYNC_RESOURCES
from lifecycle_manager_api import find
from tests.clocks import ManualClock
from tests.modules import as_text
from tests.unit.sync_resource.clusters import KCP, Syncing, syncing
from tests.waiting import is_gone
from tests.walks import STEPS, ObjectWalk, Step, config_map


@dataclass
class Walk(ObjectWalk):
    interval: ClassVar[float] = 120.0
    plural: ClassVar[str] = SYNC_RESOURCES.plural
    world: Syncing
    process: AsyncExitStack

    async def write(self, owner: str, objects: dict[str, str]) -> dict[str, str] | None:
        with suppress(NotFound, NotServed):
            if (await self.world.kcp.get(SYNC_RESOURCES, owner, KCP)).metadata.being_deleted:
                return None
        await self.world.write(owner, resource=as_text(config_map(*each) for each in objects.items()))
        return objects

    async def remove(self, owner: str) -> None:
        await self.world.kcp.delete(SYNC_RESOURCES, owner, KCP)

    async def reconcile(self, owner: str, *causes: Hashable) -> None:
        await self.world.reconcile(owner, *causes)

    async def restart(self) -> None:
        await self.process.aclose()
        await self.process.enter_async_context(self.world.process())

    async def is_gone(self, owner: str) -> bool:
        return await is_gone(self.world.kcp.get(SYNC_RESOURCES, owner, KCP))

    async def check(self) -> None:
        """Check that the objects are those of the texts; a SyncResource in conflict keeps what it had."""
        wanted: dict[str, str] = {}
        kept: set[str] = set()
        for owner, objects in self.objects.items():
            status = (await self.world.kcp.get(SYNC_RESOURCES, owner, KCP)).status
            valid = find(status.conditions, VALID)
            assert valid is not None
            if valid.status == "True":
                assert not wanted.keys() & objects.keys(), "one object has two owners"
                wanted |= objects
            else:
                kept |= {each.name for each in status.synced}
        found = await self.values()
        assert {name: value for name, value in found.items() if name not in kept - wanted.keys()} == wanted


async def run(steps: Iterable[Step]) -> None:
    clock = ManualClock()
    async with serve_simulation() as simulation, syncing(simulation, clock) as world, AsyncExitStack() as process:
        walk = Walk(simulation, clock, world.skr, world, process)
        await walk.restart()
        await walk.walk(steps)


@settings(max_examples=15)
@given(steps=st.lists(STEPS, max_size=12))
def test_objects_are_those_of_the_texts_in_the_end(steps: list[Step]) -> None:
    asyncio.run(run(steps))
