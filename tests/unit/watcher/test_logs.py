"""How many lines of a message that is logged with each admission are written."""

import time

import pytest

from skr_watcher.logs import LogRateLimit

REVIEWS_PER_SECOND = 4000


def grants(limit: LogRateLimit, now: float) -> bool:
    limit.clock = lambda: now
    return limit.grants()


def test_lines_of_a_flood_are_spread_over_the_second() -> None:
    limit = LogRateLimit(per_second=50, burst=10)
    times = [100 + number / REVIEWS_PER_SECOND for number in range(2 * REVIEWS_PER_SECOND)]
    granted = [now for now in times if grants(limit, now)]
    assert len(granted) <= 10 + 2 * 50
    # A line takes longer than a review: many in a row would delay all reviews that arrive meanwhile.
    assert max(sum(begin <= now < begin + 0.05 for now in granted) for begin in granted) <= 10 + 3


def test_each_line_is_written_at_the_pace_of_people_and_denied_ones_are_counted() -> None:
    limit = LogRateLimit(per_second=50, burst=2)
    assert all(grants(limit, 100 + number / 10) for number in range(50))
    assert [grants(limit, 200.0) for _ in range(4)] == [True, True, False, False]
    assert grants(limit, 201.0)
    assert limit.denied_before == 2
    assert grants(limit, 201.0)
    assert limit.denied_before == 0


def test_lines_are_written_although_the_wall_clock_was_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    limit, now = LogRateLimit(burst=1_000), time.time()
    assert limit.grants()
    monkeypatch.setattr(time, "time", lambda: now - 3600)
    assert all(limit.grants() for _ in range(60))
