"""What is written to the status of a Module CR, and its Events. Pure functions, and their reasons."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Literal, NamedTuple

from lifecycle_manager.contract.verdict import READY, Verdict
from lifecycle_manager.module_cr_status.schema import StatusSchema
from lifecycle_manager_api import State

APPLIED = "Applied"
REFUSED = "Refused"
WAITING = "Waiting"
FIELDS_REFUSED = "ModuleStatusRefused"
"""The reason of an Event in KCP: the fields that a Module Manager adds do not fit into the CRD."""
NOT_WRITTEN = "ModuleCRStatusNotWritten"
"""The reason of an Event in KCP: the cluster refuses the status of a Module CR."""

Fields = Mapping[str, Any]


class ModuleCrEvent(NamedTuple):
    type: Literal["Normal", "Warning"]
    reason: str
    note: str


def fields_of(
    verdict: Verdict,
    schema: StatusSchema,
    *,
    known: Iterable[Fields],
    now: datetime,
    with_module_status: bool = True,
) -> Fields:
    """Return the fields of the status, as far as the kind has them.

    `known` are those that it has now, and those that were refused: since when a condition holds is in the first.
    """
    given: dict[str, Any] = dict(verdict.status) if with_module_status else {}
    state = verdict.state.among(schema.states)
    if state is not None:
        given["state"] = state
    if verdict.generation is not None:
        given["observedGeneration"] = verdict.generation
    given["conditions"] = [_condition(verdict, schema, known, now)]
    return {name: value for name, value in given.items() if schema.has(name)}


def event_of(verdict: Verdict) -> ModuleCrEvent | None:
    """Return the Event that says the same; None where the deletion of the Module CR says it."""
    match verdict.state:
        case State.READY:
            return ModuleCrEvent("Normal", APPLIED, verdict.message)
        case State.PROCESSING:
            return ModuleCrEvent("Normal", WAITING, verdict.message)
        case State.DELETING:
            return None
        case _:
            return ModuleCrEvent("Warning", REFUSED, f"{verdict.message} ({verdict.reason})")


def _condition(verdict: Verdict, schema: StatusSchema, known: Iterable[Fields], now: datetime) -> dict[str, Any]:
    status = "True" if verdict.state is State.READY else "False"
    condition = {
        "type": READY,
        "status": status,
        "reason": verdict.reason,
        "message": verdict.message,
        "lastTransitionTime": next(filter(None, (_since(each, status) for each in known)), None)
        or now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "observedGeneration": verdict.generation,
    }
    allowed = schema.condition_fields
    return {name: it for name, it in condition.items() if it is not None and (allowed is None or name in allowed)}


def _since(written: Fields, status: str) -> str | None:
    """Return since when the condition has its status, where it has it already."""
    conditions = written.get("conditions")
    for each in conditions if isinstance(conditions, list) else ():
        if isinstance(each, Mapping) and (each.get("type"), each.get("status")) == (READY, status):
            return each["lastTransitionTime"] if isinstance(each.get("lastTransitionTime"), str) else None
    return None
