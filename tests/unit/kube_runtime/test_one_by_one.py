"""Work that takes long: its steps in iterations of the event loop."""

import asyncio

from kube_runtime import Causes, Priority, Result
from kube_runtime.controller.workers import Workers
from kube_runtime.one_by_one import OneByOne
from tests.unit.kube_runtime.until import until


async def test_one_step_begins_in_an_iteration_and_all_have_their_turn() -> None:
    turns, iteration, ran = OneByOne(), 0, list[tuple[str, int]]()

    async def count() -> None:
        nonlocal iteration
        while True:
            iteration += 1
            await asyncio.sleep(0)

    async def work(name: str) -> None:
        for _ in range(3):
            await turns.turn()
            ran.append((name, iteration))

    counting = asyncio.create_task(count())
    await asyncio.gather(*(work(name) for name in "abc"))
    counting.cancel()
    assert len({when for _, when in ran}) == len(ran)
    assert [name for name, _ in ran[:3]] == ["a", "b", "c"]


async def test_steps_wait_for_the_work_on_events_but_not_without_end() -> None:
    turns, steps = OneByOne(), 0

    async def work() -> None:
        nonlocal steps
        while True:
            await turns.turn()
            steps += 1

    working = asyncio.create_task(work())
    with turns.event():
        for _ in range(10):  # iterations, in which each step would have its turn
            await asyncio.sleep(0)
        assert steps == 0
    await until(lambda: steps > 0)
    with turns.event():
        before = steps
        await until(lambda: steps > before + 1)  # one that takes long is not waited for
    working.cancel()


async def test_events_without_end_do_not_prevent_a_step() -> None:
    turns = OneByOne()

    async def come(*, ends: asyncio.Event) -> None:
        while not ends.is_set():
            with turns.event():
                await asyncio.sleep(0.001)

    ends = asyncio.Event()
    coming = [asyncio.create_task(come(ends=ends)) for _ in range(3)]
    await asyncio.sleep(0)
    await turns.turn()
    ends.set()
    await asyncio.gather(*coming)


async def test_step_of_an_event_waits_for_other_events_alone() -> None:
    turns, others_done = OneByOne(), False

    async def other() -> None:
        nonlocal others_done
        with turns.event():
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            others_done = True

    with turns.event():
        await asyncio.gather(turns.turn(), other())
        assert others_done
        step = asyncio.ensure_future(turns.turn())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert step.done()


async def test_step_waits_while_a_worker_reconciles_an_event() -> None:
    turns, began, ends = OneByOne(), asyncio.Event(), asyncio.Event()

    async def reconcile(_key: str, _causes: Causes) -> Result:
        began.set()
        await ends.wait()
        return Result()

    workers = Workers("events", reconcile, event_workers=1, long_work=turns)
    running = asyncio.create_task(workers.run())
    for _ in range(5):  # until its workers wait
        await asyncio.sleep(0)
    workers.queue.add("demo", Priority.EVENT)
    await began.wait()
    step = asyncio.ensure_future(turns.turn())
    for _ in range(5):
        await asyncio.sleep(0)
    assert not step.done()
    ends.set()
    await step
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
