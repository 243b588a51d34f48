"""Workers: one key at a time, every failure contained, an orderly end."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest

from kube_runtime import (
    Causes,
    ClusterUnreachable,
    Conflict,
    Priority,
    Result,
    RetryPolicy,
    RuntimeMetrics,
    TerminalError,
)
from kube_runtime.controller.options import ControllerOptions
from kube_runtime.controller.workers import Workers
from tests.waiting import eventually

QUICK = RetryPolicy(base_seconds=0.001, max_seconds=0.001, rate=0)


@asynccontextmanager
async def running(
    reconcile: Callable[[str, Causes], Awaitable[Result]],
    *,
    concurrency: int = 3,
    timeout_seconds: float = 60.0,
    metrics: RuntimeMetrics | None = None,
    requeue_jitter: float = 0.0,
) -> AsyncIterator[Workers[str]]:
    controller = Workers(
        "test",
        reconcile,
        ControllerOptions(
            concurrency=concurrency, timeout_seconds=timeout_seconds, retry=QUICK, requeue_jitter=requeue_jitter
        ),
        metrics=metrics,
    )
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(controller.run())
        await asyncio.sleep(0)
        yield controller
        await controller.shutdown(60.0)


async def test_whatever_a_reconcile_raises_concerns_its_key_alone(caplog: pytest.LogCaptureFixture) -> None:
    attempts: dict[str, int] = {}
    done = asyncio.Event()

    async def reconcile(key: str, _causes: Causes) -> Result:
        attempts[key] = attempts.get(key, 0) + 1
        if key == "bug" and attempts[key] < 3:
            raise ZeroDivisionError
        if key == "cluster" and attempts[key] < 3:
            raise ClusterUnreachable("gone")
        if key == "cancelled" and attempts[key] < 3:
            raise asyncio.CancelledError
        if min(attempts.get(each, 0) for each in ("bug", "cluster", "cancelled")) >= 3:
            done.set()
        return Result()

    metrics = RuntimeMetrics()
    async with running(reconcile, metrics=metrics) as controller:
        for key in ("bug", "cluster", "cancelled", "fine"):
            controller.queue.add(key)
        async with asyncio.timeout(60):
            await done.wait()
            await controller.queue.drained()

    assert attempts == {"bug": 3, "cluster": 3, "cancelled": 3, "fine": 1}
    counted = metrics.controller("test", 3)
    assert (counted.errors, counted.panics, counted.results["error"]) == (6, 4, 6)
    bugs = [record for record in caplog.records if "ZeroDivisionError" in record.getMessage()]
    assert [bool(record.exc_info) for record in bugs] == [True, False], "the traceback comes once"
    assert controller.failures == {}


async def test_last_failure_of_a_key_can_be_seen_until_it_goes_well() -> None:
    broken = True

    async def reconcile(key: str, _causes: Causes) -> Result:
        if broken:
            raise ClusterUnreachable(f"no way to {key}")
        return Result()

    async with running(reconcile) as controller:
        controller.queue.add("a")
        await eventually(lambda: controller.failures.get("a") is not None and controller.failures["a"].attempts >= 2)
        assert controller.failures["a"].error == "ClusterUnreachable: no way to a"
        broken = False
        await eventually(lambda: not controller.failures)


async def test_reconcile_that_takes_too_long_is_stopped_and_tried_again() -> None:
    metrics = RuntimeMetrics()
    stopped = 0

    async def reconcile(_key: str, _causes: Causes) -> Result:
        nonlocal stopped
        if stopped < 2:
            try:
                await asyncio.Event().wait()
            finally:
                stopped += 1
        return Result()

    async with running(reconcile, timeout_seconds=0.02, metrics=metrics) as controller:
        controller.queue.add("a")
        await eventually(lambda: metrics.controller("test", 3).results["success"] == 1)

    assert (stopped, metrics.controller("test", 3).timeouts) == (2, 2)


@pytest.mark.asyncio
@pytest.mark.looptime
async def test_first_retry_after_a_conflict_comes_soon_and_the_next_ones_do_not() -> None:
    loop = asyncio.get_running_loop()
    tried: list[float] = []

    async def reconcile(_key: str, _causes: Causes) -> Result:
        tried.append(loop.time())
        if len(tried) < 4:
            raise Conflict(409, "Conflict", "somebody else has written it")
        return Result()

    policy = RetryPolicy(base_seconds=1, max_seconds=8, rate=0, jitter=0)
    controller = Workers("test", reconcile, ControllerOptions(retry=policy))
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(controller.run())
        controller.queue.add("a")
        await asyncio.sleep(60)
        await controller.shutdown(60)

    pauses = [after - before for before, after in pairwise(tried)]
    assert pauses == pytest.approx([0.01, 2, 4], rel=0.1)


async def test_terminal_error_is_not_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    calls = 0

    async def reconcile(_key: str, _causes: Causes) -> Result:
        nonlocal calls
        calls += 1
        raise TerminalError("nothing to be done")

    async with running(reconcile) as controller:
        controller.queue.add("a")
        await eventually(lambda: "a" in controller.failures)
        controller.queue.add("b")
        await eventually(lambda: "b" in controller.failures)

    assert calls == 2
    assert "nothing to be done" in caplog.text


@pytest.mark.looptime
async def test_result_asks_to_be_called_again_with_some_jitter() -> None:
    loop = asyncio.get_running_loop()
    times: list[float] = []

    async def reconcile(_key: str, _causes: Causes) -> Result:
        times.append(loop.time())
        return Result(requeue_after=100)

    async with running(reconcile, requeue_jitter=0.1) as controller:
        controller.queue.add("a")
        await asyncio.sleep(1050)

    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert len(gaps) in {9, 10}
    assert all(99.9 <= gap <= 110.1 for gap in gaps)
    assert len({round(gap, 6) for gap in gaps}) > 1


@pytest.mark.looptime
@pytest.mark.parametrize("seconds", [-5.0, 0.0, 1e-9, float("nan")])
async def test_key_that_is_always_overdue_comes_at_once_and_then_ever_later(seconds: float) -> None:
    loop = asyncio.get_running_loop()
    times: list[float] = []

    async def reconcile(_key: str, _causes: Causes) -> Result:
        times.append(loop.time())
        assert len(times) < 100  # the time of this loop passes only while nothing is to be done
        return Result(requeue_after=seconds if len(times) != 6 else 1.0)

    options = ControllerOptions(retry=RetryPolicy(rate=0, jitter=0), requeue_jitter=0)
    controller = Workers("test", reconcile, options)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(controller.run())
        controller.queue.add("a")
        await asyncio.sleep(5)
        await controller.shutdown(60.0)

    gaps = [round(later - earlier, 3) for earlier, later in pairwise(times)]
    assert gaps[:10] == [0, 0, 0, 0.8, 1.6, 1.0, 0, 0, 0, 0.8]


async def test_shutdown_finishes_what_waits_and_what_is_under_way() -> None:
    finished: list[str] = []

    async def reconcile(key: str, _causes: Causes) -> Result:
        await asyncio.sleep(0.01)
        finished.append(key)
        return Result(requeue_after=0.001)

    async with running(reconcile, concurrency=2) as controller:
        for key in ("a", "b", "c", "d"):
            controller.queue.add(key)

    assert sorted(finished) == ["a", "b", "c", "d"]


async def test_shutdown_stops_what_does_not_end_in_time(caplog: pytest.LogCaptureFixture) -> None:
    cleaned_up = False
    begun = asyncio.Event()

    async def reconcile(_key: str, _causes: Causes) -> Result:
        nonlocal cleaned_up
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaned_up = True
        return Result()

    controller: Workers[str] = Workers("test", reconcile)
    run = asyncio.ensure_future(controller.run())
    controller.queue.add("a")
    await begun.wait()
    with caplog.at_level(logging.WARNING):
        await controller.shutdown(0.01)
    await run

    assert cleaned_up
    assert "did not end within the grace time" in caplog.text


async def test_worker_outlives_errors_of_task_groups() -> None:
    """Before Python 3.13 such an error leaves its task counted as being cancelled."""
    reconciled: list[str] = []

    async def fail() -> None:
        await asyncio.sleep(0)
        raise ValueError("a part failed")

    async def reconcile(key: str, _causes: Causes) -> Result:
        reconciled.append(key)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(fail())
        return Result()

    options = ControllerOptions(concurrency=1, retry=RetryPolicy(base_seconds=60, jitter=0))
    controller = Workers("test", reconcile, options)
    async with asyncio.TaskGroup() as tasks, asyncio.timeout(60):
        tasks.create_task(controller.run())
        for key in "abc":
            controller.queue.add(key)
        await controller.queue.drained()
        await controller.shutdown(60.0)

    assert reconciled == ["a", "b", "c"]


async def test_workers_end_when_cancelled_though_a_cleanup_fails() -> None:
    begun = asyncio.Event()

    async def fail_at_the_end() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("the cleanup failed")

    async def reconcile(_key: str, _causes: Causes) -> Result:
        async with asyncio.TaskGroup() as tasks:  # its errors hide that it was cancelled
            tasks.create_task(fail_at_the_end())
            await asyncio.sleep(0)
            begun.set()
        return Result()

    controller: Workers[str] = Workers("test", reconcile)
    run = asyncio.ensure_future(controller.run())
    controller.queue.add("a")
    await begun.wait()
    run.cancel()
    await asyncio.wait([run], timeout=10)
    assert run.cancelled()


async def test_reconciles_that_never_wait_leave_room_for_events() -> None:
    done: list[int] = []
    added_at: dict[int, int] = {}
    waited: list[int] = []

    async def reconcile(key: int, _causes: Causes) -> Result:
        if key < 0:
            waited.append(len(done) - added_at[key])
        else:
            _busy(0.0002)
            done.append(key)
        return Result()

    controller: Workers[int] = Workers("test", reconcile)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(controller.run())
        for key in range(2_000):
            controller.queue.add(key, Priority.RESYNC)
        for event in range(-20, 0):
            for _ in range(3):
                await asyncio.sleep(0)
            added_at[event] = len(done)
            controller.queue.add(event, Priority.EVENT)
        await controller.queue.drained()
        await controller.shutdown(60)

    assert 0 < added_at[-1] < 2_000, "the loop came round while there was work"
    assert len(waited) == 20
    assert max(waited) <= 10, "no more was done before an event than one that was under way with each worker"


def _busy(seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass
