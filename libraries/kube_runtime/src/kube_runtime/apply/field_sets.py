"""Sets of fields, as managedFields say who owns what, and moving them from one field manager to another.

A field stays as long as anybody owns it, so an apply removes a field that it leaves out only where nobody else does.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeGuard

from kube_runtime.resource import JsonObject

Entry = Mapping[str, Any]
APPLY = "Apply"
MAX_DEPTH = 200
"""How deep a set of fields is nested; a server refuses documents that are nested deeper than 10,000 levels."""


def moved(
    field_manager: str,
    live: JsonObject,
    take: Callable[[Entry], Entry | None],
    *,
    subresource: str = "",
    unowned: Entry | None = None,
) -> list[Entry] | None:
    """Return the managedFields in which a field manager has applied what it takes of others; None for no change.

    `take` returns which fields of an entry are moved, None for none. `unowned` fields are added, as nobody has them.

    Entries of another API version than that of the field manager are merged too: a path that a version does not have
    matches no field.
    """
    own: list[Entry] = []
    others: list[Entry] = []
    kept: list[Entry] = []
    for entry in entries_of(live):
        if entry.get("subresource", "") != subresource:
            kept.append(entry)
        elif is_applied(entry) and entry.get("manager") == field_manager:
            own.append(entry)
        elif (taken := take(entry)) is None:
            kept.append(entry)
        else:
            others.append({**entry, "fieldsV1": taken})
            if left := _without(fields_of(entry), taken):
                kept.append({**entry, "fieldsV1": left})
    if unowned:
        others.append({"apiVersion": live.get("apiVersion"), "fieldsType": "FieldsV1", "fieldsV1": unowned})
    if not others:
        return None
    target, *rest = (*own, *others)
    fields = fields_of(target)
    for entry in rest:
        fields = united(fields, fields_of(entry))
    return [*kept, {**target, "manager": field_manager, "operation": APPLY, "fieldsV1": fields}]


def entries_of(live: JsonObject) -> list[Entry]:
    """Return the managedFields of an object."""
    return [each for each in live["metadata"].get("managedFields") or () if isinstance(each, Mapping)]


def ownership_patch(live: JsonObject, fields: object) -> JsonObject:
    """Return a patch of the managedFields of the version that was read."""
    return {"metadata": {"managedFields": fields, "resourceVersion": live["metadata"]["resourceVersion"]}}


def is_applied(entry: Entry) -> bool:
    """Tell whether an entry is that of a server-side apply."""
    return entry.get("operation") == APPLY


def applied_by(field_manager: str, live: JsonObject) -> object | None:
    """Return the fields that were applied in somebody's name, as the server says it; None where nothing was."""
    for entry in live["metadata"].get("managedFields") or ():
        named = (entry.get("manager"), entry.get("operation"), entry.get("subresource") or "")
        if named == (field_manager, APPLY, ""):
            return entry.get("fieldsV1") or {}
    return None


def fields_of(entry: Entry) -> Entry:
    """Return the fields of an entry, none where they are no set of fields."""
    fields = entry.get("fieldsV1")
    return fields if _is_field_set(fields) else {}


def nested(path: tuple[str, ...], value: Any) -> Entry:
    """Return the set of all fields of a value at a path of names. A list counts as one field."""
    fields: Entry = _fields_of_value(value)
    for name in reversed(path):
        fields = {f"f:{name}": fields}
    return fields


def united(one: Entry, other: Entry) -> Entry:
    """Return the fields of both. A step without anything below stands for itself; one with steps below only by `.`."""
    found = dict(one)
    for step, below in other.items():
        found[step] = _merged_step(found[step], below) if step in found else below
    return found


def _fields_of_value(value: Any) -> Entry:
    if not isinstance(value, Mapping) or not value:
        return {}
    return {".": {}, **{f"f:{key}": _fields_of_value(below) for key, below in value.items()}}


def _is_field_set(fields: object, depth: int = 0) -> TypeGuard[Entry]:
    if not isinstance(fields, Mapping) or depth > MAX_DEPTH:
        return False
    return all(_is_field_set(below, depth + 1) for below in fields.values())


def _merged_step(one: Entry, other: Entry) -> Entry:
    if not one and not other:
        return {}
    itself: Entry = {".": {}} if not one or not other else {}
    return {**itself, **united(one, other)}


def _without(fields: Entry, taken: Entry) -> Entry:
    """Return the fields that are left. A step of which nothing is left goes too: empty, it would stand for itself."""
    left: dict[str, Any] = {}
    for step, below in fields.items():
        if step not in taken:
            left[step] = below
        elif taken[step] != below and (rest := _without(below, taken[step])):
            left[step] = rest
    return left
