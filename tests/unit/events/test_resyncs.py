"""How often the RESYNCs of a Kyma make everything of its cluster be read again."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest_asyncio

from kube_runtime import Controller
from lifecycle_manager.contract.signals import ResyncReported, ResyncRequested
from lifecycle_manager.events.resyncs import RESYNC_SECONDS, ResyncState, setup
from tests.world import World, open_world


@dataclass(eq=False)
class Resyncs:
    """The controller, driven key by key, and what it has published."""

    world: World
    controller: Controller[str, ResyncState]
    published: list[ResyncRequested] = field(default_factory=list)

    async def report(self, kyma: str = "demo") -> float | None:
        """Report a RESYNC; return after how many seconds its key is reconciled again."""
        return (await self.controller.reconcile_now(kyma, ResyncReported(kyma))).requeue_after

    async def again(self) -> float | None:
        """Reconcile without a report, as after that time."""
        return (await self.controller.reconcile_now("demo")).requeue_after


@pytest_asyncio.fixture
async def resyncs() -> AsyncIterator[Resyncs]:
    async with open_world() as world:
        made = Resyncs(world, setup(world.manager))
        world.manager.on(ResyncRequested, made.published.append)
        await world.register()
        await world.register("other")
        await world.sync_caches()
        yield made


async def test_two_resyncs_are_published_at_once_and_those_of_another_kyma_too(resyncs: Resyncs) -> None:
    for kyma in ("demo", "demo", "other", "other"):
        assert await resyncs.report(kyma) is None
    assert resyncs.published == [*[ResyncRequested("demo")] * 2, *[ResyncRequested("other")] * 2]


async def test_resyncs_that_follow_are_one_after_30_seconds_and_the_last_is_not_lost(resyncs: Resyncs) -> None:
    for _ in range(2):
        await resyncs.report()
    for _ in range(20):
        resyncs.world.clock.advance(1)
        wait = await resyncs.report()
    assert len(resyncs.published) == 2
    assert wait == RESYNC_SECONDS - 20
    resyncs.world.clock.advance(wait)
    assert await resyncs.again() is None
    assert len(resyncs.published) == 3


async def test_resync_that_was_published_is_not_published_again(resyncs: Resyncs) -> None:
    await resyncs.report()
    resyncs.world.clock.advance(10 * RESYNC_SECONDS)
    await resyncs.again()
    assert len(resyncs.published) == 1


async def test_report_enqueues_its_kyma(resyncs: Resyncs) -> None:
    assert resyncs.world.manager.publish(ResyncReported("demo")) == 1
    assert len(resyncs.controller.queue) == 1


async def test_hundred_resyncs_a_minute_are_four(resyncs: Resyncs) -> None:
    for _ in range(100):
        await resyncs.report()
        resyncs.world.clock.advance(0.6)
    assert len(resyncs.published) == 3
    resyncs.world.clock.advance(RESYNC_SECONDS)
    await resyncs.again()
    assert len(resyncs.published) == 4
