"""A rate limit allows a burst and a rate, whatever the clock does; that of the Watcher is the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from kube_runtime import RateLimit, RateLimits
from skr_watcher.rate_limit import WatcherRateLimit


@given(some.lists(some.floats(0, 5), min_size=1, max_size=60), some.integers(1, 10), some.floats(0.5, 50))
def test_limit_never_allows_more_than_burst_and_rate(pauses: list[float], burst: int, rate: float) -> None:
    now, limit, of_watcher = 0.0, RateLimit(rate, burst), WatcherRateLimit(rate, burst)
    allowed: list[float] = []
    for pause in pauses:
        now += pause
        wait = limit.take(now)
        assert of_watcher.take(now) == pytest.approx(wait, abs=1e-6)
        allowed.append(now + wait)

    for first in range(len(allowed)):
        for last in range(first, len(allowed)):
            assert last - first + 1 <= burst + rate * (allowed[last] - allowed[first]) + 1.001


def test_rate_of_zero_is_no_limit() -> None:
    limit = RateLimit(0, 1)
    assert [limit.take(0.0) for _ in range(1_000)] == [0.0] * 1_000


@pytest.mark.parametrize(("rate", "burst"), [(-1, 1), (1, 0)])
def test_nonsense_is_refused(rate: float, burst: int) -> None:
    with pytest.raises(ValueError, match="rate"):
        RateLimit(rate, burst)


def test_what_is_not_granted_does_not_count() -> None:
    limit = RateLimit(1, 2)
    assert [limit.grants(0.0) for _ in range(9)] == [True, True] + [False] * 7
    assert limit.wait(0.0) == 1
    assert limit.grants(1.0)
    assert not limit.is_unused(2.0)
    assert limit.is_unused(3.0)


def test_clock_that_is_set_back_makes_nobody_wait() -> None:
    limits = RateLimits[str](1, 2)
    assert limits.grants("runtime", 10_000.0)
    assert limits.wait("runtime", 0.0) == 0
    assert limits.grants("runtime", 0.0)
    assert not limits.grants("runtime", 0.0)
    assert 0 < limits.wait("runtime", 0.0) <= 1
    assert limits.grants("runtime", 1.0)


def test_keys_beyond_the_most_are_forgotten_from_the_one_used_longest_ago() -> None:
    limits = RateLimits[str](1, 1, most=2)
    assert all(limits.grants(key, 0.0) for key in "abc")
    assert not limits.grants("c", 0.0)
    assert limits.grants("a", 0.0), "it was forgotten"
