"""The values of a server-side apply: what is applied is merged into what is there, what is no longer applied goes.

Neither changes what it is given; parts that stay as they are, are shared.
"""

from collections import deque
from typing import Any

import msgspec

from kube_simulation.fields import FieldSet, item_step
from kube_simulation.schemas import ANYTHING, Shape


class UnfitForApply(Exception):
    """An applied document has what its kind does not declare, or of another type."""


def merge(live: Any, applied: Any, shape: Shape) -> Any:
    """Return the live value with what is applied in it."""
    if isinstance(live, dict) and isinstance(applied, dict) and not shape.atomic:
        merged = dict(live)
        for name, value in applied.items():
            merged[name] = merge(live[name], value, shape.child(name) or ANYTHING) if name in live else value
        return merged
    if isinstance(live, list) and isinstance(applied, list) and shape.list_type != "atomic":
        return _merge_lists(live, applied, shape)
    return applied


def _merge_lists(live: list[Any], applied: list[Any], shape: Shape) -> list[Any]:
    """Return live items, changed where they are applied too; those that are applied in the order of the apply."""
    item = shape.item or ANYTHING
    lives = {item_step(each, shape): each for each in live}
    wanted = {item_step(each, shape): each for each in applied}
    shared = [step for step in wanted if step in lives]
    left, right = deque(lives), deque(wanted)
    merged: list[Any] = []
    taken = 0
    while left or right:
        next_shared = shared[taken] if taken < len(shared) else None
        if left and left[0] not in wanted:
            merged.append(lives[left.popleft()])
        elif left and left[0] != next_shared:
            left.popleft()  # it comes, or came, where the applied order has it
        else:
            step = right.popleft()
            merged.append(merge(lives[step], wanted[step], item) if step in lives else wanted[step])
            taken += step == next_shared
    return merged


def prune(value: Any, last: FieldSet, owned: FieldSet, shape: Shape) -> Any:
    """Return the value without the fields of the last apply that nobody owns any more."""
    if isinstance(value, dict):
        return _prune_map(value, last, owned, shape)
    if isinstance(value, list) and shape.list_type != "atomic":
        return _prune_list(value, last, owned, shape)
    return value


def _prune_map(value: dict[str, Any], last: FieldSet, owned: FieldSet, shape: Shape) -> dict[str, Any]:
    kept = dict(value)
    for step, below in last.items():
        name = step[2:]
        if step == "." or name not in kept:
            continue
        if step not in owned:
            del kept[name]
        elif below:
            kept[name] = prune(kept[name], below, owned[step], shape.child(name) or ANYTHING)
    return kept


def _prune_list(value: list[Any], last: FieldSet, owned: FieldSet, shape: Shape) -> list[Any]:
    kept: list[Any] = []
    item = shape.item or ANYTHING
    for each in value:
        step = item_step(each, shape)
        if step not in last:
            kept.append(each)
        elif step in owned:
            kept.append(prune(each, last[step], owned[step], item))
    return kept


def merge_patch(value: Any, patch: Any) -> Any:
    """Return the value changed by a JSON merge patch: null removes, objects merge, all else replaces."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(value) if isinstance(value, dict) else {}
    for name, each in patch.items():
        if each is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), each)
    return merged


_WORDS = {
    "string": "string",
    "integer": "numeric (int or float)",
    "number": "numeric (int or float)",
    "boolean": "boolean",
}


def check_typed(value: Any, shape: Shape, path: str = "") -> None:
    """Raise UnfitForApply for fields that are unknown or of another type, and for items without keys or twice."""
    if value is None or shape.int_or_string:
        return
    if shape.type in _WORDS and not _is_scalar(value, shape.type):
        raise UnfitForApply(f"{path}: expected {_WORDS[shape.type]}, got {_type_word(value)}")
    if isinstance(value, dict):
        if shape.type == "array":
            raise UnfitForApply(f"{path}: expected list, got map")
        for name, each in value.items():
            child = shape.child(name)
            if child is None and shape.type == "object":
                raise UnfitForApply(f"{path}.{name}: field not declared in schema")
            check_typed(each, child or ANYTHING, f"{path}.{name}")
    elif isinstance(value, list):
        if shape.type == "object":
            raise UnfitForApply(f"{path}: expected map, got list")
        _check_items(value, shape, path)
    elif shape.type in {"object", "array"}:
        wanted = "map" if shape.type == "object" else "list"
        raise UnfitForApply(f"{path}: expected {wanted}, got {_type_word(value)}")


def _check_items(items: list[Any], shape: Shape, path: str) -> None:
    steps: set[str] = set()
    for number, each in enumerate(items):
        if shape.list_type == "map":
            step = item_step(each, shape) if isinstance(each, dict) else "k:{}"
            if step == "k:{}":
                keys = msgspec.json.encode(list(shape.keys)).decode()
                raise UnfitForApply(
                    f"{path}: element {number}: associative list with keys has an element that omits all key fields "
                    f"{keys} (and doesn't have default values for any key fields)"
                )
            if step in steps:
                keyed = msgspec.json.decode(step[2:])
                keys = ",".join(f"{key}={msgspec.json.encode(value).decode()}" for key, value in keyed.items())
                raise UnfitForApply(f"{path}: duplicate entries for key [{keys}]")
            steps.add(step)
        check_typed(each, shape.item or ANYTHING, f"{path}[{number}]")


def _is_scalar(value: Any, kind: str) -> bool:
    if kind == "string":
        return isinstance(value, str)
    if kind == "boolean":
        return isinstance(value, bool)
    return isinstance(value, int | float) and not isinstance(value, bool)


def _type_word(value: Any) -> str:
    if isinstance(value, str):
        return "string"
    if isinstance(value, dict):
        return "map"
    if isinstance(value, list):
        return "list"
    return f"&value.valueUnstructured{{Value:{msgspec.json.encode(value).decode()}}}"
