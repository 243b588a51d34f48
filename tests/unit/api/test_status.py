"""Aggregation of states, and transition times of conditions."""

from datetime import UTC, datetime, timedelta

import pytest

from lifecycle_manager_api import Condition, State, aggregate, find, set_condition
from lifecycle_manager_api.conditions import MAX_MESSAGE_LENGTH, last_operation, set_conditions, shortened

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
READY = Condition(type="Ready", status="True", reason="Done", message="all is well")


@pytest.mark.parametrize(
    ("states", "together"),
    [
        ((), State.READY),
        ((State.READY, State.READY), State.READY),
        ((State.READY, State.UNMANAGED), State.READY),
        ((State.READY, State.PROCESSING), State.PROCESSING),
        ((State.READY, State.DELETING), State.PROCESSING),
        ((State.READY, State.EMPTY), State.PROCESSING),
        ((State.PROCESSING, State.WARNING), State.WARNING),
        ((State.WARNING, State.ERROR, State.PROCESSING), State.ERROR),
    ],
)
def test_states_are_aggregated(states: tuple[State, ...], together: State) -> None:
    assert aggregate(states) is together
    assert aggregate(reversed(states)) is together


def test_transition_time_changes_only_with_the_status() -> None:
    first = set_condition((), READY, NOW)
    same = set_condition(first, Condition(type="Ready", status="True", reason="Other", message=""), LATER)
    other = set_condition(same, Condition(type="Ready", status="False", reason="Broken", message=""), LATER)

    assert [find(each, "Ready") for each in (first, same, other)] == [
        Condition(type="Ready", status="True", reason="Done", message="all is well", last_transition_time=NOW),
        Condition(type="Ready", status="True", reason="Other", message="", last_transition_time=NOW),
        Condition(type="Ready", status="False", reason="Broken", message="", last_transition_time=LATER),
    ]


def test_order_of_conditions_does_not_change() -> None:
    other = Condition(type="Synced", status="True", reason="Read", message="", last_transition_time=NOW)
    conditions = set_condition((other,), READY, NOW)

    assert [each.type for each in conditions] == ["Synced", "Ready"]
    assert [each.type for each in set_condition(conditions, other, LATER)] == ["Synced", "Ready"]
    assert find(conditions, "Missing") is None


def test_conditions_are_set_together_for_one_generation() -> None:
    before = set_condition((), READY, NOW)
    after = set_conditions(before, [("Ready", "False", "Broken", "why"), ("Valid", "True", "Valid", "")], 7, LATER)
    assert [(each.type, each.status, each.observed_generation) for each in after] == [
        ("Ready", "False", 7),
        ("Valid", "True", 7),
    ]
    assert all(each.last_transition_time == LATER for each in after)


def test_long_messages_are_shortened() -> None:
    (condition,) = set_conditions((), [("Ready", "False", "Broken", "é" * 100_000)], 1, NOW)
    assert len(condition.message) == MAX_MESSAGE_LENGTH
    assert condition.message.endswith("é …")
    done = last_operation(None, "x" * 100_000, NOW)
    assert len(done.operation) == MAX_MESSAGE_LENGTH
    assert last_operation(done, "x" * 100_000, LATER) is done
    assert shortened("x" * MAX_MESSAGE_LENGTH) == "x" * MAX_MESSAGE_LENGTH


def test_time_of_the_last_operation_changes_only_with_its_text() -> None:
    first = last_operation(None, "installed", NOW)
    assert last_operation(first, "installed", LATER) is first
    assert last_operation(first, "removed", LATER).last_update_time == LATER
