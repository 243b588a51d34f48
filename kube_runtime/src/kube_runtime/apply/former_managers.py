"""Moves what other field managers have applied to another one, so that fields which it leaves out are removed.

A field stays as long as anybody owns it. Where a program applies under another name than the one that it replaces, the
former name would own its fields for ever: a sidecar that the next version drops would stay.
"""

from collections.abc import Collection, Mapping
from typing import Any, TypeGuard

from kube_runtime.resource import JsonObject

__all__ = ["merged_into"]

Entry = Mapping[str, Any]
APPLY = "Apply"
MAX_DEPTH = 200
"""How deep a set of fields is nested; a server refuses documents that are nested deeper than 10,000 levels."""


def merged_into(
    field_manager: str, live: JsonObject, former: Collection[str], *, subresource: str = ""
) -> list[Entry] | None:
    """Return the managedFields in which a field manager has what the former ones have applied; None where nothing is.

    What was applied by way of a subresource is of that alone.

    Former entries of another API version than that of the field manager are merged too: a path that a version does not
    have matches no field.
    """
    entries: list[Entry] = [each for each in live["metadata"].get("managedFields") or () if isinstance(each, Mapping)]
    applied = [entry for entry in entries if _is_applied(entry) and entry.get("subresource", "") == subresource]
    own = [entry for entry in applied if entry.get("manager") == field_manager]
    moved = [entry for entry in applied if entry.get("manager") in former and entry not in own]
    if not moved:
        return None
    target, *others = (*own, *moved)
    fields = _fields_of(target)
    for entry in others:
        fields = _union(fields, _fields_of(entry))
    kept = [entry for entry in entries if entry not in own and entry not in moved]
    return [*kept, {**target, "manager": field_manager, "fieldsV1": fields}]


def _is_applied(entry: Entry) -> bool:
    return entry.get("operation") == APPLY


def _fields_of(entry: Entry) -> Entry:
    """Return the fields of an entry, none where they are no set of fields."""
    fields = entry.get("fieldsV1")
    return fields if _is_field_set(fields) else {}


def _is_field_set(fields: object, depth: int = 0) -> TypeGuard[Entry]:
    if not isinstance(fields, Mapping) or depth > MAX_DEPTH:
        return False
    return all(_is_field_set(below, depth + 1) for below in fields.values())


def _union(one: Entry, other: Entry) -> Entry:
    """Return the fields of both. A step without anything below stands for itself; one with steps below only by `.`."""
    found = dict(one)
    for step, below in other.items():
        found[step] = _merged_step(found[step], below) if step in found else below
    return found


def _merged_step(one: Entry, other: Entry) -> Entry:
    if not one and not other:
        return {}
    itself: Entry = {".": {}} if not one or not other else {}
    return {**itself, **_union(one, other)}
