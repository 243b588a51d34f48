"""A key that is more urgent does not wait for reconciles of others, however long these take."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from kube_runtime import Causes, ControllerOptions, Priority, Result
from kube_runtime.controller.shared_limit import PLACE_SECONDS, SharedLimit
from kube_runtime.controller.workers import Workers
from kube_runtime.metrics import ControllerMetrics
from tests.waiting import eventually


@pytest.mark.parametrize(
    ("others", "places", "urgency"),
    [
        (Priority.RESYNC, 3, Priority.EVENT),
        (Priority.RESYNC, 3, Priority.CHANGE),
        (Priority.CHANGE, 4, Priority.EVENT),
    ],
)
async def test_more_urgent_key_is_worked_on_while_others_take_long(
    others: Priority, places: int, urgency: Priority
) -> None:
    begun: list[str] = []
    release = asyncio.Event()

    async def reconcile(key: str, _causes: Causes) -> Result:
        begun.append(key)
        if key not in {"urgent", "other-49"}:
            await release.wait()
        return Result()

    controller = Workers("busy", reconcile, ControllerOptions(concurrency=4, is_limited=True), limit=SharedLimit(16))
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(controller.run())
        for number in range(50):
            controller.queue.add(f"other-{number}", others)
        await eventually(lambda: len(begun) == places)
        controller.queue.add("urgent", urgency)
        await eventually(lambda: "urgent" in begun)
        controller.queue.add("other-49", urgency)  # one that waits already becomes urgent
        await eventually(lambda: "other-49" in begun)
        assert len(begun) == places + 2
        release.set()
        await controller.queue.drained()
        await controller.shutdown(60)
    assert len(begun) == 51


@pytest.mark.looptime
async def test_reconciles_that_stall_hold_no_place_for_long() -> None:
    begun: list[str] = []
    release = asyncio.Event()

    async def reconcile(key: str, _causes: Causes) -> Result:
        begun.append(key)
        if key.startswith("stalled"):
            await release.wait()
        return Result()

    options, limit = ControllerOptions(concurrency=4, event_workers=0, is_limited=True), SharedLimit(4)
    stalled, healthy = (Workers(name, reconcile, options, limit=limit) for name in ("stalled", "healthy"))
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(stalled.run())
        tasks.create_task(healthy.run())
        for number in range(4):
            stalled.queue.add(f"stalled-{number}")
        await asyncio.sleep(0.1)
        healthy.queue.add("healthy")
        await asyncio.sleep(0.1)
        assert "healthy" not in begun, "all places are taken"
        await asyncio.sleep(PLACE_SECONDS)
        assert "healthy" in begun
        release.set()
        await asyncio.gather(stalled.shutdown(60), healthy.shutdown(60))
    assert await _free_places(limit) == 4, "each place came back once"


async def test_changes_have_a_quarter_of_the_places_which_resyncs_never_take() -> None:
    limit, metrics = SharedLimit(8), ControllerMetrics(1)
    async with AsyncExitStack() as held:
        for _ in range(6):
            await held.enter_async_context(limit.place(Priority.RESYNC, metrics))
        assert await _free_places(limit, Priority.RESYNC) == 0
        assert await _free_places(limit) == 2


async def _free_places(limit: SharedLimit, least: Priority = Priority.CHANGE) -> int:
    """Return how many places a worker could take now."""
    metrics, places = ControllerMetrics(1), 0
    async with AsyncExitStack() as held:
        while True:
            taking = asyncio.ensure_future(held.enter_async_context(limit.place(least, metrics)))
            for _ in range(3):
                await asyncio.sleep(0)
            if not taking.done():
                assert metrics.waiting_workers == 1
                taking.cancel()
                await asyncio.wait([taking])
                assert metrics.waiting_workers == 0
                return places
            places += 1
