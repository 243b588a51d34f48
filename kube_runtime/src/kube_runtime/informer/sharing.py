"""Keeping the strings and times once that many objects have: kinds, namespaces, labels, reasons.

More than half of what a decoded object takes are strings that other objects have as well. `sharer_for` returns a
function that replaces them by one copy, made once a kind from its annotations.
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
_OF_ONE_OBJECT = frozenset({"resource_version"})
"""Fields in which no two objects are equal."""


_STRINGS: Pool[str] = Pool()
_TIMES: Pool[datetime] = Pool()


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
        case _:
            return None


def _shared_text(text: str) -> str:
    return text if len(text) > MAX_CHARACTERS else _STRINGS.shared(text)


def _same(value: Any) -> Any:
    return value
