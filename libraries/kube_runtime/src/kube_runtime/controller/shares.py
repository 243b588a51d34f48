"""A share of the workers for each owner of keys, so that a slow cluster delays no keys but its own.

An owner has so many places, and a key holds one from when it may be given out until it is done. The other keys of that
owner wait aside, where they are in nobody's way: nothing is searched, and nothing is tried in vain. Each place that
becomes free goes to the most urgent key aside, which queues up behind the keys of others. A key that is more urgent
than one of its owner's with a place, not given out yet, takes that place.

Keys of no owner ("") are not limited. An owner is asked for when a key is added, and counts until the key is done.
"""

from collections import OrderedDict
from collections.abc import Callable, Container, Hashable
from typing import Generic, TypeVar

from kube_runtime.controller.priority import FAIR_SHARE, Priority

K = TypeVar("K", bound=Hashable)


class _Share(Generic[K]):
    """The keys of one owner: those with a place, and those aside by their urgency, with the time they were added."""

    __slots__ = ("aside", "passed_over", "places")

    def __init__(self) -> None:
        self.places: dict[K, Priority] = {}
        self.aside: tuple[OrderedDict[K, float], ...] = tuple(OrderedDict() for _ in Priority)
        self.passed_over = 0


class Shares(Generic[K]):
    """At most `most` places for each owner."""

    def __init__(self, owner: Callable[[K], str], most: int) -> None:
        if most < 1:
            raise ValueError(f"an owner needs at least one place, not {most}")
        self._owner = owner
        self._most = most
        self._shares: dict[str, _Share[K]] = {}
        self._owners: dict[K, str] = {}
        self.aside = [0 for _ in Priority]
        """How many keys wait aside, by their urgency."""

    def enter(self, key: K, priority: Priority, added_at: float) -> bool:
        """Give a key a place, and return whether there was one. Else it waits aside."""
        owner = self._owner(key)
        if not owner:
            return True
        self._owners[key] = owner
        share = self._shares.get(owner)
        if share is None:
            share = self._shares[owner] = _Share()
        if len(share.places) < self._most:
            share.places[key] = priority
            return True
        share.aside[priority][key] = added_at
        self.aside[priority] += 1
        return False

    def raised(self, key: K, priority: Priority) -> bool:
        """Note that a waiting key has become more urgent, and return whether it has a place."""
        owner = self._owners.get(key)
        if owner is None:
            return True
        places = self._shares[owner].places
        if key in places:
            places[key] = priority
            return True
        return False

    def withdraw(self, key: K, priority: Priority) -> float:
        """Take a key away that waits aside, and return when it was added."""
        self.aside[priority] -= 1
        return self._shares[self._owners.pop(key)].aside[priority].pop(key)

    def less_urgent(self, key: K, priority: Priority, waiting: Container[K]) -> tuple[K, Priority] | None:
        """Return the least urgent key with a place that waits, if it is less urgent than this one of its owner."""
        places = self._shares[self._owners[key]].places
        found = [(urgency, each) for each, urgency in places.items() if urgency > priority and each in waiting]
        if not found:
            return None
        urgency, least = max(found, key=lambda it: it[0])
        return least, urgency

    def swap(self, key: K, priority: Priority, instead_of: K, added_at: float) -> None:
        """Give a key that waits aside the place of another one of its owner, which waits first among its equals."""
        share = self._shares[self._owners[key]]
        urgency = share.places.pop(instead_of)
        del share.aside[priority][key]
        share.places[key] = priority
        share.aside[urgency][instead_of] = added_at
        share.aside[urgency].move_to_end(instead_of, last=False)
        share.passed_over += 1
        self.aside[priority] -= 1
        self.aside[urgency] += 1

    def leave(self, key: K) -> tuple[K, Priority, float] | None:
        """Free the place of a key that is done. Return the key aside that has it now, with urgency and time."""
        owner = self._owners.pop(key, None)
        if owner is None:
            return None
        share = self._shares[owner]
        del share.places[key]
        following = self._next(share)
        if not share.places:
            del self._shares[owner]
        return following

    def _next(self, share: _Share[K]) -> tuple[K, Priority, float] | None:
        """Give a place to the most urgent key aside.

        Where urgent keys passed over others often enough, the least urgent is next, as urgent as can be.
        """
        waiting = [priority for priority in Priority if share.aside[priority]]
        if not waiting:
            return None
        if len(waiting) > 1:
            share.passed_over += 1
        taken = priority = waiting[0]
        if share.passed_over >= FAIR_SHARE:
            taken, priority, share.passed_over = waiting[-1], Priority.EVENT, 0
        following, added_at = share.aside[taken].popitem(last=False)
        self.aside[taken] -= 1
        share.places[following] = priority
        return following, priority, added_at
