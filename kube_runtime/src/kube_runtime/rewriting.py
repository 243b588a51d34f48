"""Replacing values inside decoded objects, by their type.

`rewriter_for` looks at the annotations of a type once, and returns a function that visits nothing but the fields in
which something of that kind can be.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Any

import msgspec
from msgspec import inspect

__all__ = ["Rewrite", "rewriter_for"]

Rewrite = Callable[[Any], Any]
"""Returns what its argument is replaced by: a new value, or the same object after it was changed in place."""
OfType = Callable[[inspect.Type], Rewrite | None]


def rewriter_for(kind: type[Any], rewrite_of: OfType, *, without: Collection[str] = ()) -> Rewrite | None:
    """Return a function that rewrites an object of a type in place, None where there is nothing to do.

    - `rewrite_of`: what is done with the values of a type, after what is in them was rewritten; None for nothing
    - `without`: the names of fields that stay as they are
    """
    return _rewrite(inspect.type_info(kind), rewrite_of, without, frozenset())


def _rewrite(
    kind: inspect.Type, rewrite_of: OfType, without: Collection[str], within: frozenset[type]
) -> Rewrite | None:
    while isinstance(kind, inspect.Metadata):  # an annotated type, with a schema for example
        kind = kind.type
    inside, itself = _rewrite_inside(kind, rewrite_of, without, within), rewrite_of(kind)
    if inside is None or itself is None:
        return inside or itself
    return lambda value: itself(inside(value))


def _rewrite_inside(
    kind: inspect.Type, rewrite_of: OfType, without: Collection[str], within: frozenset[type]
) -> Rewrite | None:
    def inner(part: inspect.Type, within: frozenset[type] = within) -> Rewrite | None:
        return _rewrite(part, rewrite_of, without, within)

    match kind:
        case inspect.StructType():
            if kind.cls in within:
                return None
            within = within | {kind.cls}
            fields = ((field, inner(field.type, within)) for field in kind.fields if field.name not in without)
            parts = [(field.name, field.default, part) for field, part in fields if part is not None]
            return _struct(parts) if parts else None
        case inspect.UnionType():
            found = [part for each in kind.types if (part := inner(each)) is not None]
            return _optional(found[0]) if found and kind.includes_none and len(kind.types) == 2 else None
        case inspect.VarTupleType() | inspect.ListType():
            item = inner(kind.item_type)
            return None if item is None else _sequence(item, tuple if isinstance(kind, inspect.VarTupleType) else list)
        case inspect.DictType():
            key, value = inner(kind.key_type), inner(kind.value_type)
            return None if key is None and value is None else _mapping(key or _same, value or _same)
        case _:
            return None


def _same(value: Any) -> Any:
    return value


def _struct(parts: Iterable[tuple[str, Any, Rewrite]]) -> Rewrite:
    def rewrite(value: Any) -> Any:
        for name, default, part in parts:
            before = getattr(value, name)
            if before is default:
                continue  # msgspec knows a default, which it may omit, by identity
            after = part(before)
            if after is not before:
                msgspec.structs.force_setattr(value, name, after)
        return value

    return rewrite


def _optional(part: Rewrite) -> Rewrite:
    return lambda value: value if value is None else part(value)


def _sequence(item: Rewrite, rebuild: Callable[[Iterable[Any]], Any]) -> Rewrite:
    return lambda value: rebuild([item(each) for each in value]) if value else value


def _mapping(of_key: Rewrite, of_value: Rewrite) -> Rewrite:
    return lambda value: {of_key(key): of_value(each) for key, each in value.items()} if value else value
