"""Causes travel with a key: merged while it waits, is worked on or delayed, given again to a retry, and bounded."""

import asyncio
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as some

from kube_runtime import MAX_CAUSES_PER_KEY, Causes, Priority, Result, RetryPolicy, WorkQueue
from kube_runtime.controller.held_causes import HELD_SECONDS, MAX_HELD, HeldCauses
from kube_runtime.controller.options import ControllerOptions
from kube_runtime.controller.workers import Workers

QUICK = RetryPolicy(base_seconds=0.001, max_seconds=0.001, rate=0)


@dataclass(frozen=True)
class Changed:
    name: str


def test_causes_are_found_by_type_and_by_value() -> None:
    causes = Causes([Changed("a"), "everything", Changed("b"), Changed("a")])

    assert causes.of(Changed) == (Changed("a"), Changed("b"))
    assert "everything" in causes
    assert "nothing" not in causes
    assert list(causes) == [Changed("a"), "everything", Changed("b")]


@dataclass(frozen=True)
class Seen:
    name: str
    at: int = field(compare=False)


def test_newest_of_equal_causes_is_kept() -> None:
    merged = Causes([Seen("a", 1), Seen("b", 2)]).merged(Causes([Seen("a", 3)]))

    assert [each.at for each in merged.of(Seen)] == [3, 2]


@pytest.mark.parametrize("is_retried", [True, False])
async def test_causes_of_a_failed_reconcile_do_not_replace_what_arrived_meanwhile(*, is_retried: bool) -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("key", causes=Causes([Seen("a", 2)]))
    failed = Causes([Seen("a", 1)])
    if is_retried:
        queue.add_rate_limited("key", causes=failed)
    else:
        queue.return_causes("key", failed)

    assert [each.at for each in queue.waiting_causes("key").of(Seen)] == [2]


def test_no_causes_are_false() -> None:
    assert not Causes()
    assert Causes(["a"])
    assert Causes(overflowed=True)


@given(some.lists(some.lists(some.integers(0, 150), max_size=80), max_size=8))
def test_merged_causes_are_complete_or_say_that_some_are_missing(arrivals: list[list[int]]) -> None:
    merged = Causes()
    for arrived in arrivals:
        merged = merged.merged(Causes(arrived))
    distinct = {cause for arrived in arrivals for cause in arrived}

    assert len(merged) == min(len(distinct), MAX_CAUSES_PER_KEY)
    assert set(merged) <= distinct
    assert merged.overflowed == (len(distinct) > MAX_CAUSES_PER_KEY)


def test_newest_of_too_many_causes_are_kept() -> None:
    """Those of events whose writes may not be stored yet."""
    merged = Causes(range(MAX_CAUSES_PER_KEY)).merged(Causes(["newest"]))

    assert merged.overflowed
    assert list(merged) == [*range(1, MAX_CAUSES_PER_KEY), "newest"]


async def test_causes_merge_while_a_key_waits() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("key", Priority.RESYNC, Causes("a"))
    queue.add("key", Priority.EVENT, Causes("b"))

    assert queue.take_causes(await queue.get()) == Causes("ab")
    assert queue.waiting_causes("key") == Causes()


async def test_causes_that_arrive_during_a_reconcile_are_for_the_next_one() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("key", causes=Causes("a"))
    key = await queue.get()
    assert queue.take_causes(key) == Causes("a")

    queue.add("key", causes=Causes("b"))
    queue.add("key", causes=Causes("c"))

    assert queue.waiting_causes("key") == Causes("bc")
    queue.done(key)
    assert queue.take_causes(await queue.get()) == Causes("bc")


@pytest.mark.looptime
async def test_delayed_causes_come_when_the_key_is_due_and_not_before() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add_after("key", 2.0, causes=Causes("a"))
    queue.add_after("key", 2.0, causes=Causes("b"))
    queue.add("key", causes=Causes(["now"]))

    first = await queue.get()
    assert queue.take_causes(first) == Causes(["now"])
    queue.done(first)
    assert queue.take_causes(await queue.get()) == Causes("ab")


async def test_causes_of_a_reconcile_that_raised_are_given_to_its_retry() -> None:
    seen: list[Causes] = []
    done = asyncio.Event()
    workers: Workers[str]

    async def reconcile(key: str, causes: Causes) -> Result:
        seen.append(causes)
        if len(seen) == 1:
            workers.queue.add(key, causes=Causes("b"))
            raise ValueError("once")
        if len(seen) == 2:
            done.set()
        return Result()

    workers = Workers("test", reconcile, ControllerOptions(retry=QUICK))
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(workers.run())
        workers.queue.add("key", causes=Causes("a"))
        await done.wait()
        await workers.shutdown(60)

    assert seen[:2] == [Causes("a"), Causes("ab")]


async def test_kept_causes_do_not_enqueue_their_key() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.return_causes("key", Causes("a"))
    assert len(queue) == 0

    queue.add("key", causes=Causes("b"))

    assert queue.take_causes(await queue.get()) == Causes("ab")


@pytest.mark.looptime
async def test_causes_of_keys_that_are_never_owned_are_not_held_for_long() -> None:
    held: HeldCauses[str] = HeldCauses()
    held.hold("traced", Causes(trace="00-1-2-01"))
    held.hold("early", Causes(["a"]))
    await asyncio.sleep(HELD_SECONDS / 2)
    held.hold("late", Causes(["b"]))
    assert held.keys() == {"early", "late"}
    await asyncio.sleep(HELD_SECONDS / 2 + 1)
    held.hold("late", Causes(["c"]))

    assert held.release(lambda _: True) == [("late", Causes(["b", "c"]))]
    assert held.release(lambda _: True) == []


@pytest.mark.looptime
async def test_old_causes_of_a_key_that_is_owned_at_last_are_not_released() -> None:
    held: HeldCauses[str] = HeldCauses()
    held.hold("old", Causes(["a"]))
    await asyncio.sleep(HELD_SECONDS + 1)

    assert held.release(lambda _: True) == []


async def test_only_the_newest_causes_of_keys_that_are_not_owned_are_held() -> None:
    held: HeldCauses[int] = HeldCauses()
    for number in range(MAX_HELD + 2):
        held.hold(number, Causes(["a"]))

    assert held.keys() == {*range(2, MAX_HELD + 2)}
