"""Whatever users, Module Managers and clusters do, in any order: the status ends as the last edit deserves."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress

from hypothesis import given, settings
from hypothesis import strategies as st

from kube_runtime import KubeError, NotFound, NotServed
from kube_simulation import Drop, Simulation, serve_simulation
from lifecycle_manager_api import State
from tests.clusters import simulated_clusters
from tests.kinds import INFRASTRUCTURES
from tests.unit.module_cr_status.clusters import SKR, TOO_WIDE, Statuses, crd, is_status_write, ready_of
from tests.waiting import eventually

MANY = 100
"""More than a page of a list has."""
STEPS = ("edit", "render", "refuse", "apply", "fail", "unready", "reconcile", "wait", "restart", "lose answer")
ENDS = {
    State.READY: ("render", "apply"),
    State.ERROR: ("refuse",),
    State.PROCESSING: ("render", "unready", "reconcile", "wait", "wait", "wait", "wait"),
}


class Life:
    """One run: the steps that a property asks for, and the end that all runs have in common."""

    def __init__(self, world: Statuses, simulation: Simulation) -> None:
        self.world = world
        self.simulation = simulation
        self.edits = 0
        self.process = AsyncExitStack()

    async def start(self) -> None:
        await self.process.aclose()
        await self.process.enter_async_context(self.world.process())

    async def take(self, step: str) -> None:
        """Take one step; one that nobody could take now is left out."""
        with suppress(NotFound, NotServed):
            match step:
                case "edit":
                    self.edits += 1
                    await self.world.edit(f"10.{self.edits}.0.0/16")
                case "render":
                    await self.world.render()
                case "refuse":
                    await self.world.refuse(*TOO_WIDE)
                case "apply":
                    await self.world.applied()
                case "fail":
                    await self.world.applied("Error", "ApplyFailed", "refused by the cluster")
                case "unready":
                    await self.world.applied("Processing", "ObjectsNotReady", "waits")
                case "wait":
                    self.world.clock.advance(3)
                    await self.world.reconcile()
                case "restart":
                    await self.start()
                case "lose answer":
                    with (
                        self.simulation.cluster("skr").ruled_by(Drop(is_status_write, after=True)),
                        suppress(KubeError),
                    ):
                        await self.world.reconcile()
                case _:
                    await self.world.reconcile()


async def run(steps: Sequence[str], end: State) -> None:
    async with (
        serve_simulation() as simulation,
        simulated_clusters(simulation) as (kcp, skr),
    ):
        life = Life(Statuses(kcp, skr), simulation)
        await life.world.install(crd())
        await life.start()
        for step in ("edit", *steps, "edit", *ENDS[end], "reconcile"):
            await life.take(step)
        status, module_cr = await life.world.status(), await life.world.module_cr()
        assert (status["state"], status["observedGeneration"]) == (end.value, module_cr["metadata"]["generation"])
        assert ready_of(status)[0] == ("True" if end is State.READY else "False")
        assert ready_of(status)[3] == module_cr["metadata"]["generation"]
        writes = len(simulation.requests(is_status_write))
        await life.world.reconcile()
        assert len(simulation.requests(is_status_write)) == writes
        await life.process.aclose()


@settings(max_examples=10)
@given(steps=st.lists(st.sampled_from(STEPS), max_size=12), end=st.sampled_from(sorted(ENDS)))
def test_status_ends_as_the_last_edit_deserves(steps: Sequence[str], end: State) -> None:
    asyncio.run(run(steps, end))


async def test_many_module_crs_with_an_error_are_written_once_each_and_then_no_more() -> None:
    async with (
        serve_simulation(history=100_000) as simulation,
        simulated_clusters(simulation) as (kcp, skr),
    ):
        world = Statuses(kcp, skr)
        await world.install(crd())
        for number in range(MANY):
            await world.edit("0.0.0.0/0", f"cr-{number}", f"config-{number}")
            await world.refuse(*TOO_WIDE, config=f"config-{number}")

        async def all_reported() -> bool:
            items = (await skr.list(INFRASTRUCTURES, SKR)).items
            return all((each.get("status") or {}).get("state") == "Error" for each in items)

        for _ in range(2):  # the second process writes nothing
            async with world.process(), asyncio.TaskGroup() as tasks:
                stopping = asyncio.Event()
                tasks.create_task(world.manager.run(stopping))
                await eventually(all_reported, within=60, every=0.5)
                await eventually(lambda: not len(world.controller.queue), what="the queue is empty")
                stopping.set()
        assert len(simulation.requests(is_status_write)) == MANY
        assert len(world.events.in_skr) == MANY
