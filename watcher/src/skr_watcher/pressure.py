"""Detects overload: too little CPU time, or too little memory for request bodies.

Overload must not delay a user's write. Excess requests are allowed without inspection, and a RESYNC follows.
"""

import asyncio
import time

CHECK_SECONDS = 0.1
LATE_SECONDS = 0.4
RELIEF_SECONDS = 1.0


class BodyMemory:
    """The bytes that all request bodies together may take."""

    def __init__(self, max_bytes: int) -> None:
        self._free = max_bytes

    def reserve(self, size: int) -> bool:
        """Reserve bytes; return whether they were free. If so, call `release` afterwards."""
        if size > self._free:
            return False
        self._free -= size
        return True

    def release(self, size: int) -> None:
        """Release reserved bytes."""
        self._free += size


class Lateness:
    """Measures whether the event loop is late."""

    def __init__(self) -> None:
        self._late_until = 0.0

    @property
    def is_late(self) -> bool:
        """Whether requests were delayed within the last second."""
        return time.monotonic() < self._late_until

    async def watch(self) -> None:
        """Measure the delay of this task's own timer. Runs until cancelled."""
        while True:
            due = time.monotonic() + CHECK_SECONDS
            await asyncio.sleep(CHECK_SECONDS)
            now = time.monotonic()
            if now - due > LATE_SECONDS:
                self._late_until = now + RELIEF_SECONDS
