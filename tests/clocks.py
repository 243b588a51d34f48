"""A clock that stands still until a test moves it."""

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta

from kube_runtime import Clock
from tests import builders


@dataclass(eq=False)
class ManualClock(Clock):
    """A `kube_runtime.Clock` whose time is set by a test; `monotonic` follows it, but for jumps."""

    time: datetime = builders.NOW
    jumped: float = 0.0

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return self.time.timestamp() - self.jumped

    def advance(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)

    def jump(self, seconds: float) -> None:
        """Set the clock to another time, which passes no time."""
        self.advance(seconds)
        self.jumped += seconds


class LoopClock(Clock):
    """A `kube_runtime.Clock` that follows the event loop, whose time a test compresses with looptime."""

    def now(self) -> datetime:
        return builders.NOW + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()
