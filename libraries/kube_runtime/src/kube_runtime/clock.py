"""The time, as one value that is passed in: tests replace it, and nothing reads the machine's clock beside it."""

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Tells the time of day, and measures durations."""

    def now(self) -> datetime:
        """Return the current time in UTC, with microseconds; conditions truncate it to seconds."""
        ...

    def monotonic(self) -> float:
        """Return seconds of a clock that is never set back."""
        ...


class SystemClock:
    """The clock of this machine."""

    def now(self) -> datetime:
        """Return the current time in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds of a clock that is never set back."""
        return time.monotonic()


SYSTEM_CLOCK: Clock = SystemClock()
