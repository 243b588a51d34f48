"""Exponential backoff with jitter."""

import random
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True)
class Backoff:
    """Doubles from `base` up to `max` seconds, plus up to the share `jitter` at random."""

    base: float = 0.2
    max: float = 30.0
    jitter: float = 0.5
    draw: Callable[[], float] = random.random
    _failures: int = 0

    def next(self) -> float:
        """Return the pause after another failure."""
        seconds = min(self.max, self.base * 2.0 ** min(self._failures, 60))
        self._failures += 1
        return seconds * (1.0 + self.jitter * self.draw())

    def reset(self) -> None:
        """Start again from the base, after a success."""
        self._failures = 0
