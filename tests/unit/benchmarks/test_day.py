"""The script of the day is complete, and its rules find what they should."""

import inspect
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from benchmarks.day import go_hour
from benchmarks.day.actions import ACTIONS
from benchmarks.day.clock import Action
from benchmarks.day.documents import VERSIONS, maintenance_policy
from benchmarks.day.judging import (
    Active,
    Change,
    Span,
    by_hour,
    by_span,
    delays_of,
    deletions_without_request,
    grown,
    growth,
    missing_alerts,
    undisturbed,
    unexpected_alerts,
    writes_without_cause,
)
from benchmarks.day.prometheus import waits_of
from benchmarks.day.script import BUSY_HOUR, CURVE, HOUR, PEAK_EDITS, SCRIPT, Entry, edits_a_second, entries_between
from lifecycle_manager.rollout.maintenance import Window

QUICK = Change("kyma-1", "configure", edited=100.0, in_force=100.5)
LATE = Change("kyma-2", "configure", edited=210.0, in_force=240.0)
FAULT = Span("region_unreachable", 200.0, 220.0, is_fault=True)
DELETED = {"at": 50.0, "cluster": "kyma-1", "verb": "delete", "kind": "configmaps"}


@pytest.mark.parametrize(
    ("entry", "actions"),
    [*((entry, ACTIONS) for entry in SCRIPT), *((entry, go_hour.ACTIONS) for entry in HOUR)],
    ids=lambda each: f"{each.hour:g} {each.does}" if isinstance(each, Entry) else "",
)
def test_each_line_of_a_script_names_an_action_and_what_it_takes(entry: Entry, actions: Mapping[str, Action]) -> None:
    inspect.signature(actions[entry.does]).bind("stage", **entry.given)


def test_each_action_is_in_its_script() -> None:
    assert {entry.does for entry in SCRIPT} == set(ACTIONS)
    assert {entry.does for entry in HOUR} == set(go_hour.ACTIONS)


def test_hour_beside_the_go_version_is_the_busiest_and_in_order() -> None:
    hours = [entry.hour for entry in HOUR]
    assert hours == sorted(hours)
    assert all(BUSY_HOUR <= hour < BUSY_HOUR + 1 for hour in hours)
    assert edits_a_second(BUSY_HOUR, 5_000) == PEAK_EDITS


def test_script_is_in_the_order_of_the_hours_and_backs_up_an_hour_before_the_restore() -> None:
    hours = [entry.hour for entry in SCRIPT]
    assert hours == sorted(hours)
    at = {entry.does: entry.hour for entry in SCRIPT}
    assert at["restore_etcd"] - at["back_up"] == 1.0


def test_second_day_repeats_the_first_with_other_versions_and_the_same_replicas() -> None:
    first, second = (list(entries_between(begin, begin + 24)) for begin in (0.0, 24.0))
    repeated = [each for each in first if not each.once]
    assert [each.does for each in second] == [each.does for each in repeated]
    assert [each.hour - 24 for each in second] == [each.hour for each in repeated]
    assert {each.does for each in first if each.once} == {"evict_replica", "upgrade_lifecycle_manager"}
    versions = [[each.given["version"] for each in day if "version" in each.given] for day in (first, second)]
    assert {*versions[0], *versions[1]} <= set(VERSIONS)
    assert not {*versions[0]} & {*versions[1]}


def test_each_alert_that_should_fire_is_one_of_the_chart() -> None:
    assert {alert for entry in SCRIPT for alert in entry.alerts} <= waits_of().keys()


@pytest.mark.parametrize("hour", [0, 9, 23])
def test_maintenance_window_is_open_or_closed_at_any_time_of_the_day(hour: int) -> None:
    now = datetime(2026, 3, 1, hour, 30, tzinfo=UTC)
    for is_open in (True, False):
        window = msgspec.convert(maintenance_policy(now, is_open=is_open)["default"], Window)
        span = window.next(now, timedelta(minutes=20))
        assert span is not None
        assert span.holds(now) is is_open


def test_rate_of_edits_follows_the_curve_and_the_size_of_the_fleet() -> None:
    assert max(CURVE) == 100
    assert edits_a_second(CURVE.index(100), 5_000) == PEAK_EDITS
    assert edits_a_second(CURVE.index(100), 500) == PEAK_EDITS / 10
    assert CURVE[7] < CURVE[8]
    assert edits_a_second(7.0, 5_000) < edits_a_second(7.5, 5_000) < edits_a_second(8.0, 5_000)


def test_quantiles_of_few_and_of_many_changes() -> None:
    assert delays_of([]).count == 0
    assert delays_of([3.0]).p99 == 3.0
    assert (delays_of([1.0] * 99 + [50.0]).p50, delays_of([1.0] * 99 + [50.0]).worst) == (1.0, 50.0)


def test_change_during_a_fault_or_shortly_after_does_not_count_against_the_bar() -> None:
    shortly_after = Change("kyma-3", "configure", edited=270.0, in_force=272.0)
    long_after = Change("kyma-3", "configure", edited=290.0, in_force=292.0)
    assert undisturbed([QUICK, LATE, shortly_after, long_after], [FAULT]) == [QUICK, long_after]


def test_changes_are_told_apart_by_hour_and_by_what_else_went_on() -> None:
    assert {hour: each.count for hour, each in by_hour([QUICK, LATE], lambda at: at / 100).items()} == {1: 1, 2: 1}
    assert by_span([QUICK, LATE], [FAULT])["region_unreachable"].worst == LATE.seconds


def test_deletion_that_nobody_asked_for_is_found() -> None:
    assert deletions_without_request([DELETED], {}, []) == [DELETED]
    assert deletions_without_request([DELETED], {"kyma-1": [60.0]}, []) == [DELETED]
    assert not deletions_without_request([DELETED], {"kyma-1": [40.0]}, [])
    assert not deletions_without_request([DELETED], {}, ["kyma-1"])


def test_write_without_a_user_and_without_an_action_is_found() -> None:
    write = {"at": 50.0, "cluster": "kyma-1", "verb": "apply", "kind": "configmaps", "name": "module-aaa"}
    assert writes_without_cause([write], {}, [FAULT], within=10) == {"apply configmaps": 1}
    assert not writes_without_cause([write], {"kyma-1": [45.0]}, [], within=10)
    assert not writes_without_cause([{**write, "at": 225.0}], {}, [FAULT], within=10)
    assert not writes_without_cause([{**write, "kind": "serviceaccounts", "name": "skr-webhook"}], {}, [], within=10)
    assert writes_without_cause([write], {}, [Span("joins", 0.0, 100.0)], within=10) == {"apply configmaps": 1}


def test_alert_that_would_fire_in_a_day_of_full_length_is_missed_or_unexpected() -> None:
    active = Active("Silent", "kyma=1", 200.0, 230.0, fired=False)
    waits, outage = {"Silent": 600.0}, Span("outage", 190.0, 220.0, alerts=("Silent",))
    assert not missing_alerts([active], [outage], waits, speed=20)
    assert missing_alerts([active], [outage], waits, speed=10) == ["Silent in outage"]
    assert missing_alerts([], [outage], waits, speed=20) == ["Silent in outage"]
    fired = replace(active, fired=True)
    assert not unexpected_alerts([fired], [outage])
    assert unexpected_alerts([fired, active], []) == [fired]


def test_growth_compares_the_same_hours_of_a_process_that_ran_on_two_days_or_more() -> None:
    samples = [
        {"at": 22.0, "process": "a", "mb": 100.0},
        {"at": 23.0, "process": "a", "mb": 102.0},
        {"at": 30.0, "process": "a", "mb": 900.0},
        {"at": 46.0, "process": "a", "mb": 105.0},
        {"at": 46.0, "process": "b", "mb": 7.0},
        {"at": 70.0, "process": "b", "mb": 8.0},
        {"at": 70.0, "process": "a", "mb": 106.0},
    ]
    assert growth(samples, lambda at: at, (21.5, 24.0)) == {"a": {"mb": (101.0, 105.0, 106.0)}, "b": {"mb": (7.0, 8.0)}}


def test_replicas_of_a_program_grow_together() -> None:
    used: dict[str, dict[str, tuple[float, ...]]] = {
        "lifecycle-manager-1": {"mb": (90.0, 100.0, 90.0)},
        "lifecycle-manager-2": {"mb": (100.0, 114.0)},
        "etcd": {"mb": (1.0, 9.0)},
    }
    assert grown(used, "lifecycle-manager") == {"mb": pytest.approx(0.02)}
