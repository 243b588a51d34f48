"""A module's state by its Module CR: from status.state, or from the paths of its ModuleTemplate. Pure functions.

Of the states whose every check holds, the worst counts. A path without a value does not hold; where no check holds,
the module is Processing.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from lifecycle_manager.module_catalog.state_paths import check_error, state_path, value_at
from lifecycle_manager_api import CustomStateCheck, State

_TOO_LARGE = 2**63
"""An integer that no API server stores."""
PRECEDENCE = (State.ERROR, State.WARNING, State.PROCESSING, State.DELETING, State.READY)


def state_of(module_cr: Mapping[str, Any], checks: Sequence[CustomStateCheck]) -> tuple[State, str]:
    """Return the state of a Module CR, and a message where it is not Ready."""
    if module_cr.get("metadata", {}).get("deletionTimestamp"):
        return State.DELETING, "is being deleted"
    if checks:
        return _checked(module_cr, checks)
    return _from_status(module_cr)


def _from_status(module_cr: Mapping[str, Any]) -> tuple[State, str]:
    status = module_cr.get("status")
    state = status.get("state") if isinstance(status, Mapping) else None
    if state in PRECEDENCE:
        return State(state), "" if state == State.READY else f"says {state}"
    return State.PROCESSING, "shows no state yet" if state is None else f"shows an unknown state: {state!r}"


def _checked(module_cr: Mapping[str, Any], checks: Sequence[CustomStateCheck]) -> tuple[State, str]:
    if (problem := check_error(checks)) is not None:
        return State.ERROR, f"can't be evaluated: its ModuleTemplate is invalid: {problem}"
    by_state: dict[State, list[CustomStateCheck]] = {}
    for check in checks:
        by_state.setdefault(check.mapped_state, []).append(check)
    for state in PRECEDENCE:
        if state in by_state and all(_holds(module_cr, check) for check in by_state[state]):
            found = " and ".join(f"{check.json_path} = {check.value}" for check in by_state[state])
            return state, "" if state is State.READY else f"has {found}"
    return State.PROCESSING, "has none of the values of customStateCheck yet"


def _holds(module_cr: Mapping[str, Any], check: CustomStateCheck) -> bool:
    return any(_as_text(value) == check.value for value in value_at(module_cr, state_path(check.json_path)))


def _as_text(value: Any) -> str | None:
    """Return a value as a check has it; None for what may be of any size."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping | list) or (isinstance(value, int) and abs(value) >= _TOO_LARGE):
        return None
    return msgspec.json.encode(value).decode()
