"""How much that is not urgent is done at the same time, so that what is urgent finds the event loop free.

Each reconcile under way adds its share to every turn of the loop, and somebody's change passes through several turns.
So when turns grow long, fewer reconciles are begun, and when they are short, more: clusters that answer slowly keep
hundreds under way, clusters that answer at once a few, and the core is busy in both cases. The limit falls by a tenth
and rises by one, as the windows of TCP do.

A turn counts by the CPU time of the loop's thread: where others have the core, doing less would not help.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

__all__ = ["Pace"]

_TICK_SECONDS = 0.005
_LEAST = 4
_FIRST = 16.0


class Pace:
    """A limit that controllers share. Turns of the loop are held near `turn_seconds`; `most` is never passed."""

    def __init__(self, *, turn_seconds: float = 0.005, most: int = 1_000) -> None:
        self._turn_seconds = turn_seconds
        self._most = most
        self._limit = _FIRST
        self._under_way = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._looked_at: float | None = None

    @property
    def limit(self) -> int:
        """How many may be under way now."""
        return int(self._limit)

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Hold one of the places for as long as something is under way."""
        await self._acquire()
        try:
            yield
        finally:
            self._under_way -= 1
            self._admit()

    async def _acquire(self) -> None:
        if not self._waiting and self._under_way < self.limit:
            self._take()
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._under_way -= 1  # it was given a place that it does not use
                self._admit()
            else:
                with suppress(ValueError):  # passed over already, as it was cancelled before its turn came
                    self._waiting.remove(turn)
            raise

    def _take(self) -> None:
        self._under_way += 1
        if self._looked_at is None:
            self._tick()

    def _admit(self) -> None:
        while self._waiting and self._under_way < self.limit:
            turn = self._waiting.popleft()
            if not turn.done():
                self._take()
                turn.set_result(None)

    def _tick(self) -> None:
        """Look at how long the loop's turns are, as long as anything is under way."""
        used = time.thread_time()
        if self._looked_at is not None:
            if used - self._looked_at > _TICK_SECONDS + self._turn_seconds:
                self._limit = max(self._limit * 0.9, _LEAST)
            elif self._waiting:
                self._limit = min(self._limit + 1, self._most)
                self._admit()
        if self._under_way == 0 and not self._waiting:
            self._looked_at = None
            return
        self._looked_at = used
        asyncio.get_running_loop().call_later(_TICK_SECONDS, self._tick)
