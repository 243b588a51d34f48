"""What this process wrote and the stream of an informer has not shown yet.

The API server's answer to a write is newer than the cache until the stream reaches the write's resourceVersion. A
decision made from the cache alone in between would be made from the past: A, B, A in quick succession would end with B.
From then on the stream alone counts, whether it shows the object or not: an object that was created here and deleted
before the answer to its creation arrived is gone.

resourceVersions of one kind are compared as numbers, as Kubernetes permits since 1.35 and etcd has always provided.
"""

import heapq
from collections.abc import Iterable
from typing import Generic, TypeVar

from kube_runtime.informer.cache import Cache, Index
from kube_runtime.resource import ObjectKey, Resource, version_number

T = TypeVar("T")


class OwnWrites(Generic[T]):
    """Writes that are newer than the position of a stream; the view of a cache with them applied.

    They are kept by key and under the indexes of the cache, so that a look-up costs what it returns, however many
    writes are pending.
    """

    def __init__(self, resource: Resource[T], cache: Cache[T]) -> None:
        self.position = 0
        self._resource = resource
        self._cache = cache
        self._versions: dict[ObjectKey, int] = {}
        """Of each pending write. One without an item in `_items` deletes what has this version or an earlier one."""
        self._items: Cache[T] = cache.without_objects()
        self._order: list[tuple[int, ObjectKey]] = []
        self._reached: list[ObjectKey] = []
        self._last_versions: dict[ObjectKey, int] = {}

    def add_index(self, index: Index[T]) -> None:
        """Find own writes by an index, too."""
        self._items.add_index(index)

    def get(self, key: ObjectKey) -> T | None:
        """Return the newest known state of an object: of the cache and of the last write."""
        cached = self._cache.get(key)
        return self._items.get(key) if self._versions and self._hides(key, cached) else cached

    def list(self) -> tuple[T, ...]:
        """Return all objects in their newest known state."""
        return self._newest(self._cache.list(), self._items.list()) if self._versions else self._cache.list()

    def by_index(self, index: str, value: str) -> tuple[T, ...]:
        """Return the objects that an index has under a value, in their newest known state."""
        cached = self._cache.by_index(index, value)
        return self._newest(cached, self._items.by_index(index, value)) if self._versions else cached

    def wrote(self, answer: T) -> None:
        """Remember the answer to a write, unless the stream or a later write has passed it."""
        key, version = self._resource.key_of(answer), version_number(self._resource.version_of(answer))
        last = self._last_versions.get(key, 0)
        if version <= last:
            return
        cached = self._cache.get(key)
        if version > self.position:
            self._remember(key, version, answer)
        elif cached is None or version != self._version_of(cached):
            return
        else:
            key = self._resource.key_of(cached)  # its strings are kept anyway
        self._last_versions[key] = version

    def deleted(self, key: ObjectKey, version: int) -> None:
        """Remember that an object of this version, or an earlier one, is gone from the API server."""
        if self._versions.get(key, 0) > version:
            return
        cached = self._cache.get(key)
        if version > self.position or (cached is not None and self._version_of(cached) <= version):
            self._remember(key, version, None)

    def is_last(self, key: ObjectKey, version: int) -> bool:
        """Tell whether a version is that of this process's last write to an object."""
        return version > 0 and self._last_versions.get(key) == version

    def advance(self, position: int) -> None:
        """Drop the writes that the stream has reached."""
        self.position = max(self.position, position)
        if self._reached:
            reached, self._reached = self._reached, []
            for key in reached:
                self._settle(key)
        while self._order and self._order[0][0] <= self.position:
            _, key = heapq.heappop(self._order)
            if self._versions.get(key, self.position + 1) <= self.position:
                if key in self._items:
                    self._drop(key)
                self._reached.append(key)

    def shown(self, key: ObjectKey, new: T | None) -> None:
        """Take what the stream shows of an object, None where it is gone."""
        if not self._versions and not self._last_versions:
            return
        version = self._version_of(new) if new is not None else None
        if self._is_deletion(key) and (version is None or version > self._versions[key]):
            self._drop(key)
        last = self._last_versions.get(key, 0)
        if last and last <= self.position:
            del self._last_versions[key]
            if version == last:
                self._last_versions[key] = last  # by the strings of the object in the cache, not by those of the answer

    def deletions(self) -> frozenset[ObjectKey]:
        """Return what was deleted, as far as the stream has not shown it."""
        return frozenset(filter(self._is_deletion, self._versions))

    def restored(self, key: ObjectKey) -> None:
        """Take it that an object is there, although it was deleted: its API server has lost the deletion."""
        if self._is_deletion(key):
            self._drop(key)

    def drop_all(self) -> None:
        """Forget every write: the resourceVersion decreased."""
        self.position = 0
        self._versions.clear()
        self._items = self._cache.without_objects()
        self._order.clear()
        self._reached.clear()
        self._last_versions.clear()

    def _newest(self, cached: Iterable[T], written: Iterable[T]) -> tuple[T, ...]:
        key_of = self._resource.key_of
        return (
            *(item for item in cached if not self._hides(key_of(item), item)),
            *(item for item in written if self._hides(key := key_of(item), self._cache.get(key))),
        )

    def _hides(self, key: ObjectKey, cached: T | None) -> bool:
        """Tell whether a pending write counts, and not the state in the cache."""
        version = self._versions.get(key)
        return version is not None and (cached is None or self._version_of(cached) <= version)

    def _is_deletion(self, key: ObjectKey) -> bool:
        return key in self._versions and key not in self._items

    def _remember(self, key: ObjectKey, version: int, item: T | None) -> None:
        self._versions[key] = version
        if item is None:
            self._items.remove(key)
        else:
            self._items.put(key, item)
        heapq.heappush(self._order, (version, key))

    def _drop(self, key: ObjectKey) -> None:
        self._versions.pop(key, None)
        self._items.remove(key)

    def _settle(self, key: ObjectKey) -> None:
        """Forget what was noted of a write, now that the event at its version, if there was one, was taken."""
        cached = self._cache.get(key)
        if self._is_deletion(key) and cached is None and self._versions[key] <= self.position:
            self._drop(key)
        last = self._last_versions.get(key, 0)
        if last and last <= self.position and (cached is None or self._version_of(cached) != last):
            del self._last_versions[key]

    def _version_of(self, item: T) -> int:
        return version_number(self._resource.version_of(item))
