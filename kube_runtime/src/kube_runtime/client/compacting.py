"""Making what was decoded small, as it may stay in a cache for long.

A `msgspec.Raw` field is a view of the bytes it was decoded from: it becomes a copy of its own few bytes. Short strings,
such as names, namespaces, labels and reasons, are half of what an object takes, and other objects have them too: they
are kept once. `compactor_for` makes the function once a type, from its annotations. What is nested too deep raises
RecursionError here, as it would where it is used.
"""

from typing import Any

import msgspec
from msgspec import inspect

from kube_runtime.client.nesting import require_readable
from kube_runtime.pool import Pool
from kube_runtime.rewriting import Rewrite, rewriter_for

__all__ = ["compactor_for"]

MAX_CHARACTERS = 128
"""Longer strings are rarely equal, and to look them up costs the more."""
_OF_ONE_OBJECT = frozenset({"resource_version", "uid"})
"""Fields in which no two objects are equal."""
_STRINGS: Pool[str] = Pool()


def compactor_for(kind: type[Any]) -> Rewrite | None:
    """Return a function that compacts an object of this type in place, or None for a dict, which stays as it is."""
    if not issubclass(kind, msgspec.Struct):
        return None
    return rewriter_for(kind, _compacting_of, without=_OF_ONE_OBJECT)


def _compacting_of(part: inspect.Type) -> Rewrite | None:
    match part:
        case inspect.RawType():
            return _copied
        case inspect.StrType():
            return _shared
        case _:
            return None


def _copied(raw: msgspec.Raw) -> msgspec.Raw:
    require_readable(bytes(raw))
    return raw.copy()


def _shared(text: str) -> str:
    return text if len(text) > MAX_CHARACTERS else _STRINGS.shared(text)
