"""The time, as one value that is passed in: tests give another one, and nothing reads the machine's clock beside it."""

import time
from datetime import UTC, datetime


class Clock:
    """Tells the time of day, and measures durations: this one by the clock of the machine."""

    def now(self) -> datetime:
        """Return the current time in UTC, with microseconds; conditions truncate it to seconds."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds of a clock that is never set back."""
        return time.monotonic()


SYSTEM_CLOCK = Clock()
