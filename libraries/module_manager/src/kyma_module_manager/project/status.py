"""Whether the status of a Module CR can carry what Lifecycle Manager answers to the user there, and what its CRD needs.

Lifecycle Manager writes the fields that the schema has, and one of its states: what the schema requires besides, or
allows no other value for, makes the API server refuse the whole status.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kyma_module_manager.project.schema import Schema, schema_of, violations
from lifecycle_manager_api import State, names

__all__ = ["status_notices"]

FIELDS = ("state", "observedGeneration", "conditions")
REASONS = {
    State.READY: "Applied",
    State.PROCESSING: "Applying",
    State.ERROR: "InvalidResource",
    State.WARNING: "ClusterNotAccessible",
    State.DELETING: "Deleting",
}
"""What Lifecycle Manager answers, with one reason of each state."""
NEAREST = {State.WARNING: State.ERROR, State.ERROR: State.WARNING}
"""The state that it takes where the schema does not have its own."""
WHY = (
    "Lifecycle Manager writes there whether a change of the user is in force, and why not. Without the fields users "
    "find it in Events alone. kyma-module-manager module new generates a CRD with them and with their columns."
)
REFUSED = (
    "The API server refuses what Lifecycle Manager writes there: whether a change of the user is in force, and why "
    "not. Users find it in Events alone. Change the CRD"
)


def status_notices(crds: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield for each served version of a Module CR's CRD what its status lacks."""
    for crd in (each["spec"] for each in crds):
        for version in crd["versions"]:
            if version.get("served"):
                what = f"version {version.get('name')} of {crd['names']['kind']}"
                yield from (f"{what} {each}" for each in _lacks(version))


def _lacks(version: Mapping[str, Any]) -> Iterator[str]:
    if "status" not in (version.get("subresources") or {}):
        yield f"has no status: {WHY} Add subresources: {{status: {{}}}} to it."
        return
    status = (schema_of(version).get("properties") or {}).get("status") or {}
    fields = status.get("properties") or {}
    if not status.get("x-kubernetes-preserve-unknown-fields") and (
        lacking := [it for it in FIELDS if it not in fields]
    ):
        yield f"has no {', '.join(lacking)} in its status: {WHY}"
    unknown = [state for state in REASONS if _nearest(state, fields) is None]
    if unknown and "state" not in (status.get("required") or ()):
        yield f"has no {', '.join(unknown)} in the enum of status.state: Lifecycle Manager leaves the state out then."
    if refused := dict.fromkeys(each for state in REASONS for each in _refusals(state, status)):
        yield f"has a status that can't carry the answer. {REFUSED}: {'; '.join(refused)}."


def _refusals(state: State, status: Schema) -> Iterator[str]:
    """Yield what has to be changed in the schema of a status for Lifecycle Manager to write a state."""
    fields, required = status.get("properties") or {}, status.get("required") or ()
    is_open = bool(status.get("x-kubernetes-preserve-unknown-fields"))
    answer = {name: value for name, value in _answer(state, fields).items() if is_open or name in fields}
    if "state" in answer and (written := _nearest(state, fields)) is not None:
        answer["state"] = written
    elif "state" in answer:
        del answer["state"]
        if "state" in required:
            yield f"add {state} to the enum of status.state"
    yield from (f"take {name} out of status.required" for name in required if name not in {*answer, "state"})
    yield from violations(answer, {**status, "type": "object", "required": []}, "status")


def _nearest(state: State, fields: Mapping[str, Schema]) -> str | None:
    """Return the state as a status can have it, or the nearest one; None where it can have neither."""
    states = (fields.get("state") or {}).get("enum")
    nearest = (state, NEAREST.get(state, state))
    return next((each.value for each in nearest if states is None or each in states), None)


def _answer(state: State, fields: Mapping[str, Schema]) -> dict[str, Any]:
    """Return the status that Lifecycle Manager writes for a state, with the fields that a condition has."""
    condition = {
        "type": names.READY_CONDITION,
        "status": "True" if state is State.READY else "False",
        "reason": REASONS[state],
        "message": "Why the Module CR has this state.",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        "observedGeneration": 1,
    }
    item = (fields.get("conditions") or {}).get("items") or {}
    has_any = bool(item.get("x-kubernetes-preserve-unknown-fields")) or "items" not in (fields.get("conditions") or {})
    known = {name: value for name, value in condition.items() if has_any or name in (item.get("properties") or {})}
    return {"state": state.value, "observedGeneration": 1, "conditions": [known]}
