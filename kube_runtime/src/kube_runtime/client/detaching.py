"""Letting go of the answer that an object came in.

A `msgspec.Raw` field is a view of the bytes it was decoded from. `detacher_for` returns a function that replaces each
such view in an object by a copy of its own few bytes, made once a type from its annotations; None where a type has no
such field, which costs nothing then.
"""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from msgspec import inspect

__all__ = ["detacher_for"]

Detach = Callable[[Any], Any]
"""Returns its argument without views: a new value, or the same object after it was changed in place."""


def detacher_for(kind: Any) -> Callable[[Any], None] | None:
    """Return a function that detaches an object of this type in place, or None where there is nothing to do."""
    return _detach_of(inspect.type_info(kind), frozenset())


def _detach_of(kind: inspect.Type, within: frozenset[type]) -> Detach | None:
    while isinstance(kind, inspect.Metadata):  # an annotated type, with a schema for example
        kind = kind.type
    match kind:
        case inspect.RawType():
            return _copied
        case inspect.StructType():
            return None if kind.cls in within else _struct(kind, within | {kind.cls})
        case inspect.UnionType():
            parts = [part for each in kind.types if (part := _detach_of(each, within)) is not None]
            return _optional(parts[0]) if parts else None
        case inspect.VarTupleType() | inspect.ListType():
            item = _detach_of(kind.item_type, within)
            return None if item is None else _sequence(item, tuple if isinstance(kind, inspect.VarTupleType) else list)
        case inspect.DictType():
            value = _detach_of(kind.value_type, within)
            return None if value is None else _mapping(value)
        case _:
            return None


def _copied(raw: msgspec.Raw) -> msgspec.Raw:
    return raw.copy()


def _struct(kind: inspect.StructType, within: frozenset[type]) -> Detach | None:
    parts = [(field.name, part) for field in kind.fields if (part := _detach_of(field.type, within)) is not None]

    def detach(value: Any) -> Any:
        for name, part in parts:
            before = getattr(value, name)
            after = part(before)
            if after is not before:
                msgspec.structs.force_setattr(value, name, after)
        return value

    return detach if parts else None


def _optional(part: Detach) -> Detach:
    return lambda value: value if value is None else part(value)


def _sequence(item: Detach, rebuild: Callable[[Iterable[Any]], Any]) -> Detach:
    return lambda value: rebuild(item(each) for each in value)


def _mapping(part: Detach) -> Detach:
    return lambda value: {key: part(each) for key, each in value.items()}
