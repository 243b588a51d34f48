"""Keeping the strings once that many objects have: kinds, namespaces, labels, reasons.

More than half of what a decoded object takes are strings that other objects have as well. `sharer_for` returns a
function that replaces them by one copy, made once a kind from its annotations. It does not use `sys.intern`: what
Python 3.12 interns is never freed.
"""

from typing import Any

import msgspec
from msgspec import inspect

from kube_runtime.rewriting import Rewrite, rewriter_for

__all__ = ["Strings", "sharer_for"]

MAX_CHARACTERS = 128
"""Longer strings are rarely equal, and to look them up costs the more."""
MAX_STRINGS = 20_000
_OF_ONE_OBJECT = frozenset({"resource_version"})
"""Fields in which no two objects are equal."""


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


def sharer_for(kind: type[Any]) -> Rewrite:
    """Return a function that has an object of this type share its strings, in place. A dict stays as it is."""
    if not issubclass(kind, msgspec.Struct):
        return _same
    shared = rewriter_for(
        kind, lambda part: _STRINGS.shared if isinstance(part, inspect.StrType) else None, without=_OF_ONE_OBJECT
    )
    return shared or _same


def _same(value: Any) -> Any:
    return value
