"""Keeping equal values once: what is decoded again and again, of many objects or clusters, takes its memory once.

It does not use `sys.intern`: what Python 3.12 interns is never freed.
"""

from collections.abc import Hashable
from typing import Generic, TypeVar

__all__ = ["Pool"]

V = TypeVar("V")
MAX_VALUES = 5_000


class Pool(Generic[V]):
    """The values that were seen lately, each once. Where they become too many, all are forgotten."""

    def __init__(self, max_values: int = MAX_VALUES) -> None:
        self._max_values = max_values
        self._known: dict[Hashable, V] = {}

    def __len__(self) -> int:
        return len(self._known)

    def shared(self, value: V, key: Hashable = None) -> V:
        """Return the equal value that was seen first, or this one from now on.

        Values that can't be hashed have a `key`, which is equal where they are.
        """
        known = self._known.setdefault(value if key is None else key, value)
        if known is value and len(self._known) >= self._max_values:
            self._known.clear()
        return known
