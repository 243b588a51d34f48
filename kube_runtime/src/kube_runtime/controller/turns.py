"""A slice of each iteration of the event loop for reconciles that begin.

Reconciles that never wait would occupy the loop, and an event that has arrived would not even be read. All workers of a
controller share one slice of each iteration; a reconcile that comes later waits for the next iteration.
"""

import asyncio
import time

__all__ = ["Turns"]


class Turns:
    """Admits work until the slice of this iteration is used up. The first one starts the slice."""

    def __init__(self, slice_seconds: float = 0.001) -> None:
        self._slice_seconds = slice_seconds
        self._began: float | None = None

    async def mine(self) -> None:
        """Return when an iteration has time left: nearly always at once."""
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
