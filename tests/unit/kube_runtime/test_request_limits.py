"""A client does not flood its server, and does not wait while there is room."""

import asyncio

import pytest

from kube_runtime import Backoff
from kube_runtime.client.limits import IN_BACKGROUND, RequestLimits


@pytest.mark.looptime
async def test_pause_holds_every_request_back() -> None:
    loop = asyncio.get_running_loop()
    limits = RequestLimits(0, 1, 10)
    began = loop.time()
    limits.pause(5)
    async with limits:
        assert 4.9 < loop.time() - began < 5.1


@pytest.mark.looptime
async def test_those_behind_a_cancelled_request_move_up() -> None:
    loop = asyncio.get_running_loop()
    limits = RequestLimits(0.5, 1, 10)
    await limits.wait()
    waiting = [asyncio.create_task(limits.wait()) for _ in range(10)]
    await asyncio.sleep(0)
    for task in waiting[:-1]:  # as reconciles whose time is up
        task.cancel()
    began = loop.time()
    await waiting[-1]
    assert 1.9 < loop.time() - began < 2.1


@pytest.mark.looptime
async def test_request_that_is_cancelled_before_it_has_a_place_costs_nothing() -> None:
    loop = asyncio.get_running_loop()
    limits = RequestLimits(0.01, 2, 1)
    async with limits:
        waiting = asyncio.create_task(limits.__aenter__())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
    began = loop.time()
    async with limits:
        assert loop.time() - began < 1


async def test_only_so_many_are_under_way() -> None:
    limits = RequestLimits(0, 1, 2)
    under_way = most = 0

    async def request() -> None:
        nonlocal under_way, most
        async with limits:
            under_way += 1
            most = max(most, under_way)
            await asyncio.sleep(0)
            under_way -= 1

    await asyncio.gather(*(request() for _ in range(10)))
    assert most == 2


def test_backoff_doubles_to_its_limit_with_jitter_and_begins_again() -> None:
    backoff = Backoff(base=1, max=4, jitter=0.5, draw=lambda: 1.0)

    assert [backoff.next() for _ in range(4)] == [1.5, 3.0, 6.0, 6.0]
    backoff.reset()
    assert backoff.next() == 1.5


async def test_request_that_a_user_waits_for_passes_those_in_the_background() -> None:
    limits, sent = RequestLimits(0, 1, 3, 2), list[str]()

    async def request(name: str, *, in_background: bool) -> None:
        IN_BACKGROUND.set(in_background)
        async with limits:
            sent.append(name)
            await answered.wait()

    answered = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        for number in range(4):
            tasks.create_task(request(f"background {number}", in_background=True))
        cancelled = tasks.create_task(request("cancelled", in_background=True))
        await asyncio.sleep(0)
        cancelled.cancel()
        tasks.create_task(request("user's", in_background=False))
        await asyncio.sleep(0)
        assert sent == ["background 0", "background 1", "user's"]
        answered.set()
    assert sent[3:] == ["background 2", "background 3"]
