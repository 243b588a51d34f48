"""Whatever Module Managers, users and clusters do, in any order: the SKR ends with the objects of the texts alone.

Two SyncResources may want one object: the one that had it first keeps it, and the other says so.
"""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from kube_runtime import KubeError, NotFound
from kube_simulation import ApiRequest, Drop, Refuse, Rule, Simulation, serve_simulation
from lifecycle_manager.contract.conditions import VALID
from lifecycle_manager.contract.resources import SYNC_RESOURCES
from lifecycle_manager_api import find
from tests.clocks import ManualClock
from tests.kinds import CONFIG_MAPS
from tests.unit.sync_resource.clusters import KCP, SKR, Syncing, syncing
from tests.waiting import is_gone

INTERVAL = 120.0
OWNERS, OBJECTS, VALUES = ("first", "second"), ("one", "two", "three"), ("1", "2")
TEXT = st.dictionaries(st.sampled_from(OBJECTS), st.sampled_from(VALUES))
OWNER = st.sampled_from(OWNERS)
STEPS = st.one_of(
    st.tuples(st.just("write"), OWNER, TEXT),
    st.tuples(st.sampled_from(["reconcile", "remove"]), OWNER),
    st.tuples(st.sampled_from(["refuse", "lose"]), OWNER, st.integers(0, 3)),
    st.tuples(st.sampled_from(["edit", "delete"]), st.sampled_from(OBJECTS), st.booleans()),
    st.tuples(st.sampled_from(["restart", "wait"])),
)


def is_write(request: ApiRequest) -> bool:
    return request.is_write and (request.cluster == "skr" or "syncresources" in request.path)


def text_of(objects: dict[str, str]) -> str:
    template = 'apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {0}, namespace: {1}}}\ndata: {{value: "{2}"}}\n'
    return "---\n".join(template.format(name, SKR, value) for name, value in sorted(objects.items()))


@dataclass
class Walk:
    world: Syncing
    simulation: Simulation
    clock: ManualClock
    process: AsyncExitStack
    texts: dict[str, dict[str, str]] = field(default_factory=dict)

    async def take(self, step: tuple[object, ...]) -> None:
        match step:
            case ("write", str(owner), dict(objects)):
                await self.write(owner, objects)
            case ("reconcile", str(owner)):
                await self.world.reconcile(owner)
            case ("remove", str(owner)):
                with suppress(NotFound):
                    await self.world.kcp.delete(SYNC_RESOURCES, owner, KCP)
                self.texts.pop(owner, None)
            case ("refuse" | "lose" as what, str(owner), int(after)):
                await self.fail(owner, after, what)
            case ("edit" | "delete" as what, str(name), bool(is_reported)):
                await self.change(what, name, is_reported=is_reported)
            case ("wait",):
                self.clock.advance(INTERVAL)
                for owner in OWNERS:
                    await self.world.reconcile(owner)
            case _:
                await self.start()

    async def start(self) -> None:
        await self.process.aclose()
        await self.process.enter_async_context(self.world.process())

    async def write(self, owner: str, objects: dict[str, str]) -> None:
        """Write a text, unless the SyncResource of that name is still being deleted."""
        with suppress(NotFound):
            if (await self.world.kcp.get(SYNC_RESOURCES, owner, KCP)).metadata.being_deleted:
                return
        await self.world.write(owner, resource=text_of(objects))
        self.texts[owner] = objects

    async def fail(self, owner: str, after: int, what: str) -> None:
        """Reconcile, and have a write refused, or its answer lost."""
        writes = iter(range(after))

        def is_next(request: ApiRequest) -> bool:
            return is_write(request) and next(writes, None) is None

        rule: Rule = Refuse(is_next) if what == "refuse" else Drop(is_next, after=True)
        kcp, skr = map(self.simulation.cluster, ("kcp", "skr"))
        with kcp.ruled_by(rule), skr.ruled_by(rule), suppress(KubeError):
            await self.world.reconcile(owner)

    async def change(self, what: str, name: str, *, is_reported: bool) -> None:
        """Have a user change or delete an object; the Watcher reports it, or does not."""
        try:
            change = await self.world.change_of(name, "UPDATE" if what == "edit" else "DELETE")
        except NotFound:
            return
        if what == "edit":
            await self.world.skr.merge_patch(CONFIG_MAPS, name, {"data": {"value": "edited"}}, SKR)
        else:
            await self.world.skr.delete(CONFIG_MAPS, name, SKR)
        for owner in OWNERS if is_reported else ():
            await self.world.reconcile(owner, change)

    async def values(self) -> dict[str, str]:
        """Return the values of all objects in the SKR."""
        found = (await self.world.skr.list(CONFIG_MAPS, SKR)).items
        return {each["metadata"]["name"]: each["data"]["value"] for each in found}

    async def check(self) -> None:
        """Check that the objects are those of the texts; a SyncResource in conflict keeps what it had."""
        wanted: dict[str, str] = {}
        kept: set[str] = set()
        for owner, objects in self.texts.items():
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


async def run(steps: Iterable[tuple[object, ...]]) -> None:
    clock = ManualClock()
    async with (
        serve_simulation() as simulation,
        syncing(simulation, clock) as world,
        AsyncExitStack() as process,
    ):
        walk = Walk(world, simulation, clock, process)
        await walk.start()
        for step in steps:
            await walk.take(step)
        for _ in range(3):
            await walk.take(("wait",))
        await walk.check()
        before = len(simulation.requests(is_write))
        await walk.take(("wait",))
        assert len(simulation.requests(is_write)) == before, "nothing is written any more"
        for owner in OWNERS:
            await walk.take(("remove", owner))
        for _ in range(2):
            await walk.take(("wait",))
        assert await walk.values() == {}
        assert all([await is_gone(world.kcp.get(SYNC_RESOURCES, owner, KCP)) for owner in OWNERS])


@settings(max_examples=30)
@given(steps=st.lists(STEPS, max_size=12))
def test_objects_are_those_of_the_texts_in_the_end(steps: Sequence[tuple[object, ...]]) -> None:
    asyncio.run(run(steps))
