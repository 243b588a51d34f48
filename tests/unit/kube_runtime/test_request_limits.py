"""A client does not flood its server, and does not wait while there is room."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as some

from kube_runtime import Backoff
from kube_runtime.client.limits import RequestLimits, TokenBucket


@given(some.lists(some.floats(0, 5), min_size=1, max_size=60), some.integers(1, 10), some.floats(0.5, 50))
def test_bucket_never_allows_more_than_burst_and_rate(pauses: list[float], burst: int, rate: float) -> None:
    now = 0.0
    bucket = TokenBucket(rate, burst, clock=lambda: now)
    allowed: list[float] = []
    for pause in pauses:
        now += pause
        allowed.append(now + bucket.reserve())

    for first in range(len(allowed)):
        for last in range(first, len(allowed)):
            assert last - first + 1 <= burst + rate * (allowed[last] - allowed[first]) + 1.001


def test_rate_of_zero_is_no_limit() -> None:
    bucket = TokenBucket(0, 1)

    assert [bucket.reserve() for _ in range(1_000)] == [0.0] * 1_000


@pytest.mark.parametrize(("rate", "burst"), [(-1, 1), (1, 0)])
def test_nonsense_is_refused(rate: float, burst: int) -> None:
    with pytest.raises(ValueError, match="rate"):
        TokenBucket(rate, burst)


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
    await limits.turn()
    waiting = [asyncio.create_task(limits.turn()) for _ in range(10)]
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
