"""What the work queue promises, in the order of its docstring, and that it holds for any sequence of calls."""

import asyncio
import weakref
from collections.abc import Coroutine
from typing import Any

import looptime
import pytest
import uvloop
from hypothesis import settings
from hypothesis import strategies as some
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kube_runtime import Priority, QueueShutDown, RetryPolicy, WorkQueue
from kube_runtime.metrics import QueueMetrics

NO_JITTER = RetryPolicy(base_seconds=1, max_seconds=8, rate=0, jitter=0)


async def test_keys_are_those_that_wait_and_those_for_later() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("now")
    queue.add_after("later", 60)
    assert queue.keys() == {"now", "later"}
    assert await queue.get() == "now"
    assert queue.keys() == {"later"}


async def test_urgent_keys_go_first_and_a_waiting_key_becomes_more_urgent() -> None:
    queue: WorkQueue[str] = WorkQueue()
    for name in ("resync-1", "resync-2", "resync-3"):
        queue.add(name, Priority.RESYNC)
    queue.add("change", Priority.CHANGE)
    queue.add("resync-3", Priority.EVENT)
    queue.add("resync-3", Priority.RESYNC)

    assert [await queue.get() for _ in range(4)] == ["resync-3", "change", "resync-1", "resync-2"]


async def test_key_that_is_not_urgent_enough_is_left_to_others() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("resync", Priority.RESYNC)
    asking = [asyncio.ensure_future(queue.get(least)) for least in (Priority.EVENT, Priority.CHANGE)]
    await asyncio.sleep(0)
    queue.add("change", Priority.CHANGE)
    assert await asking[1] == "change"
    assert await queue.get() == "resync"
    queue.add("event", Priority.EVENT)
    assert await asking[0] == "event"
    queue.shut_down()
    with pytest.raises(QueueShutDown):
        await queue.get(Priority.EVENT)


async def test_least_urgent_key_does_not_wait_for_ever() -> None:
    queue: WorkQueue[int] = WorkQueue()
    queue.add(-1, Priority.RESYNC)
    order = []
    for number in range(100):
        queue.add(number, Priority.EVENT)
        order.append(await queue.get())
        queue.done(order[-1])

    assert -1 in order[:20]


@pytest.mark.asyncio
@pytest.mark.looptime
async def test_delayed_key_comes_at_the_earliest_time_asked_for() -> None:
    queue: WorkQueue[str] = WorkQueue()
    loop = asyncio.get_running_loop()
    began = loop.time()
    queue.add_after("a", 30)
    queue.add_after("a", 10)
    queue.add_after("a", 20)
    queue.add_after("b", 5)
    queue.add_after("c", 0)

    came = []
    for _ in range(3):
        key = await queue.get()
        came.append((key, round(loop.time() - began)))
        queue.done(key)

    assert came == [("c", 0), ("b", 5), ("a", 10)]
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(100):
            await queue.get()


@pytest.mark.looptime
async def test_delayed_key_takes_the_highest_urgency_asked_for() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add_after("a", 10, Priority.EVENT)
    queue.add_after("a", 5, Priority.RESYNC)
    queue.add_after("b", 5, Priority.RESYNC)
    await asyncio.sleep(6)

    assert [await queue.get(), await queue.get()] == ["a", "b"]


@pytest.mark.looptime
async def test_key_that_is_often_due_earlier_leaves_no_memory_behind() -> None:
    class Key:
        def __hash__(self) -> int:
            return 1

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Key)

    queue: WorkQueue[Key] = WorkQueue()
    keys = []
    for _ in range(1000):
        key = Key()
        keys.append(weakref.ref(key))
        queue.add_after(key, 36_000)
        queue.add_after(key, 1)
        del key
        queue.done(await queue.get())

    assert sum(each() is not None for each in keys) < 100


@pytest.mark.looptime
async def test_pause_doubles_with_each_failure_and_begins_again_after_success() -> None:
    queue: WorkQueue[str] = WorkQueue(retry=NO_JITTER)
    loop = asyncio.get_running_loop()
    pauses = []
    for attempt in range(7):
        if attempt == 5:
            queue.forget("a")
        began = loop.time()
        queue.add_rate_limited("a")
        await queue.get()
        pauses.append(round(loop.time() - began))
        queue.done("a")

    assert pauses == [1, 2, 4, 8, 8, 1, 2]
    assert queue.failures("a") == 2


@pytest.mark.looptime
async def test_all_keys_together_are_retried_at_the_overall_rate_after_their_first_failure() -> None:
    queue: WorkQueue[int] = WorkQueue(retry=RetryPolicy(base_seconds=0.001, rate=10, burst=5, jitter=0))
    loop = asyncio.get_running_loop()

    async def retried(keys: range) -> float:
        began = loop.time()
        for key in keys:
            queue.add_rate_limited(key)
        for _ in keys:
            queue.done(await queue.get())
        return loop.time() - began

    assert await retried(range(25)) < 0.1
    assert 1.5 < await retried(range(25)) < 2.5
    assert await retried(range(25, 26)) < 0.1


async def test_cancelled_waiter_loses_no_key() -> None:
    queue: WorkQueue[str] = WorkQueue()
    first, second = asyncio.ensure_future(queue.get()), asyncio.ensure_future(queue.get())
    await asyncio.sleep(0)
    queue.add("a")
    first.cancel()

    assert await second == "a"
    with pytest.raises(asyncio.CancelledError):
        await first


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_worker_that_was_notified_in_vain_passes_it_on(is_cancelled: bool) -> None:
    queue: WorkQueue[str] = WorkQueue()
    general = asyncio.ensure_future(queue.get())
    reserved = asyncio.ensure_future(queue.get(Priority.CHANGE))
    idle = asyncio.ensure_future(queue.get())
    await asyncio.sleep(0)
    queue.add("resync", Priority.RESYNC)  # notifies the general one, which takes the change
    queue.add("change", Priority.CHANGE)  # notifies the reserved one
    if is_cancelled:
        reserved.cancel()

    async with asyncio.timeout(60):
        assert [await general, await idle] == ["change", "resync"]
    reserved.cancel()


@pytest.mark.looptime
@pytest.mark.parametrize("seconds", [-1.0, 0.0, float("-inf"), float("nan")])
async def test_key_whose_time_has_passed_comes_now(seconds: float) -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add_after("later", 5)
    queue.add_after("a", seconds)

    assert [await queue.get(), await queue.get()] == ["a", "later"]
    assert 4.9 < asyncio.get_running_loop().time() < 5.1


def test_key_that_is_due_at_no_time_delays_no_other_one() -> None:
    async def run() -> list[str]:
        queue: WorkQueue[str] = WorkQueue()
        queue.add_after("never", float("inf"))
        queue.add_after("soon", 0.001)
        async with asyncio.timeout(60):
            return [await queue.get()]

    assert uvloop.run(run()) == ["soon"]


async def test_shut_down_queue_gives_out_what_waits_and_then_ends() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    queue.add_after("later", 0.001)
    queue.shut_down()
    queue.add("b")

    assert await queue.get() == "a"
    with pytest.raises(QueueShutDown):
        await queue.get()


async def test_waiting_workers_hear_of_the_shut_down() -> None:
    queue: WorkQueue[str] = WorkQueue()
    workers = [asyncio.ensure_future(queue.get()) for _ in range(3)]
    await asyncio.sleep(0)
    queue.shut_down()

    assert [type(each) for each in await asyncio.gather(*workers, return_exceptions=True)] == [QueueShutDown] * 3


async def test_selected_keys_are_finished_when_nobody_works_on_it() -> None:
    queue: WorkQueue[str] = WorkQueue()
    for key in ("mine", "other", "waits"):
        queue.add(key)
    for _ in range(2):
        await queue.get()
    await queue.finished(lambda key: key == "waits")

    finished = asyncio.ensure_future(queue.finished(lambda key: key == "mine"))
    await asyncio.sleep(0)
    queue.done("other")
    await asyncio.sleep(0)
    assert not finished.done()

    queue.done("mine")
    async with asyncio.timeout(60):
        await finished


async def test_queue_is_drained_when_nothing_waits_and_nothing_is_worked_on() -> None:
    queue: WorkQueue[str] = WorkQueue()
    await queue.drained()
    queue.add("a")
    queue.add("b")
    drained = asyncio.ensure_future(queue.drained())
    for _ in range(2):
        key = await queue.get()
        await asyncio.sleep(0)
        assert not drained.done()
        queue.done(key)

    await drained


async def test_metrics_tell_depth_by_priority_and_work_under_way() -> None:
    metrics = QueueMetrics()
    queue: WorkQueue[str] = WorkQueue(metrics=metrics)
    queue.add("a", Priority.EVENT)
    queue.add("a", Priority.EVENT)
    queue.add("b", Priority.RESYNC)

    assert (metrics.adds, metrics.depth()) == (2, {0: 1, 1: 0, 2: 1})
    await queue.get()
    total, longest = metrics.unfinished_seconds()
    assert 0 < longest == total
    queue.done("a")
    assert metrics.unfinished_seconds() == (0, 0)
    assert metrics.work_seconds.read()[0][-1] == ("+Inf", 1)


def _parity(key: int) -> str:
    return "odd" if key % 2 else "even"


class QueueMachine(RuleBasedStateMachine):
    """Plays any sequence of calls against the simplest model: a set of keys that need work."""

    most: int | None = None
    """How many keys of one owner may be worked on; the even ones have the same owner, and so have the odd ones."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = looptime.new_event_loop()
        self.queue: WorkQueue[int] = WorkQueue(retry=NO_JITTER, owner=_parity, max_per_owner=self.most)
        self.owed: set[int] = set()
        self.working: set[int] = set()

    def run(self, act: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(act)

    @rule(key=some.integers(0, 5), priority=some.sampled_from(list(Priority)))
    def add(self, key: int, priority: Priority) -> None:
        self.queue.add(key, priority)
        self.owed.add(key)

    @rule(key=some.integers(0, 5), seconds=some.integers(-1, 20), priority=some.sampled_from(list(Priority)))
    def add_after(self, key: int, seconds: int, priority: Priority) -> None:
        async def act() -> None:
            self.queue.add_after(key, seconds, priority)
            await asyncio.sleep(seconds + 0.1)

        self.run(act())
        self.owed.add(key)

    @rule(key=some.integers(0, 5))
    def fail(self, key: int) -> None:
        async def act() -> None:
            self.queue.add_rate_limited(key)
            await asyncio.sleep(20)

        self.run(act())
        self.owed.add(key)

    def ready(self) -> set[int]:
        full = {
            owner
            for owner in map(_parity, self.working)
            if self.most is not None and [*map(_parity, self.working)].count(owner) >= self.most
        }
        return {key for key in self.owed - self.working if _parity(key) not in full}

    @precondition(lambda self: self.ready())
    @rule()
    def take(self) -> None:
        key = self.run(self.queue.get())
        assert key not in self.working, "a key went to two workers"
        assert key in self.owed, "a key came that nobody added"
        assert self.most is None or key in self.ready(), "a key came whose owner has its share"
        self.owed.discard(key)
        self.working.add(key)

    @precondition(lambda self: self.working)
    @rule(data=some.data())
    def finish(self, data: some.DataObject) -> None:
        key = data.draw(some.sampled_from(sorted(self.working)))
        self.queue.done(key)
        self.working.discard(key)

    @invariant()
    def every_added_key_waits_or_is_worked_on(self) -> None:
        assert len(self.queue) == len(self.owed - self.working)

    @invariant()
    def key_can_be_taken_unless_its_owner_has_its_share(self) -> None:
        assert self.queue.holds(Priority.RESYNC) == bool(self.ready())

    def teardown(self) -> None:
        self.loop.close()


class LimitedQueueMachine(QueueMachine):
    """The same where two keys of an owner at most are worked on."""

    most = 2


TestAnySequenceOfCalls = QueueMachine.TestCase
TestAnySequenceOfCalls.settings = settings(stateful_step_count=40)
TestAnySequenceOfCallsWithShares = LimitedQueueMachine.TestCase
TestAnySequenceOfCallsWithShares.settings = settings(stateful_step_count=40)


def test_keys_for_right_now_and_for_later_come_on_the_event_loop_of_production() -> None:
    """uvloop gives a timer that is due at once another kind of handle."""

    async def run() -> list[str]:
        queue: WorkQueue[str] = WorkQueue()
        for name, seconds in (("later", 0.01), ("now", 0.0001), ("soon", 0.0003), ("next", 0.002)):
            queue.add_after(name, seconds)
        async with asyncio.timeout(60):
            return [await queue.get() for _ in range(4)]

    assert sorted(uvloop.run(run())) == ["later", "next", "now", "soon"]
