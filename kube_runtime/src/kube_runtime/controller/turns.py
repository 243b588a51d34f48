"""Sharing the event loop between work and events.

Reconciles that never wait would keep the loop to themselves, and a change that has arrived would not even be read. So
all workers of a controller together get a slice of each turn of the loop; who comes after it waits for the next.
"""

import asyncio
import time

__all__ = ["Turns"]


class Turns:
    """Lets work go on until the slice of this turn of the loop is used up. The first to ask begins the slice."""

    def __init__(self, slice_seconds: float = 0.001) -> None:
        self._slice_seconds = slice_seconds
        self._began: float | None = None

    async def mine(self) -> None:
        """Return when there is time left in a turn: nearly always at once."""
        while True:
            if self._began is None:
                self._began = time.perf_counter()
                asyncio.get_running_loop().call_soon(self._end)
                return
            if time.perf_counter() - self._began <= self._slice_seconds:
                return
            await asyncio.sleep(0)

    def _end(self) -> None:
        self._began = None
