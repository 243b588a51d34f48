"""Whatever happens to two modules, in any order: the SKR ends with the objects of their versions alone.

An object that both have stays as long as one of them has it.
"""

import asyncio
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import ClassVar

from hypothesis import given, settings
from hypothesis import strategies as st

from kube_runtime import ObjectKey
from kube_simulation import serve_simulation
from lifecycle_manager.contract.resources import MANIFESTS
from tests.clocks import ManualClock
from tests.clusters import simulated_clusters
from tests.manifest_clusters import KEY, Modules
from tests.walks import STEPS, ObjectWalk, Step, config_map


def key_of(owner: str) -> ObjectKey:
    return ObjectKey(KEY.namespace, f"demo-{owner}")


@dataclass
class Walk(ObjectWalk):
    interval: ClassVar[float] = 320.0
    """That of the settings, with what spreads it."""
    plural: ClassVar[str] = MANIFESTS.plural
    world: Modules

    async def write(self, owner: str, objects: dict[str, str]) -> dict[str, str] | None:
        manifest = await self.world.manifest(key_of(owner))
        if manifest is not None and manifest.metadata.being_deleted:
            return None
        objects = objects or {owner: "1"}  # no module is without objects
        await self.world.want([config_map(*each) for each in objects.items()], key_of(owner))
        return objects

    async def remove(self, owner: str) -> None:
        await self.world.delete(key=key_of(owner))

    async def reconcile(self, owner: str, *causes: Hashable) -> None:
        await self.world.reconcile(key_of(owner), *causes)

    async def restart(self) -> None:
        await self.world.restart()

    async def is_gone(self, owner: str) -> bool:
        return await self.world.manifest(key_of(owner)) is None

    async def check(self) -> None:
        found = await self.values()
        wanted: dict[str, set[str]] = {}
        for objects in self.objects.values():
            for name, value in objects.items():
                wanted.setdefault(name, set()).add(value)
        assert found.keys() == wanted.keys()
        assert all(found[name] in values for name, values in wanted.items())


async def run(steps: Iterable[Step]) -> None:
    clock = ManualClock()
    async with (
        serve_simulation() as simulation,
        simulated_clusters(simulation) as (kcp, skr),
        Modules(kcp, skr, clock=clock) as world,
    ):
        await Walk(simulation, clock, skr, world).walk(steps)


@settings(max_examples=15)
@given(steps=st.lists(STEPS, max_size=12))
def test_objects_are_those_of_the_modules_in_the_end(steps: list[Step]) -> None:
    asyncio.run(run(steps))
