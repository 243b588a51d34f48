"""Retry pauses: exponential for each key, and rate limited for all keys together."""

import random
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from kube_runtime.rate_limit import RateLimit

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """The pause doubles from `base_seconds` to `max_seconds`; all keys together get `rate` retries a second.

    The first retry of a key is exempt from the rate: it does not wait for thousands of keys that have failed for long.
    """

    base_seconds: float = 0.1
    max_seconds: float = 60.0
    rate: float = 30.0
    burst: int = 200
    jitter: float = 0.1


DEFAULT_POLICY = RetryPolicy()


class Retries(Generic[K]):
    """Counts failures by key."""

    def __init__(self, policy: RetryPolicy, draw: Callable[[], float] = random.random) -> None:
        self._policy = policy
        self._draw = draw
        self._rate = RateLimit(policy.rate, policy.burst)
        self._failures: dict[K, int] = {}

    def pause(self, key: K, first_seconds: float | None = None, first_times: int = 1) -> float:
        """Count a failure and return the seconds until the key may be tried again.

        `first_seconds` replaces the pause after a first failure, or after the first `first_times`.
        """
        failed = self._failures.get(key, 0)
        self._failures[key] = failed + 1
        policy = self._policy
        own = min(policy.max_seconds, policy.base_seconds * 2.0 ** min(failed, 60))
        if failed < first_times and first_seconds is not None:
            own = first_seconds
        own *= 1.0 + policy.jitter * self._draw()
        return max(own, self._rate.take(time.monotonic())) if failed >= first_times else own

    def forget(self, key: K) -> None:
        """Reset the failures of a key."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        """Return how many times in a row a key failed."""
        return self._failures.get(key, 0)
