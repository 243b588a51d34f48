"""An owner has so many workers and delays no other owner, and all its keys are reconciled in the end."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as some

from kube_runtime import (
    Causes,
    Client,
    ClientOptions,
    Controller,
    KubeconfigPolicy,
    Manager,
    ManagerOptions,
    Priority,
    Result,
    RetryPolicy,
    WorkQueue,
)
from kube_runtime.controller.options import ControllerOptions
from kube_runtime.controller.queue import QueueShutDown
from kube_runtime.controller.workers import Workers
from kube_runtime.metrics import QueueMetrics
from kube_simulation import NeverAnswer, serve_simulation
from tests.kinds import CONFIG_MAPS
from tests.waiting import eventually

QUICK = RetryPolicy(base_seconds=0.001, max_seconds=0.01, rate=0)
STALLED = tuple(f"stalled-{number}" for number in range(7))
HEALTHY = ("healthy-1", "healthy-2")
KEYS_EACH = 20

Key = tuple[str, int]


def owner_of(key: Key) -> str:
    return key[0]


def limited(most: int) -> WorkQueue[Key]:
    return WorkQueue(owner=owner_of, max_per_owner=most)


@pytest.mark.parametrize("priority", list(Priority))
async def test_seven_clusters_that_stall_delay_no_event_of_another(priority: Priority) -> None:
    policy, stalling = KubeconfigPolicy(allow_insecure=True), NeverAnswer()
    reconciled: Counter[str] = Counter()
    under_way: Counter[str] = Counter()
    most: Counter[str] = Counter()
    async with serve_simulation() as simulation, AsyncExitStack() as stack:
        clients = {
            name: await stack.enter_async_context(
                await Client.from_kubeconfig(
                    simulation.cluster(name).kubeconfig, options=ClientOptions(qps=0), policy=policy
                )
            )
            for name in ("kcp", *STALLED, *HEALTHY)
        }
        for name in STALLED:
            simulation.cluster(name).add_rule(stalling)

        async def reconcile(key: Key, _causes: Causes, _state: None) -> Result:
            cluster = key[0]
            under_way[cluster] += 1
            most[cluster] = max(most[cluster], under_way[cluster])
            try:
                await clients[cluster].list(CONFIG_MAPS, "default")
                reconciled[cluster] += 1
            finally:
                under_way[cluster] -= 1
            return Result()

        manager, stopping = Manager(clients["kcp"], ManagerOptions(retry=QUICK)), asyncio.Event()
        controller: Controller[Key, None] = manager.controller(
            "test", owner=owner_of, concurrency=30, max_per_owner=3, is_limited=False
        )
        controller.reconciles(reconcile)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(manager.run(stopping))
            await eventually(lambda: manager.working)
            for number in range(KEYS_EACH):
                for cluster in STALLED:
                    controller.enqueue((cluster, number), priority=priority)
            await eventually(lambda: all(under_way[each] for each in STALLED))
            for number in range(KEYS_EACH):
                for cluster in HEALTHY:
                    controller.enqueue((cluster, number), priority=Priority.EVENT)

            await eventually(lambda: all(reconciled[each] == KEYS_EACH for each in HEALTHY))
            assert not any(reconciled[each] for each in STALLED)
            for name in STALLED:
                simulation.cluster(name).remove_rule(stalling)
            stalling.released.set()
            await eventually(lambda: all(reconciled[each] == KEYS_EACH for each in STALLED))
            stopping.set()
    assert max(most.values()) == 3


async def test_place_goes_to_the_most_urgent_key_of_its_owner_and_not_past_those_of_others() -> None:
    queue = limited(2)
    for number, priority in enumerate((Priority.RESYNC, Priority.CHANGE, Priority.RESYNC, Priority.EVENT)):
        queue.add(("a", number), priority)
    queue.add(("b", 0), Priority.RESYNC)

    assert [await queue.get() for _ in range(3)] == [("a", 3), ("a", 1), ("b", 0)]
    assert not queue.holds(Priority.RESYNC)
    queue.add(("c", 0), Priority.RESYNC)
    queue.done(("a", 1))
    assert [await queue.get(), await queue.get()] == [("c", 0), ("a", 0)]


async def test_key_aside_that_becomes_more_urgent_takes_the_place_of_one_that_waits() -> None:
    queue = limited(1)
    for number in range(3):
        queue.add(("a", number), Priority.RESYNC)
    queue.add(("a", 2), Priority.EVENT)
    order = []
    for _ in range(3):
        order.append(await queue.get())
        queue.done(order[-1])
    assert [number for _, number in order] == [2, 0, 1]


async def test_least_urgent_key_of_an_owner_with_many_events_does_not_wait_for_ever() -> None:
    for most in (1, 3):
        queue = limited(most)
        for number in range(most):
            queue.add(("a", -2 - number), Priority.EVENT)
        queue.add(("a", -1), Priority.RESYNC)
        order = []
        for number in range(100):
            queue.add(("a", number), Priority.EVENT)
            order.append(await queue.get())
            queue.done(order[-1])
        assert ("a", -1) in order[:60]


async def test_keys_of_no_owner_are_not_limited() -> None:
    queue = limited(1)
    for number in range(5):
        queue.add(("", number))
    assert len([await queue.get() for _ in range(5)]) == 5


async def test_metrics_count_keys_aside() -> None:
    metrics = QueueMetrics()
    queue: WorkQueue[Key] = WorkQueue(owner=owner_of, max_per_owner=1, metrics=metrics)
    for number in range(3):
        queue.add(("a", number), Priority(number))
    assert metrics.depth() == {0: 1, 1: 1, 2: 1}
    assert await queue.get() == ("a", 0)
    assert metrics.depth() == {0: 0, 1: 1, 2: 1}
    assert queue.keys() == {("a", 1), ("a", 2)}


async def test_shut_down_waits_for_keys_aside_even_if_only_workers_for_events_are_left() -> None:
    reconciled: list[Key] = []
    gate = asyncio.Event()

    async def reconcile(key: Key, _causes: Causes) -> Result:
        await gate.wait()
        reconciled.append(key)
        return Result()

    workers = Workers(
        "test", reconcile, ControllerOptions(concurrency=1, event_workers=1, max_per_owner=1), owner=owner_of
    )
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(workers.run())
        await asyncio.sleep(0)
        workers.queue.add(("a", 0), Priority.EVENT)
        for number in (1, 2):
            workers.queue.add(("a", number), Priority.CHANGE)
        await asyncio.sleep(0)
        stopping = tasks.create_task(workers.shutdown(60))
        await asyncio.sleep(0)
        gate.set()
        await stopping
    assert reconciled == [("a", 0), ("a", 1), ("a", 2)]


async def test_shut_down_with_many_keys_aside_wakes_no_worker_in_vain(monkeypatch: pytest.MonkeyPatch) -> None:
    queue, asked = limited(1), Counter[Priority]()
    for number in range(200):
        queue.add(("a", number), Priority.CHANGE)
    holds = queue.holds

    def counted(least: Priority = Priority.RESYNC) -> bool:
        asked[least] += 1
        return holds(least)

    monkeypatch.setattr(queue, "holds", counted)
    for_events = asyncio.create_task(queue.filled(Priority.EVENT))
    await asyncio.sleep(0)
    queue.shut_down()
    for number in range(200):
        queue.done(await queue.get())
        await asyncio.sleep(0)
        assert for_events.done() == (number >= 198), "once nothing is aside"
    with pytest.raises(QueueShutDown):
        await for_events
    assert asked[Priority.EVENT] == 3, "at the start, at the shut-down, and when nothing is aside any more"


async def test_shut_down_leaves_to_the_next_process_what_is_less_urgent_than_a_change() -> None:
    queue = limited(1)
    queue.add(("a", 0), Priority.RESYNC)
    queue.add(("a", 1), Priority.CHANGE)
    queue.add(("a", 2), Priority.RESYNC, Causes(["cause"]))
    queue.add(("b", 0), Priority.RESYNC)
    queue.add(("b", 1), Priority.RESYNC)
    queue.add(("c", 0), Priority.EVENT)
    queue.add(("", 0), Priority.RESYNC)
    queue.add(("a", 3), Priority.CHANGE)
    queue.shut_down()
    for key in (("c", 0), ("a", 1), ("a", 3)):
        assert await queue.get() == key
        queue.done(key)
    with pytest.raises(QueueShutDown):
        await queue.get()
    assert not queue.keys()
    assert not queue.waiting_causes(("a", 2))
    await queue.drained()


def test_owner_without_any_place_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="at least one place"):
        limited(0)


KEYS = some.tuples(some.sampled_from(["", "a", "b", "c"]), some.integers(0, 4))
ADDS = some.tuples(KEYS, some.sampled_from(list(Priority)))


@given(
    steps=some.lists(some.one_of(ADDS, some.integers(0, 20)), max_size=60),
    concurrency=some.integers(1, 6),
    most=some.integers(1, 3),
)
def test_free_worker_has_a_key_unless_all_that_wait_are_of_owners_at_their_limit(
    steps: Sequence[tuple[Key, Priority] | int], concurrency: int, most: int
) -> None:
    """A step adds a key, or ends one of the reconciles under way."""
    asyncio.run(_play(steps, concurrency, most))


async def _play(steps: Sequence[tuple[Key, Priority] | int], concurrency: int, most: int) -> None:
    under_way: dict[Key, asyncio.Event] = {}
    owed: set[Key] = set()

    async def reconcile(key: Key, _causes: Causes) -> Result:
        assert key not in under_way, "a key went to two workers"
        owed.discard(key)
        end = under_way[key] = asyncio.Event()
        await end.wait()
        del under_way[key]
        return Result()

    def check() -> None:
        count = Counter(owner for owner, _ in under_way if owner)
        assert max(count.values(), default=0) <= most, "an owner has more than its share"
        if len(under_way) < concurrency:
            ready = [key for key in owed - under_way.keys() if count[key[0]] < most]
            assert not ready, "a key waits while a worker is free"

    workers = Workers(
        "test",
        reconcile,
        ControllerOptions(concurrency=concurrency, reserved_workers=0, max_per_owner=most),
        owner=owner_of,
    )
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(workers.run())
        for step in steps:
            if not isinstance(step, int):
                workers.queue.add(*step)
                owed.add(step[0])
            elif under_way:
                sorted(under_way.items())[step % len(under_way)][1].set()
            await _settle()
            check()
        while under_way or owed:
            assert under_way, "a key was lost"
            next(iter(under_way.values())).set()
            await _settle()
            check()
        stopping = tasks.create_task(workers.shutdown(60))
        await asyncio.wait([running, stopping])
    assert len(workers.queue) == 0


@given(adds=some.lists(ADDS, max_size=40), taken=some.integers(0, 6), most=some.integers(1, 3))
def test_every_event_and_change_is_given_out_after_a_shut_down(
    adds: Sequence[tuple[Key, Priority]], taken: int, most: int
) -> None:
    asyncio.run(_shut_down_after(adds, taken, most))


async def _shut_down_after(adds: Sequence[tuple[Key, Priority]], taken: int, most: int) -> None:
    queue, urgent = limited(most), set[Key]()
    for key, priority in adds:
        queue.add(key, priority)
        urgent |= {key} if priority <= Priority.CHANGE else set()
    under_way = [await queue.get() for _ in range(taken) if queue.holds(Priority.RESYNC)]
    owed = urgent - {*under_way}
    queue.shut_down()
    async with asyncio.timeout(60):
        for key in under_way:
            queue.done(key)
        while queue.holds(Priority.RESYNC):
            key = await queue.get()
            owed.discard(key)
            queue.done(key)
        with pytest.raises(QueueShutDown):
            await queue.get()
    assert not owed
    assert not queue.keys()


async def _settle() -> None:
    for _ in range(12):
        await asyncio.sleep(0)


@pytest.mark.parametrize("priority", [Priority.CHANGE, Priority.RESYNC])
async def test_events_of_an_owner_without_end_starve_no_other_key_of_it(priority: Priority) -> None:
    """A cluster that never stops sending events still gets new versions."""
    queue, waits = limited(3), ("a", 0)
    working: list[Key] = []
    for number in range(1, 51):
        queue.add((f"other-{number}", number), Priority.RESYNC)
        queue.add(("a", number), Priority.EVENT)
    queue.add(waits, priority)
    for taken in range(1_000):
        while len(working) < 12:
            working.append(await queue.get())
        if waits in working:
            break
        key = working.pop(taken * 7 % len(working))
        queue.done(key)
        queue.add(key, Priority.EVENT if owner_of(key) == "a" else Priority.RESYNC)
    assert waits in working
