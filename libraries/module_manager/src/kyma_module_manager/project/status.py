"""Whether the status of a Module CR can carry what Lifecycle Manager answers to the user there, and what its CRD needs.

Lifecycle Manager writes the fields that the schema has, and one of its states: what the schema requires besides, or
allows no other value for, makes the API server refuse the whole status.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from kyma_module_manager.project.schema import Schema, schema_of, violations
from lifecycle_manager_api import State, names

FIELDS = ("state", "observedGeneration", "conditions")
REASONS = {
    State.READY: "Applied",
    State.PROCESSING: "Applying",
    State.ERROR: "InvalidResource",
    State.WARNING: "ClusterNotAccessible",
    State.DELETING: "Deleting",
}
"""What Lifecycle Manager answers, with one reason of each state."""
WHY = (
    "there Lifecycle Manager answers whether a change of the user is in force, and why not; where it can't, users find "
    "that in Events alone. The CRD of a new project (module new) has all of it"
)


def status_notices(crds: Iterable[Mapping[str, Any]], returned: Collection[str] = ()) -> Iterator[str]:
    """Yield what the status of the served versions of Module CRs lacks, and why that matters.

    `returned` are the fields that the module's function adds.
    """
    found: dict[str, list[str]] = {}
    for crd in (each["spec"] for each in crds):
        for version in crd["versions"]:
            for each in _lacks(version, returned) if version.get("served") else ():
                found.setdefault(each, []).append(f"{crd['names']['kind']} {version.get('name')}")
    yield from (f"{', '.join(kinds)}: {what}" for what, kinds in found.items())
    if found:
        yield WHY


def _lacks(version: Mapping[str, Any], returned: Collection[str]) -> Iterator[str]:
    if "status" not in (version.get("subresources") or {}):
        yield "there is no status: add subresources: {status: {}}"
        return
    status = (schema_of(version).get("properties") or {}).get("status") or {}
    fields = status.get("properties") or {}
    if not status.get("x-kubernetes-preserve-unknown-fields") and (
        lacking := [it for it in FIELDS if it not in fields]
    ):
        yield f"the status has no {', '.join(lacking)}"
    unknown = [state for state in REASONS if _nearest(state, fields) is None]
    if unknown and "state" not in (status.get("required") or ()):
        yield f"the enum of status.state has no {', '.join(unknown)}: the state is left out then"
    if refused := dict.fromkeys(each for state in REASONS for each in _refusals(state, status, returned)):
        yield f"the status can't carry the answer: {'; '.join(refused)}"


def _refusals(state: State, status: Schema, returned: Collection[str]) -> Iterator[str]:
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
    for name in (each for each in required if each not in {*answer, *returned, "state"}):
        yield f"take {name} out of status.required, or have the function return it as status"
    yield from violations(answer, {**status, "type": "object", "required": []}, "status")


def _nearest(state: State, fields: Mapping[str, Schema]) -> str | None:
    """Return the state as a status can have it, or the nearest one; None where it can have neither."""
    return state.among((fields.get("state") or {}).get("enum"))


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
