"""Checks at intervals: each cluster is checked once in an interval, and those that began together are spread."""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from lifecycle_manager.contract.offsets import TOLERANCE, offset_of, until_check, until_offset

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
INTERVAL = 300.0
LATE = 0.05
"""The share of a pause that the runtime adds at most, at random."""


def at(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def checks(kyma: str, begin: float, lateness: list[float], interval: float = INTERVAL) -> Iterator[float]:
    """Yield when a Kyma is checked that was in order at the beginning."""
    moment = begin
    for late in lateness:
        moment += until_check(kyma, interval, now=at(moment)) * (1 + late)
        yield moment


late_checks = st.lists(st.floats(0, LATE), min_size=4, max_size=8)


@given(st.text(max_size=40), st.floats(0, 1e6), st.floats(1, 1e5), late_checks)
def test_nothing_is_checked_later_than_after_the_interval_nor_much_sooner(
    kyma: str, begin: float, interval: float, lateness: list[float]
) -> None:
    moments = [begin, *checks(kyma, begin, lateness, interval)]
    pauses = [after - before for before, after in pairwise(moments)]
    assert max(pauses) <= interval * (1 + LATE) + 0.01
    assert min(pauses) >= 0.39 * interval


@given(st.text(max_size=40), st.floats(0, 1e6), late_checks)
def test_from_the_second_check_on_a_kyma_is_checked_at_its_turn(kyma: str, begin: float, lateness: list[float]) -> None:
    for moment in list(checks(kyma, begin, lateness))[1:]:
        passed = INTERVAL - until_offset(kyma, INTERVAL, now=at(moment))
        assert passed <= LATE * INTERVAL + 0.01 or passed >= (1 - TOLERANCE) * INTERVAL


def test_clusters_that_were_installed_together_are_checked_evenly_over_the_interval() -> None:
    fleet = [f"{number:08x}-93a5" for number in range(1000)]
    third = [list(checks(kyma, 17.0, [0.0] * 3))[2] for kyma in fleet]
    tenths = Counter(int(moment % INTERVAL / (INTERVAL / 10)) for moment in third)
    assert len(tenths) == 10
    assert 60 <= min(tenths.values()) <= max(tenths.values()) <= 140


@given(st.text(max_size=40), st.floats(0, 1e6))
def test_another_process_knows_the_same_turn(kyma: str, begin: float) -> None:
    turn = begin + until_offset(kyma, INTERVAL, now=at(begin))
    assert 0 <= turn - begin < INTERVAL
    assert abs((turn + BEGIN.timestamp()) % INTERVAL - offset_of(kyma) * INTERVAL) % INTERVAL < 0.01
