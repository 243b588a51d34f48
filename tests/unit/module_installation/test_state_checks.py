"""The state of a module as its Module CR shows it."""

from typing import Any

import pytest

from lifecycle_manager.module_installation.state_checks import state_of
from lifecycle_manager_api import CustomStateCheck, State


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
    ["status.conditions[?(@.type=='Up')].status", ".status.conditions[0].status", "$.status['conditions'][*].status"],
)
def test_path_may_be_any_that_kubernetes_knows(path: str) -> None:
    module_cr = {"status": {"conditions": [{"type": "Up", "status": "True"}]}}
    assert state_of(module_cr, (check(path, "True", "Ready"),))[0] == "Ready"


def test_path_that_can_not_be_read_is_an_error_that_says_so() -> None:
    state, message = state_of({"status": {}}, (check("status.[[", "x", "Ready"),))
    assert state == "Error"
    assert "customStateCheck" in message
