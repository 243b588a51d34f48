"""Keeping once what many objects have: strings such as kinds, namespaces, labels and reasons, times, and small parts.

More than half of what a decoded object takes are strings that other objects have as well, and most of the rest parts
that consist of them: conditions, references, finalizers, what a module's source is. `sharer_for` returns a function
that replaces them by one copy, made once a kind from its annotations.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import msgspec
from msgspec import inspect

from kube_runtime.pool import Pool
from kube_runtime.rewriting import Rewrite, rewriter_for

__all__ = ["sharer_for"]

MAX_CHARACTERS = 128
"""Longer strings are rarely equal, and to look them up costs the more."""
MAX_TEXT_BYTES = 4_096
"""The same for what is left undecoded, such as the default CR of a module, which each of its Manifests has."""
_OF_ONE_OBJECT = frozenset({"resource_version"})
"""Fields in which no two objects are equal."""


_STRINGS: Pool[str] = Pool()
_TIMES: Pool[datetime] = Pool()
_PARTS: Pool[Any] = Pool()
_TEXTS: Pool[msgspec.Raw] = Pool(1_000)
_SCALARS = (
    inspect.NoneType,
    inspect.BoolType,
    inspect.IntType,
    inspect.StrType,
    inspect.DateTimeType,
    inspect.EnumType,
    inspect.LiteralType,
)


def sharer_for(kind: type[Any], *, without: Iterable[str] = ()) -> Rewrite:
    """Return a function that has an object of this type share its strings, in place. A dict stays as it is.

    Fields named in `without` stay as they are, too.
    """
    if not issubclass(kind, msgspec.Struct):
        return _same
    return rewriter_for(kind, _sharing_of, without=_OF_ONE_OBJECT | {*without}) or _same


def _sharing_of(part: inspect.Type) -> Rewrite | None:
    match part:
        case inspect.StrType():
            return _shared_text
        case inspect.DateTimeType():
            return _TIMES.shared
        case inspect.RawType():
            return _shared_raw
        case inspect.StructType() if _is_flat(part):
            return _PARTS.shared
        case inspect.VarTupleType() if _is_flat(part.item_type):
            return _PARTS.shared
        case _:
            return None


def _is_flat(part: inspect.Type) -> bool:
    """Tell whether a value holds nothing but scalars: it is hashed quickly, and often another object has it."""
    match part:
        case inspect.StructType():
            return part.cls.__struct_config__.frozen and all(
                field.name not in _OF_ONE_OBJECT and _is_scalar(field.type) for field in part.fields
            )
        case inspect.Metadata():
            return _is_flat(part.type)
        case _:
            return _is_scalar(part)


def _is_scalar(part: inspect.Type) -> bool:
    match part:
        case inspect.Metadata():
            return _is_scalar(part.type)
        case inspect.UnionType():
            return all(map(_is_scalar, part.types))
        case _:
            return isinstance(part, _SCALARS)


def _shared_text(text: str) -> str:
    return text if len(text) > MAX_CHARACTERS else _STRINGS.shared(text)


def _shared_raw(raw: msgspec.Raw) -> msgspec.Raw:
    text = bytes(raw)
    return raw if len(text) > MAX_TEXT_BYTES else _TEXTS.shared(raw, key=text)


def _same(value: Any) -> Any:
    return value
