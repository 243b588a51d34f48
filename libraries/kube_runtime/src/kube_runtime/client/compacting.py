"""Making what was decoded small, as it may stay in a cache for long.

A `msgspec.Raw` field is a view of the bytes it was decoded from: it becomes a copy of its own few bytes. Short strings,
such as names, namespaces, labels and reasons, are half of what an object takes, and other objects have them too: they
are kept once. `compactor_for` looks at the annotations of a type once, and visits nothing but such fields. What is
nested too deep raises RecursionError here, as it would where it is used.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import inspect

from kube_runtime.client.nesting import require_readable

Compact = Callable[[Any], Any]
"""Returns what its argument is replaced by: a new value, or the same object after it was changed in place."""
MAX_CHARACTERS = 128
"""Longer strings are rarely equal, and to look them up costs the more."""
_OF_ONE_OBJECT = frozenset({"resource_version", "uid"})
"""Fields in which no two objects are equal."""


def compactor_for(kind: type[Any]) -> Compact | None:
    """Return a function that compacts an object of this type in place, or None for a dict, which stays as it is."""
    return _compact(inspect.type_info(kind), frozenset()) if issubclass(kind, msgspec.Struct) else None


def _compact(kind: inspect.Type, within: frozenset[type]) -> Compact | None:
    found: Compact | None = None
    match kind:
        case inspect.Metadata():  # an annotated type, with a schema for example
            found = _compact(kind.type, within)
        case inspect.RawType():
            found = _copied
        case inspect.StrType():
            found = _shared
        case inspect.StructType() if kind.cls not in within:
            fields = (each for each in kind.fields if each.name not in _OF_ONE_OBJECT)
            compacted = ((each, _compact(each.type, within | {kind.cls})) for each in fields)
            found = _struct([(each.name, each.default, part) for each, part in compacted if part is not None])
        case inspect.UnionType() if kind.includes_none and len(kind.types) == 2:
            found = next((_optional(part) for each in kind.types if (part := _compact(each, within))), None)
        case inspect.VarTupleType() | inspect.ListType() if item := _compact(kind.item_type, within):
            found = _sequence(item, tuple if isinstance(kind, inspect.VarTupleType) else list)
        case inspect.DictType():
            found = _mapping(*(_compact(each, within) or _same for each in (kind.key_type, kind.value_type)))
    return found


def _struct(parts: Sequence[tuple[str, Any, Compact]]) -> Compact | None:
    def compact(value: Any) -> Any:
        for name, default, part in parts:
            before = getattr(value, name)
            if before is default:
                continue  # msgspec knows a default, which it may omit, by identity
            after = part(before)
            if after is not before:
                msgspec.structs.force_setattr(value, name, after)
        return value

    return compact if parts else None


def _sequence(item: Compact, rebuild: Callable[[Iterable[Any]], Any]) -> Compact:
    return lambda value: rebuild([item(each) for each in value]) if value else value


def _mapping(of_key: Compact, of_value: Compact) -> Compact:
    return lambda value: {of_key(key): of_value(each) for key, each in value.items()} if value else value


def _optional(part: Compact) -> Compact:
    return lambda value: value if value is None else part(value)


def _same(value: Any) -> Any:
    return value


def _copied(raw: msgspec.Raw) -> msgspec.Raw:
    require_readable(bytes(raw))
    return raw.copy()


def _shared(text: str) -> str:
    return text if len(text) > MAX_CHARACTERS else _seen_first(text)


@lru_cache(maxsize=5_000)  # not sys.intern: what Python 3.12 interns is never freed
def _seen_first(text: str) -> str:
    return text
