"""What this process wrote and the stream of an informer has not shown yet.

The API server's answer to a write is newer than the cache until the stream reaches the write's resourceVersion. A
decision made from the cache alone in between would be made from the past: A, B, A in quick succession would end with B.
From then on the stream alone counts, whether it shows the object or not: an object that was created here and deleted
before the answer to its creation arrived is gone.

resourceVersions of one kind are compared as numbers, as Kubernetes permits since 1.35 and etcd has always provided.
"""

import heapq
from dataclasses import dataclass
from typing import Generic, TypeVar

from kube_runtime.informer.cache import Cache
from kube_runtime.resource import ObjectKey, Resource, version_number

__all__ = ["OwnWrites"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Write(Generic[T]):
    """One write. Without an item it is a deletion of whatever has this version or an earlier one."""

    version: int
    item: T | None


class OwnWrites(Generic[T]):
    """Writes that are newer than the position of a stream, by key; the view of a cache with them applied."""

    def __init__(self, resource: Resource[T], cache: Cache[T]) -> None:
        self.position = 0
        self._resource = resource
        self._cache = cache
        self._writes: dict[ObjectKey, _Write[T]] = {}
        self._order: list[tuple[int, ObjectKey]] = []
        self._reached: list[ObjectKey] = []
        self._last_versions: dict[ObjectKey, int] = {}

    def wrote(self, answer: T) -> None:
        """Remember the answer to a write, unless the stream or a later write has passed it."""
        key, version = self._resource.key_of(answer), version_number(self._resource.version_of(answer))
        last = self._last_versions.get(key, 0)
        if version <= last:
            return
        cached = self._cache.get(key)
        if version > self.position:
            self._remember(key, _Write(version, answer))
        elif cached is None or version != self._version_of(cached):
            return
        self._last_versions[key] = version

    def deleted(self, key: ObjectKey, version: int) -> None:
        """Remember that an object of this version, or an earlier one, is gone from the API server."""
        write, cached = self._writes.get(key), self._cache.get(key)
        if write is not None and write.version > version:
            return
        if version > self.position or (cached is not None and self._version_of(cached) <= version):
            self._remember(key, _Write(version, None))

    def is_last(self, key: ObjectKey, version: int) -> bool:
        """Tell whether a version is that of this process's last write to an object."""
        return version > 0 and self._last_versions.get(key) == version

    def advance(self, position: int) -> None:
        """Drop the writes that the stream has reached."""
        self.position = max(self.position, position)
        reached, self._reached = self._reached, []
        for key in reached:
            self._settle(key)
        while self._order and self._order[0][0] <= self.position:
            _, key = heapq.heappop(self._order)
            write = self._writes.get(key)
            if write is not None and write.version <= self.position:
                if write.item is not None:
                    del self._writes[key]
                self._reached.append(key)

    def shown(self, key: ObjectKey, new: T | None) -> None:
        """Take what the stream shows of an object, None where it is gone."""
        write, version = self._writes.get(key), self._version_of(new) if new is not None else None
        if write is not None and write.item is None and (version is None or version > write.version):
            del self._writes[key]
        last = self._last_versions.get(key, 0)
        if last and last <= self.position and version != last:
            del self._last_versions[key]

    def drop_all(self) -> None:
        """Forget every write: the stream went back in time."""
        self.position = 0
        self._writes.clear()
        self._order.clear()
        self._reached.clear()
        self._last_versions.clear()

    def newest(self, key: ObjectKey) -> T | None:
        """Return the newest known state of an object: of the cache and of the last write."""
        write, cached = self._writes.get(key), self._cache.get(key)
        if write is None or (cached is not None and self._version_of(cached) > write.version):
            return cached
        return write.item

    def keys(self) -> tuple[ObjectKey, ...]:
        """Return the keys whose newest state may not be the cache's."""
        return tuple(self._writes)

    def _remember(self, key: ObjectKey, write: _Write[T]) -> None:
        self._writes[key] = write
        heapq.heappush(self._order, (write.version, key))

    def _settle(self, key: ObjectKey) -> None:
        """Forget what was noted of a write, now that the event at its version, if there was one, was taken."""
        write, cached = self._writes.get(key), self._cache.get(key)
        if write is not None and write.item is None and cached is None and write.version <= self.position:
            del self._writes[key]
        last = self._last_versions.get(key, 0)
        if last and last <= self.position and (cached is None or self._version_of(cached) != last):
            del self._last_versions[key]

    def _version_of(self, item: T) -> int:
        return version_number(self._resource.version_of(item))
