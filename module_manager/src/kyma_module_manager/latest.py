"""The newest version known of each object: the informer's cache, and what was written that is not in it yet.

A write is known at once and comes back through the watch a moment later. A decision made in between on the
cache alone would be a decision on the past: A → B → A in quick succession would end on B. So each answer to a
write is kept until the cache has caught up with it. resourceVersions of one kind may be compared as numbers.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from kube_runtime import ObjectKey
from lifecycle_manager_api import ObjectMeta

__all__ = ["Cache", "Latest"]


class HasMetadata(Protocol):
    """An object of Kubernetes."""

    @property
    def metadata(self) -> ObjectMeta:
        """Its metadata."""


T_co = TypeVar("T_co", bound=HasMetadata, covariant=True)
T = TypeVar("T", bound=HasMetadata)


class Cache(Protocol[T_co]):
    """The one thing that is needed of an informer's cache."""

    def get(self, key: ObjectKey, /) -> T_co | None:
        """Return the object under a key, or None."""


@dataclass(frozen=True, slots=True)
class _Write(Generic[T]):
    at: float
    uid: str
    resource_version: str
    answer: T | None


class Latest(Generic[T]):
    """Reads its own writes: the newer one of what the cache holds and what was answered to the last write."""

    def __init__(self, cache: Cache[T], clock: Callable[[], float] = time.monotonic) -> None:
        self._cache = cache
        self._clock = clock
        self._writes: dict[ObjectKey, _Write[T]] = {}

    def get(self, key: ObjectKey) -> T | None:
        """Return the newest version that is known."""
        cached = self._cache.get(key)
        write = self._writes.get(key)
        if write is None or write.answer is None:
            return cached
        if cached is not None and int(cached.metadata.resource_version) >= int(write.resource_version):
            self._writes[key] = _Write(write.at, write.uid, write.resource_version, None)
            return cached
        return write.answer

    def wrote(self, key: ObjectKey, answer: T) -> None:
        """Remember the API server's answer to a write."""
        metadata = answer.metadata
        self._writes[key] = _Write(self._clock(), metadata.uid, metadata.resource_version, answer)

    def is_own_write(self, key: ObjectKey, seen: T) -> bool:
        """Tell whether an event shows just what was written last, so that it says nothing new."""
        write = self._writes.get(key)
        return write is not None and write.resource_version == seen.metadata.resource_version

    def seconds_since_write(self, key: ObjectKey) -> float | None:
        """Return how long ago the last write was, or None if there was none."""
        write = self._writes.get(key)
        return None if write is None else self._clock() - write.at

    def gone(self, key: ObjectKey, uid: str) -> None:
        """Forget a write to an object that was deleted since; one to its successor of that name stays."""
        write = self._writes.get(key)
        if write is not None and write.uid == uid:
            del self._writes[key]
