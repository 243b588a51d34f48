"""The objects of one kind by key, and by the values of indexes.

Objects in a cache are shared by all readers: treat them as immutable, dicts too.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from kube_runtime.resource import ObjectKey

T = TypeVar("T")
MAX_IN_TUPLE = 8
"""Up to how many keys under one value of an index are in a tuple, which takes a quarter of what a dict does."""


@dataclass(frozen=True, slots=True)
class Index(Generic[T]):
    """A name, and the values under which an object is found by it."""

    name: str
    values: Callable[[T], Iterable[str]]


class Cache(Generic[T]):
    """The objects that an informer holds. Only the informer writes.

    `changes` counts writes, so that what is computed from all objects need not be computed again each time.
    """

    def __init__(self, indexes: Iterable[Index[T]] = ()) -> None:
        self.changes = 0
        self._objects: dict[ObjectKey, T] = {}
        self._indexes: dict[str, Index[T]] = {}
        self._found: dict[str, dict[str, tuple[ObjectKey, ...] | dict[ObjectKey, None]]] = {}
        for index in indexes:
            self.add_index(index)

    def get(self, key: ObjectKey) -> T | None:
        """Return an object, or None where there is none."""
        return self._objects.get(key)

    def list(self) -> tuple[T, ...]:
        """Return all objects."""
        return tuple(self._objects.values())

    def keys(self) -> tuple[ObjectKey, ...]:
        """Return the keys of all objects."""
        return tuple(self._objects)

    def by_index(self, index: str, value: str) -> tuple[T, ...]:
        """Return the objects that an index has under a value. Raises KeyError for an index that was not declared."""
        return tuple([self._objects[key] for key in self._found[index].get(value, ())])

    def without_objects(self) -> "Cache[T]":
        """Return an empty cache with the same indexes."""
        return Cache(self._indexes.values())

    def __len__(self) -> int:
        return len(self._objects)

    def __contains__(self, key: object) -> bool:
        return key in self._objects

    def add_index(self, index: Index[T]) -> None:
        """Declare an index, also of the objects that are here already. Raises ValueError if its name is taken."""
        known = self._indexes.get(index.name)
        if known == index:
            return
        if known is not None:
            raise ValueError(f"two indexes are named {index.name!r}")
        self._indexes[index.name] = index
        self._found[index.name] = {}
        for key, item in self._objects.items():
            self._reindex(index, key, None, item)

    def put(self, key: ObjectKey, new: T) -> T | None:
        """Store an object and return the one that it replaces."""
        self.changes += 1
        old = self._objects.get(key)
        self._objects[key] = new
        for index in self._indexes.values():
            self._reindex(index, key, old, new)
        return old

    def remove(self, key: ObjectKey) -> T | None:
        """Drop an object and return it."""
        self.changes += 1
        old = self._objects.pop(key, None)
        if old is not None:
            for index in self._indexes.values():
                self._reindex(index, key, old, None)
        return old

    def _reindex(self, index: Index[T], key: ObjectKey, old: T | None, new: T | None) -> None:
        was = tuple(index.values(old)) if old is not None else ()
        is_now = tuple(index.values(new)) if new is not None else ()
        if was == is_now:
            return
        before, after = set(was), set(is_now)
        found = self._found[index.name]
        for value in before - after:
            keys = found[value]
            if isinstance(keys, dict):
                del keys[key]
            else:
                found[value] = keys = tuple([each for each in keys if each != key])
            if not keys:
                del found[value]
        for value in after - before:
            keys = found.get(value, ())
            if isinstance(keys, dict):
                keys[key] = None
            else:
                found[value] = (*keys, key) if len(keys) < MAX_IN_TUPLE else dict.fromkeys((*keys, key))
