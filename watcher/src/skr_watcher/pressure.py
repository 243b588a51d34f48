"""Whether there is too little of what admission needs: time of the processor, or room for requests.

Overload must not make a user wait. What does not fit is allowed without a look, and a RESYNC makes up for it.
"""

import asyncio
import time

LOOK_SECONDS = 0.1
LATE_SECONDS = 0.4
RELIEF_SECONDS = 1.0


class Room:
    """The bytes that bodies of requests may take together."""

    def __init__(self, most: int) -> None:
        self._free = most

    def take(self, size: int) -> bool:
        """Take some bytes; return whether they were there. Follow up with `give` only then."""
        if size > self._free:
            return False
        self._free -= size
        return True

    def give(self, size: int) -> None:
        """Give bytes back."""
        self._free += size


class Lateness:
    """Notices that the event loop can't keep up."""

    def __init__(self) -> None:
        self._late_until = 0.0

    @property
    def is_late(self) -> bool:
        """Tell whether requests have been waiting lately."""
        return time.monotonic() < self._late_until

    async def watch(self) -> None:
        """Look at how late this task itself comes to its turn. Runs until cancelled."""
        while True:
            due = time.monotonic() + LOOK_SECONDS
            await asyncio.sleep(LOOK_SECONDS)
            now = time.monotonic()
            if now - due > LATE_SECONDS:
                self._late_until = now + RELIEF_SECONDS
