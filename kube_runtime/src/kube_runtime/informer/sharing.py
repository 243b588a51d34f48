"""Keeping the strings once that many objects have: kinds, namespaces, labels, reasons.

More than half of what a decoded object takes are strings that other objects have as well. `sharer_for` returns a
function that replaces them by one copy, made once a kind from its annotations. It does not use `sys.intern`: what
Python 3.12 interns is never freed.
"""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import inspect

__all__ = ["Strings", "sharer_for"]

MAX_CHARACTERS = 128
"""Longer strings are rarely equal, and to look them up costs the more."""
MAX_STRINGS = 20_000
_OF_ONE_OBJECT = frozenset({"resource_version"})
"""Fields in which no two objects are equal."""

Share = Callable[[Any], Any]
"""Returns an equal value with shared strings: a new one, or the same object after it was changed in place."""


class Strings:
    """The strings that were seen lately, each once. Where they become too many, all are forgotten."""

    def __init__(self, max_strings: int = MAX_STRINGS) -> None:
        self._max_strings = max_strings
        self._known: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._known)

    def shared(self, text: str) -> str:
        """Return the copy of an equal string, or this one from now on."""
        if len(text) > MAX_CHARACTERS:
            return text
        known = self._known.setdefault(text, text)
        if known is text and len(self._known) >= self._max_strings:
            self._known.clear()
        return known


_STRINGS = Strings()


def sharer_for(kind: type[Any]) -> Share:
    """Return a function that has an object of this type share its strings, in place. A dict stays as it is."""
    return (issubclass(kind, msgspec.Struct) and _share_of(inspect.type_info(kind), frozenset())) or _same


def _share_of(kind: inspect.Type, within: frozenset[type]) -> Share | None:
    while isinstance(kind, inspect.Metadata):  # an annotated type, with a schema for example
        kind = kind.type
    match kind:
        case inspect.StrType():
            return _STRINGS.shared
        case inspect.StructType():
            return None if kind.cls in within else _struct(kind, within | {kind.cls})
        case inspect.UnionType():
            parts = [part for each in kind.types if (part := _share_of(each, within)) is not None]
            return _optional(parts[0]) if len(parts) == 1 and kind.includes_none and len(kind.types) == 2 else None
        case inspect.VarTupleType():
            item = _share_of(kind.item_type, within)
            return None if item is None else lambda value: tuple([item(each) for each in value]) if value else value
        case inspect.DictType():
            of_key, of_value = _share_of(kind.key_type, within), _share_of(kind.value_type, within)
            return None if of_key is None else _mapping(of_key, of_value or _same)
        case _:
            return None


def _same(value: Any) -> Any:
    return value


def _struct(kind: inspect.StructType, within: frozenset[type]) -> Share | None:
    parts = [
        (field.name, field.default, part)
        for field in kind.fields
        if field.name not in _OF_ONE_OBJECT and (part := _share_of(field.type, within)) is not None
    ]
    replace = msgspec.structs.force_setattr

    def share(value: Any) -> Any:
        for name, default, part in parts:
            before = getattr(value, name)
            if before is default:
                continue  # msgspec knows a default, which it may omit, by identity
            after = part(before)
            if after is not before:
                replace(value, name, after)
        return value

    return share if parts else None


def _optional(part: Share) -> Share:
    return lambda value: value if value is None else part(value)


def _mapping(of_key: Share, of_value: Share) -> Share:
    return lambda value: {of_key(key): of_value(each) for key, each in value.items()} if value else value
