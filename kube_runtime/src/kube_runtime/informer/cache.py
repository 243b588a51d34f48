"""What is known of a kind of object, by key and by whatever else it is asked for.

Objects in a cache are shared by all readers: take them as immutable, dicts too.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar

from kube_runtime.resource import ObjectKey

__all__ = ["Cache", "Index"]

T = TypeVar("T")
Index = Callable[[T], Iterable[str]]
"""Says under which values an object is to be found."""


class Cache(Generic[T]):
    """The objects that an informer holds. Only the informer writes.

    `changes` counts what was put and removed, so that what is made from all objects need not be made anew each time.
    """

    def __init__(self, indexes: Mapping[str, Index[T]]) -> None:
        self.changes = 0
        self._objects: dict[ObjectKey, T] = {}
        self._indexes = dict(indexes)
        self._found: dict[str, dict[str, dict[ObjectKey, T]]] = {name: {} for name in indexes}

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
        return tuple(self._found[index].get(value, {}).values())

    def __len__(self) -> int:
        return len(self._objects)

    def __contains__(self, key: object) -> bool:
        return key in self._objects

    def put(self, key: ObjectKey, new: T) -> T | None:
        """Store an object and return the one that it replaces."""
        self.changes += 1
        old = self._objects.get(key)
        self._objects[key] = new
        if self._indexes:
            self._reindex(key, old, new)
        return old

    def remove(self, key: ObjectKey) -> T | None:
        """Drop an object and return it."""
        self.changes += 1
        old = self._objects.pop(key, None)
        if old is not None and self._indexes:
            self._reindex(key, old, None)
        return old

    def _reindex(self, key: ObjectKey, old: T | None, new: T | None) -> None:
        for name, index in self._indexes.items():
            found = self._found[name]
            values = set(index(new)) if new is not None else set()
            for value in set(index(old)) - values if old is not None else ():
                entries = found[value]
                del entries[key]
                if not entries:
                    del found[value]
            for value in values:
                found.setdefault(value, {})[key] = new  # type: ignore[assignment]  # there are values only with a new object
