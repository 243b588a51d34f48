"""A share of the workers for each owner of keys, so that a slow cluster delays no keys but its own.

While an owner has as many keys under way as it may have, its other keys wait aside, where they are in nobody's way:
nothing is searched, and nothing is tried in vain. Whenever a key of it is done, one of each urgency queues up again,
behind the keys of others.

Keys of no owner ("") are not limited. An owner is asked for when a key is added, and counts until the key is done.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

from kube_runtime.controller.priority import Priority

K = TypeVar("K", bound=Hashable)


class Shares(Generic[K]):
    """At most `most` keys of each owner under way."""

    def __init__(self, owner: Callable[[K], str], most: int) -> None:
        if most < 1:
            raise ValueError(f"an owner needs at least one worker, not {most}")
        self._owner = owner
        self._most = most
        self._owners: dict[K, str] = {}
        self._under_way: Counter[str] = Counter()
        self._aside: dict[str, tuple[OrderedDict[K, float], ...]] = {}

    def added(self, key: K) -> None:
        """Note the owner of a key."""
        if owner := self._owner(key):
            self._owners[key] = owner

    def is_full(self, key: K) -> bool:
        """Tell whether a key has to wait, as its owner has as many under way as it may have."""
        return self._under_way[self._owners.get(key, "")] >= self._most

    def put_aside(self, key: K, priority: Priority, added_at: float) -> None:
        """Have a key wait until one of its owner is done."""
        aside = self._aside.setdefault(self._owners[key], tuple(OrderedDict() for _ in Priority))
        aside[priority][key] = added_at

    def take_back(self, key: K, priority: Priority) -> float | None:
        """Return when a key was added that waits aside, and have it wait there no longer; None where it does not."""
        aside = self._aside.get(self._owners.get(key, ""))
        return aside[priority].pop(key, None) if aside is not None else None

    def begin(self, key: K) -> None:
        """Note that a key is given out."""
        if owner := self._owners.get(key):
            self._under_way[owner] += 1

    def end(self, key: K) -> Iterator[tuple[K, Priority, float]]:
        """Note that a key is done. Yields the keys of its owner that wait aside no longer, and when they were added."""
        owner = self._owners.pop(key, "")
        if not owner:
            return
        self._under_way[owner] -= 1
        aside = self._aside.get(owner, ())
        for priority, keys in zip(Priority, aside, strict=False):
            if keys:
                waiting, added_at = keys.popitem(last=False)
                yield waiting, priority, added_at
        if not self._under_way[owner]:
            del self._under_way[owner]
        if not any(aside):
            self._aside.pop(owner, None)

    def forget(self, key: K, priority: Priority) -> None:
        """Drop a key that waits."""
        self.take_back(key, priority)
        self._owners.pop(key, None)
