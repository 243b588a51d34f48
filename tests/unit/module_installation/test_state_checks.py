"""The state of a module as its Module CR shows it."""

from typing import Any

import pytest

from lifecycle_manager.module_installation.state_checks import state_of
from lifecycle_manager_api import CustomStateCheck, State
from tests.cpu_time import takes_at_most


def check(path: str, value: str, state: str) -> CustomStateCheck:
    return CustomStateCheck(json_path=path, value=value, mapped_state=State(state))


HEALTH = (
    check("status.health", "green", "Ready"),
    check("status.level", "full", "Ready"),
    check("status.health", "red", "Error"),
    check("status.health", "yellow", "Warning"),
    check("status.tired", "true", "Warning"),
)


@pytest.mark.parametrize(
    ("module_cr", "expected"),
    [
        ({"status": {"state": "Ready"}}, "Ready"),
        ({"status": {"state": "Warning"}}, "Warning"),
        ({"status": {"state": "Deleting"}}, "Deleting"),
        ({"status": {"state": "Blooming"}}, "Processing"),
        ({"status": {"state": 7}}, "Processing"),
        ({"status": {}}, "Processing"),
        ({"status": "Ready"}, "Processing"),
        ({}, "Processing"),
        ({"metadata": {"deletionTimestamp": "now"}, "status": {"state": "Ready"}}, "Deleting"),
    ],
)
def test_without_checks_the_module_cr_says_its_state(module_cr: dict[str, Any], expected: str) -> None:
    assert state_of(module_cr, ())[0] == expected


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"health": "green", "level": "full"}, "Ready"),
        ({"health": "green", "level": "low"}, "Processing"),
        ({"health": "green"}, "Processing"),
        ({"health": "yellow"}, "Processing"),
        ({"health": "yellow", "tired": True}, "Warning"),
        ({"health": "red", "tired": True}, "Error"),
        ({}, "Processing"),
    ],
)
def test_every_check_of_a_state_has_to_hold(status: dict[str, Any], expected: str) -> None:
    assert state_of({"status": status}, HEALTH)[0] == expected


def test_gravest_of_the_states_that_hold_counts() -> None:
    both = (check("status.a", "1", "Ready"), check("status.a", "1", "Deleting"), check("status.b", "2", "Error"))
    assert state_of({"status": {"a": 1}}, both)[0] == "Deleting"
    state, message = state_of({"status": {"a": 1, "b": 2}}, both)
    assert (state, message) == ("Error", "has status.b = 2")


@pytest.mark.parametrize(
    "path",
    ["status.conditions[0].status", ".status.conditions[0].status", "$.status['conditions'][0][\"status\"]"],
)
def test_path_has_names_and_indexes(path: str) -> None:
    module_cr = {"status": {"conditions": [{"type": "Up", "status": "True"}]}}
    assert state_of(module_cr, (check(path, "True", "Ready"),))[0] == "Ready"


@pytest.mark.parametrize(
    "checks",
    [
        (check("status.[[", "x", "Ready"),),
        (check("status" + ".a" * 50_000, "x", "Ready"),),
        (check("a" * 257, "x", "Ready"),),
        (check("status" + ".a" * 32, "x", "Ready"),),
        (check("status[?search(@, '(a+)+$')]", "x", "Ready"),),
        (check("$..*..*..*", "x", "Ready"),),
        (check("status.a", "x" * 257, "Ready"),),
        (check("status.a", "x", "Ready"),) * 33,
    ],
    ids=["broken", "50,000 segments", "long", "33 segments", "filter", "wildcards", "long value", "33 checks"],
)
def test_stored_check_that_is_invalid_is_an_error_that_says_so_at_once(checks: tuple[CustomStateCheck, ...]) -> None:
    text = "a" * 1_000_000 + "!"
    deep: dict[str, Any] = {}
    for _ in range(500):
        deep = {"a": deep, "b": deep}
    status = {"a": text, "deep": deep}
    assert takes_at_most(0.1, lambda: state_of({"status": status}, checks))
    state, message = state_of({"status": status}, checks)
    assert state == "Error"
    assert "customStateCheck" in message
    assert len(message) < 400


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("1", "1"),
        (1, "1"),
        (1.5, "1.5"),
        (True, "true"),
        (None, "null"),
        (["a"], None),
        ({}, None),
        (10**400, None),
    ],
)
def test_value_is_compared_as_text_unless_it_may_be_large(value: Any, text: str | None) -> None:
    for each in ("1", "1.5", "true", "null", '["a"]', "{}"):
        expected = "Ready" if each == text else "Processing"
        assert state_of({"status": {"a": value}}, (check("status.a", each, "Ready"),))[0] == expected
