"""Maintenance windows: weekly, in their own time zone, over midnight, and never begun when they are nearly over."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lifecycle_manager.rollout.maintenance import MaintenancePolicy, PolicyUnreadable, Window, read_policy
from lifecycle_manager_api import names

MIN_LENGTH = timedelta(minutes=20)
WITH_BROKEN_WINDOW = """
    {"default": {"days": [], "begin": "00:00Z", "end": "00:00Z"},
     "rules": [{"match": {"plan": "aws"}, "windows": [{"days": ["Mon"], "begin": "00:00Z", "end": "24:30Z"}]}]}
"""
ANY_TIME = Window(("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"), "00:00:00+00:00", "00:00:00+00:00")


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


DEFAULT = "Sat"
SUNDAY_NOON = at("2026-11-01T12:00:00+00:00")


@pytest.mark.parametrize(
    ("days", "begin", "end", "expected"),
    [
        ("Sun", "14:00:00+00:00", "16:00:00+00:00", "2026-11-01T14:00Z 2026-11-01T16:00Z"),
        ("Sat", "22:00:00+00:00", "13:00:00+00:00", "2026-10-31T22:00Z 2026-11-01T13:00Z"),
        ("Sun", "03:00:00+00:00", "03:00:00+00:00", "2026-11-01T03:00Z 2026-11-02T03:00Z"),
        ("Sun", "10:00:00+00:00", "12:10:00+00:00", "2026-11-08T10:00Z 2026-11-08T12:10Z"),
        ("Sun", "20:00:00-05:00", "03:00:00+01:00", "2026-11-02T01:00Z 2026-11-02T02:00Z"),
        ("Mon", "01:00:00+14:00", "03:00:00+14:00", "2026-11-01T11:00Z 2026-11-01T13:00Z"),
    ],
    ids=["same day", "since yesterday", "whole day", "nearly over", "end in another zone", "day of its own zone"],
)
def test_next_occurrence_of_a_window(days: Any, begin: str, end: str, expected: str) -> None:
    span = Window((days,), begin, end).next(SUNDAY_NOON, MIN_LENGTH)
    assert span == tuple(map(at, expected.split()))


def test_window_that_is_never_open_for_long_enough_is_none() -> None:
    brief = Window(ANY_TIME.days, "12:15:00+00:00", "12:30:00+00:00")
    assert brief.next(SUNDAY_NOON, MIN_LENGTH) is None
    assert brief.next(SUNDAY_NOON, timedelta(minutes=15)) is not None
    rules = [{"match": {"region": "eu"}, "windows": [msgspec.to_builtins(brief)]}]
    assert day_of({names.REGION: "eu-1"}, *rules) == DEFAULT


def test_window_over_midnight_is_open_on_both_of_its_days() -> None:
    window = Window(("Sat",), "22:00:00+02:00", "04:00:00+02:00")
    for moment, is_open in (
        ("2026-11-07T19:59:59+00:00", False),
        ("2026-11-07T20:00:00+00:00", True),
        ("2026-11-08T01:40:00+00:00", True),
        ("2026-11-08T01:40:01+00:00", False),  # less than the least time is left
    ):
        span = window.next(at(moment), MIN_LENGTH)
        assert span is not None
        assert span.holds(at(moment)) is is_open


def test_earliest_window_of_a_rule_counts() -> None:
    windows = [{"days": [day], "begin": "01:00:00+00:00", "end": "03:00:00+00:00"} for day in ("Thu", "Tue", "Wed")]
    assert day_of({names.BROKER_PLAN_NAME: "aws"}, {"match": {"plan": "aws"}, "windows": windows}) == "Tue"


def test_rule_without_expressions_matches_nobody() -> None:
    assert day_of({names.REGION: "eu"}, rule({}, "Tue")) == DEFAULT


def day_of(labels: dict[str, str], *rules: dict[str, Any]) -> str:
    """Return the day of the next window of a Kyma by these rules, or else that of the default one."""
    default = {"days": [DEFAULT], "begin": "00:00:00+00:00", "end": "00:00:00+00:00"}
    policy = msgspec.convert({"default": default, "rules": rules}, MaintenancePolicy)
    found = policy.next_window(labels, now=SUNDAY_NOON, min_length=MIN_LENGTH)
    assert found is not None
    return found.begin.strftime("%a")


def rule(match: dict[str, str], day: str) -> dict[str, Any]:
    return {"match": match, "windows": [{"days": [day], "begin": "01:00:00+00:00", "end": "03:00:00+00:00"}]}


@pytest.mark.parametrize(
    ("match", "labels"),
    [
        ({"plan": "^(trial|free)$"}, {names.BROKER_PLAN_NAME: "trial"}),
        ({"region": "^eu-"}, {names.REGION: "eu-central-1"}),
        ({"platformRegion": "cf-eu"}, {names.PLATFORM_REGION: "cf-eu10"}),
        ({"globalAccountID": "^abc$"}, {names.GLOBAL_ACCOUNT_ID: "abc"}),
        ({"plan": "^nothing$", "region": "^eu"}, {names.BROKER_PLAN_NAME: "aws", names.REGION: "eu-west-1"}),
    ],
)
def test_rule_matches_where_any_of_its_expressions_does(match: dict[str, str], labels: dict[str, str]) -> None:
    assert day_of(labels, rule(match, "Tue")) == "Tue"


def test_first_matching_rule_with_a_window_wins_and_the_default_serves_the_rest() -> None:
    empty = {"match": {"region": "eu"}, "windows": []}
    rules = [rule({"region": "us"}, "Mon"), empty, rule({"region": "eu"}, "Wed"), rule({"region": "eu"}, "Mon")]
    assert day_of({names.REGION: "eu-1"}, *rules) == "Wed"
    assert day_of({names.REGION: "ap-1"}, *rules) == DEFAULT


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        '{"default": {"days": ["Someday"], "begin": "00:00:00+00:00", "end": "00:00:00+00:00"}}',
        '{"default": {"days": ["Mon"], "begin": "noon", "end": "00:00:00+00:00"}}',
        '{"default": {"days": ["Mon"], "begin": "00:00:00", "end": "00:00:00+00:00"}}',
        '{"default": {"days": [], "begin": "00Z", "end": "00Z"}, "rules": [{"match": {"plan": "("}, "windows": []}]}',
        WITH_BROKEN_WINDOW,
    ],
)
def test_error_of_an_invalid_policy_says_what_is_wrong(tmp_path: Path, text: str) -> None:
    path = tmp_path / "policy.json"
    path.write_text(text)
    with pytest.raises(PolicyUnreadable, match="maintenance policy"):
        read_policy(path)


def test_error_of_a_missing_policy_says_so(tmp_path: Path) -> None:
    with pytest.raises(PolicyUnreadable, match="No such file"):
        read_policy(tmp_path / "missing.json")


DAYS = st.lists(st.sampled_from(ANY_TIME.days), min_size=1, max_size=7, unique=True).map(tuple)
TIMES = st.builds(
    "{:02}:{:02}:00{}{:02}:00".format,
    st.integers(0, 23),
    st.integers(0, 59),
    st.sampled_from("+-"),
    st.integers(0, 12),
)


@given(
    days=DAYS,
    begin=TIMES,
    end=TIMES,
    now=st.datetimes(datetime(2026, 1, 1), datetime(2030, 1, 1)),  # noqa: DTZ001 - made aware below
)
def test_next_window_is_near_and_leaves_enough_time(days: Any, begin: str, end: str, now: datetime) -> None:
    moment = now.replace(tzinfo=UTC)
    window = Window(days, begin, end)
    whole = window.next(moment, timedelta(0))
    assert whole is not None
    span = window.next(moment, MIN_LENGTH)
    if span is None:
        assert whole.end - whole.begin < MIN_LENGTH
        return
    assert span.begin < span.end <= span.begin + timedelta(days=2)
    assert span.end - moment >= MIN_LENGTH
    assert span.begin - moment <= timedelta(days=9)
