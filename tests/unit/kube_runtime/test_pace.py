"""How much is done at once of what is not urgent: little on a loop that is late, and nothing urgent waits for it."""

import asyncio
import time

import pytest

from kube_runtime import Causes, Pace, Priority, Result
from kube_runtime.controller import Workers
from tests.unit.kube_runtime.until import until


def _work(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


async def test_loop_that_is_late_has_less_under_way() -> None:
    pace = Pace(max_limit=64)
    highest = 0

    async def busy() -> None:
        nonlocal highest
        async with pace.place():
            for _ in range(3):
                _work(0.004)
                await asyncio.sleep(0)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(100):
            tasks.create_task(busy())
    assert pace.limit == 4


async def test_work_that_only_waits_has_more_under_way() -> None:
    pace = Pace(max_limit=64)
    under_way, most = 0, 0

    async def patient() -> None:
        nonlocal under_way, most
        async with pace.place():
            under_way += 1
            most = max(most, under_way)
            await asyncio.sleep(0.02)
            under_way -= 1

    async with asyncio.TaskGroup() as tasks:
        for _ in range(1_000):
            tasks.create_task(patient())
    assert 16 < most <= 64


@pytest.mark.parametrize("leaves_first", [True, False], ids=["before a place is free", "just as one is free"])
async def test_place_that_is_given_to_somebody_who_left_goes_to_the_next(*, leaves_first: bool) -> None:
    pace = Pace(max_limit=4)
    release = asyncio.Event()
    entered: list[int] = []

    async def hold(number: int) -> None:
        async with pace.place():
            entered.append(number)
            await release.wait()

    async with asyncio.TaskGroup() as tasks:
        held = [tasks.create_task(hold(number)) for number in range(16)]
        await until(lambda: len(entered) == 16)
        leaving, staying = tasks.create_task(hold(16)), tasks.create_task(hold(17))
        await asyncio.sleep(0)
        for task in (leaving, held[0]) if leaves_first else (held[0], leaving):
            task.cancel()
        await until(lambda: 17 in entered)
        release.set()
    assert leaving.cancelled()
    assert not staying.cancelled()


async def test_more_urgent_ones_go_first_and_one_in_sixteen_is_of_the_least() -> None:
    pace = Pace(max_limit=16)
    entered: list[Priority] = []
    release = asyncio.Event()

    async def hold(priority: Priority) -> None:
        async with pace.place(priority):
            entered.append(priority)
            await release.wait()

    async with asyncio.TaskGroup() as tasks:
        for _ in range(16):
            tasks.create_task(hold(Priority.RESYNC))
        await until(lambda: len(entered) == 16)
        for priority in (*[Priority.RESYNC] * 3, *[Priority.MISSED] * 5, *[Priority.CHANGE] * 30):
            tasks.create_task(hold(priority))
        await asyncio.sleep(0)
        release.set()
    least = [number for number, priority in enumerate(entered[16:], start=1) if priority is Priority.RESYNC]
    assert least == [16, 32, 38]
    others = [each for each in entered[16:] if each is not Priority.RESYNC]
    assert others == [Priority.CHANGE] * 30 + [Priority.MISSED] * 5


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

    controller = Workers("busy", reconcile, concurrency=4, pace=Pace())
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(controller.run())
        for number in range(50):
            controller.queue.add(f"other-{number}", others)
        await until(lambda: len(begun) == places)
        controller.queue.add("urgent", urgency)
        await until(lambda: "urgent" in begun)
        controller.queue.add("other-49", urgency)  # one that waits already becomes urgent
        await until(lambda: "other-49" in begun)
        assert len(begun) == places + 2
        release.set()
        await controller.queue.drained()
        await controller.shutdown(60)
    assert len(begun) == 51
