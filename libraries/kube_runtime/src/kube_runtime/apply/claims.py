"""Takes over what others have written at a place for which the API server refuses an apply.

An apply keeps what others have added. Where that does not go together with the document, it is refused for ever: a
port whose number somebody changed would be there twice, with one name; a volume would have two sources. What others
have at such a place is owned by the applier from then on, so that the next apply removes it. The rest stays theirs.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kube_runtime.apply.field_sets import Entry, fields_of, moved, nested, united
from kube_runtime.apply.settled import item_at
from kube_runtime.client.emptied import steps_of
from kube_runtime.exceptions import StatusCause
from kube_runtime.resource import JsonObject

DUPLICATE = "FieldValueDuplicate"
TYPE_INVALID = "FieldValueTypeInvalid"
_NO_CONTENT = frozenset({"apiVersion", "kind", "metadata", "status"})


@dataclass(frozen=True, slots=True)
class FieldClaim:
    """What an applier takes over, as the managedFields that say so.

    `trial` is a merge patch to an object as it would be then: in a dry run the server tells whether it is valid.
    """

    managed_fields: list[Entry]
    trial: JsonObject


def claim_of(
    field_manager: str, live: JsonObject, document: Mapping[str, Any], causes: Iterable[StatusCause]
) -> FieldClaim | None:
    """Return what to take over of what others have at the fields that the server names; None where that is nothing.

    A value of a wrong type is refused whatever others have beside it.
    """
    content = {key: value for key, value in document.items() if key not in _NO_CONTENT}
    refused = [(each, steps_of(each.field)) for each in causes if each.reason != TYPE_INVALID]
    refused = [(each, path) for each, path in refused if path and path[0] in content]
    places = [_place(each, path) for each, path in refused]
    unowned: Entry = {}
    for _, path in refused:
        unowned = united(unowned, _left_out(live, content, path))
    claimed = unowned

    def take(entry: Entry) -> Entry | None:
        nonlocal claimed
        fields = fields_of(entry)
        taken: Entry = {}
        for place in places:
            taken = united(taken, _at(fields, place, content) or {})
        claimed = united(claimed, taken)
        return taken or None

    found = moved(field_manager, live, take, unowned=unowned)
    return FieldClaim(found, _without_claimed(content, claimed)) if found is not None else None


def _place(cause: StatusCause, path: tuple[str, ...]) -> tuple[str, ...]:
    """Return the path of what does not go together: the list of a value that is there twice, or what is beside a field.

    An item of a list is a step in brackets.
    """
    items = [number for number, step in enumerate(path) if step.startswith("[")]
    if cause.reason == DUPLICATE and items:
        return path[: items[-1]]
    return path[:-1] or path


def _at(fields: Entry, place: Sequence[str], wanted: Any) -> Entry | None:
    """Return those fields of an owner that are at a place: in lists on the way there, those of items of the document.

    In a section that the document does not have, a list or what is one field is taken as a whole. The number of an item
    is that in an object which nobody has seen: the same place in all items counts.
    """
    if not place or (wanted == {} and (not fields or place[0].startswith("["))):
        return fields
    step, *rest = place
    found: dict[str, Entry] = {}
    for path, below in fields.items():
        if step.startswith("["):
            item = item_at(wanted, path) if isinstance(wanted, list | tuple) and path.startswith("k:") else None
        else:
            item = wanted.get(step, {}) if isinstance(wanted, Mapping) and path == f"f:{step}" else None
        if item is not None and (taken := _at(below, rest, item)) is not None:
            found[path] = taken
    return found or None


def _left_out(live: JsonObject, content: Mapping[str, Any], path: tuple[str, ...]) -> Entry:
    """Return the field of an object that was refused and that the document does not have, such as a default."""
    value, wanted = live, content
    for depth, step in enumerate(path, start=1):
        if not isinstance(value, Mapping) or step not in value or not isinstance(wanted, Mapping):
            return {}
        if step not in wanted:
            return nested(path[:depth], value[step])
        value, wanted = value[step], wanted[step]
    return {}


def _without_claimed(wanted: Mapping[str, Any], claimed: Entry) -> JsonObject:
    """Return a merge patch to what is wanted and without what is claimed beside. Lists are replaced by such a patch."""
    patch = dict(wanted)
    for step, below in claimed.items():
        name = step[2:]
        if not step.startswith("f:"):
            continue
        if name not in patch:
            patch[name] = None
        elif isinstance(patch[name], Mapping):
            patch[name] = _without_claimed(patch[name], below)
    return patch
