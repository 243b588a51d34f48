"""Sets of fields, in the form in which metadata.managedFields has them (fieldsV1), and what is computed with them.

A set is a tree of dicts. A key is a step: `f:name` a field, `k:{...}` an item of a list by its keys, `v:...` an item
of a set by its value. A step that leads to `{}` is in the set itself; one with further steps below it is in the set
only where `.` stands among them. Sets are never changed once they are made.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from kube_simulation.schemas import ANYTHING, Shape

FieldSet = dict[str, Any]
_HERE: FieldSet = {}
_ABSENT: Any = object()


def applied_fields(value: Mapping[str, Any], shape: Shape) -> FieldSet:
    """Return the fields that an applied document names."""
    found: FieldSet = {}
    for name, each in value.items():
        declared = name in shape.fields
        below = _fields_of(each, shape.child(name) or ANYTHING)
        is_member = not declared or each is None or each == {}
        if below or is_member:
            found[f"f:{name}"] = _node(is_member, below or {})
        elif below is None:
            found[f"f:{name}"] = {}
    return found


def _fields_of(value: Any, shape: Shape) -> FieldSet | None:
    """Return what is below a value; None where the value is owned as a whole."""
    if isinstance(value, dict):
        return None if shape.atomic else applied_fields(value, shape)
    if isinstance(value, list) and shape.list_type != "atomic":
        item = shape.item or ANYTHING
        return {item_step(each, shape): _node(True, _fields_of(each, item) or {}) for each in value}
    return None


def item_step(item: Any, shape: Shape) -> str:
    """Return the step to an item of a set or of a list with keys."""
    if shape.list_type == "map" and isinstance(item, dict):
        item_shape = shape.item or ANYTHING
        keys = {}
        for key in sorted(shape.keys):
            value = item.get(key, _ABSENT)
            declared = item_shape.fields.get(key)
            if value is _ABSENT and declared is not None and declared.default is not None:
                value = msgspec.json.decode(declared.default)
            if value is not _ABSENT:
                keys[key] = value
        return f"k:{msgspec.json.encode(keys).decode()}"
    return f"v:{msgspec.json.encode(item).decode()}"


class Comparison:
    """What differs between two states of an object."""

    __slots__ = ("added", "modified", "removed")

    def __init__(self) -> None:
        self.added: FieldSet = {}
        self.modified: FieldSet = {}
        self.removed: FieldSet = {}

    def __bool__(self) -> bool:
        return bool(self.added or self.modified or self.removed)


def compare(old: Mapping[str, Any], new: Mapping[str, Any], shape: Shape) -> Comparison:
    """Return the fields that were added, changed and removed."""
    found = Comparison()
    found.added, found.modified, found.removed = _compare_maps(old, new, shape)
    return found


def _compare_maps(old: Mapping[str, Any], new: Mapping[str, Any], shape: Shape) -> tuple[FieldSet, FieldSet, FieldSet]:
    sets: tuple[FieldSet, FieldSet, FieldSet] = ({}, {}, {})
    for name in {**old, **new} if old is not new else ():
        child = shape.child(name) or ANYTHING
        _compare_into(sets, f"f:{name}", old.get(name, _ABSENT), new.get(name, _ABSENT), child)
    return sets


def _compare_into(sets: tuple[FieldSet, FieldSet, FieldSet], step: str, before: Any, after: Any, shape: Shape) -> None:
    if before is after or (before is not _ABSENT and after is not _ABSENT and _same(before, after)):
        return
    added, modified, removed = sets
    if before is _ABSENT or after is _ABSENT:
        below = _everything_below(after if before is _ABSENT else before, shape)
        into = added if before is _ABSENT else removed
        if below or not shape.always_there:
            into[step] = _node(not shape.always_there, below)
        return
    parts = _compare_parts(before, after, shape)
    if parts is None:
        modified[step] = {}
        return
    for into, part in zip(sets, parts, strict=True):
        if part:
            into[step] = part


def _compare_parts(before: Any, after: Any, shape: Shape) -> tuple[FieldSet, FieldSet, FieldSet] | None:
    """Return what differs inside of two values; None where they are owned as a whole."""
    if isinstance(before, dict) and isinstance(after, dict) and not shape.atomic:
        return _compare_maps(before, after, shape)
    if isinstance(before, list) and isinstance(after, list) and shape.list_type != "atomic":
        item = shape.item or ANYTHING
        old_items = {item_step(each, shape): each for each in before}
        new_items = {item_step(each, shape): each for each in after}
        sets: tuple[FieldSet, FieldSet, FieldSet] = ({}, {}, {})
        for step in {**old_items, **new_items}:
            _compare_into(sets, step, old_items.get(step, _ABSENT), new_items.get(step, _ABSENT), item)
        return sets
    return None


def _everything_below(value: Any, shape: Shape) -> FieldSet:
    """Return every step below a value that is new or gone, each of them a member."""
    if isinstance(value, dict) and not shape.atomic:
        found: FieldSet = {}
        for name, each in value.items():
            child = shape.child(name) or ANYTHING
            below = _everything_below(each, child)
            if below or not child.always_there:
                found[f"f:{name}"] = _node(not child.always_there, below)
        return found
    if isinstance(value, list) and shape.list_type != "atomic":
        item = shape.item or ANYTHING
        return {item_step(each, shape): _node(True, _everything_below(each, item)) for each in value}
    return {}


def _same(before: Any, after: Any) -> bool:
    return bool(before == after) and type(before) is type(after)


def union(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return what is in either set."""
    if not one or one is other:
        return other
    if not other:
        return one
    found = dict(one)
    for step, node in other.items():
        if step == ".":
            continue
        known = found.get(step)
        if known is None:
            found[step] = node
        elif known is not node:
            found[step] = _node(_is_member(known) or _is_member(node), union(_below(known), _below(node)))
    return found


def difference(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return what is in the first set and not in the second."""
    if not other:
        return one
    found: FieldSet = {}
    for step, node in one.items():
        if step == ".":
            continue
        taken = other.get(step)
        if taken is None:
            found[step] = node
            continue
        member = _is_member(node) and not _is_member(taken)
        below = difference(_below(node), _below(taken))
        if member or below:
            found[step] = _node(member, below)
    return found


def intersection(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return what is in both sets."""
    found: FieldSet = {}
    for step, node in one.items():
        known = other.get(step)
        if known is None or step == ".":
            continue
        member = _is_member(node) and _is_member(known)
        below = intersection(_below(node), _below(known))
        if member or below:
            found[step] = _node(member, below)
    return found


def paths(fields: FieldSet, prefix: str = "") -> Iterator[str]:
    """Yield the members of a set as Kubernetes writes them, `.spec.parts[name="x"].note`; shorter ones first."""
    for step in sorted(fields):
        if step != "." and _is_member(fields[step]):
            yield prefix + _written(step)
    for step in sorted(fields):
        if step != "." and fields[step]:
            yield from paths(fields[step], prefix + _written(step))


def _written(step: str) -> str:
    marker, _, rest = step.partition(":")
    if marker == "f":
        return f".{rest}"
    if marker == "v":
        return f"[={rest}]"
    keys: dict[str, Any] = msgspec.json.decode(rest)
    return f"[{','.join(f'{key}={msgspec.json.encode(value).decode()}' for key, value in keys.items())}]"


def _is_member(node: FieldSet) -> bool:
    return not node or "." in node


def _below(node: FieldSet) -> FieldSet:
    return {step: below for step, below in node.items() if step != "."} if "." in node else node


def _node(member: bool, below: FieldSet) -> FieldSet:
    if not below:
        return _HERE
    return {".": {}, **below} if member else below
