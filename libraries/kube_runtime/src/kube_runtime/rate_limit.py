"""A limit on how often something is done: so many at once, and so many a second on average.

What was done is a debt in seconds, which time pays back. A clock that is set back leaves it as it is.
"""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

IMPRECISION = 1e-9


class RateLimit:
    """Allows `burst` at once and `per_second` on average. A rate of 0 allows everything."""

    __slots__ = ("_at", "_debt", "_free", "_seconds")

    def __init__(self, per_second: float, burst: int) -> None:
        if per_second < 0 or burst < 1:
            raise ValueError("a rate can't be negative, and a burst is at least 1")
        self._seconds = 1 / per_second if per_second else 0.0
        self._free = (burst - 1) * self._seconds
        self._debt = 0.0
        self._at = float("-inf")

    def wait(self, now: float) -> float:
        """Return the seconds until the next one is allowed: 0 at once."""
        seconds = self._debt_at(now) - self._free
        return seconds if seconds > IMPRECISION else 0.0

    def take(self, now: float) -> float:
        """Count one, and return how many seconds from now it is allowed: 0 at once."""
        wait = self.wait(now)
        self._debt = self._debt_at(now) + self._seconds
        self._at = now
        return wait

    def grants(self, now: float) -> bool:
        """Count one if it is allowed now, and return whether it is."""
        return not self.wait(now) and not self.take(now)

    def give_back(self) -> None:
        """Count one less: it was not used."""
        self._debt = max(0.0, self._debt - self._seconds)

    def is_unused(self, now: float) -> bool:
        """Tell whether as many as ever are allowed."""
        return self._debt_at(now) <= IMPRECISION

    def _debt_at(self, now: float) -> float:
        return max(0.0, self._debt - max(0.0, now - self._at))


class RateLimits(Generic[K]):
    """The same limit for each of many keys; of more than `most`, those that were used longest ago are forgotten."""

    def __init__(self, per_second: float, burst: int, *, most: int = 50_000) -> None:
        self._per_second = per_second
        self._burst = burst
        self._most = most
        self._limits: OrderedDict[K, RateLimit] = OrderedDict()

    def wait(self, key: K, now: float) -> float:
        """Return the seconds until the next one of a key is allowed: 0 at once."""
        limit = self._limits.get(key)
        return limit.wait(now) if limit is not None else 0.0

    def grants(self, key: K, now: float) -> bool:
        """Count one of a key if it is allowed now, and return whether it is."""
        limit = self._limits.pop(key, None) or RateLimit(self._per_second, self._burst)
        self._limits[key] = limit
        if len(self._limits) > self._most:
            self._limits.popitem(last=False)
        return limit.grants(now)
