"""An adaptive limit on concurrent reconciles that are not urgent, which keeps iterations of the event loop short.

Each reconcile under way adds to every iteration of the loop, and the reconcile of an event passes through several. When
iterations grow long, fewer reconciles are admitted, and when they are short, more: with slow clusters hundreds are
under way, with fast ones a few, and the core is busy in both cases. The limit falls by a tenth and rises by one, like a
TCP window.

A more urgent reconcile has its place before others, of whatever controller; one in sixteen goes to the least urgent.

An iteration is measured in CPU time of the loop's thread: where other processes have the core, a lower limit would not
help.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from kube_runtime.controller.priority import Priority, next_lane

__all__ = ["Pace"]

_TICK_SECONDS = 0.005
_CALM_TICK_SECONDS = 0.025
"""The same while nobody waits for a place: each tick costs a turn of the loop."""
_MIN_LIMIT = 4
_INITIAL_LIMIT = 16.0


class Pace:
    """A limit shared by controllers, of at most `max_limit`. Iterations of the loop are kept near `turn_seconds`.

    `place` holds one of the places for as long as something is under way.
    """

    def __init__(self, *, turn_seconds: float = 0.005, max_limit: int = 1_000) -> None:
        self._turn_seconds = turn_seconds
        self._max_limit = max_limit
        self._limit = _INITIAL_LIMIT
        self._under_way = 0
        self._waiting: tuple[deque[asyncio.Future[None]], ...] = tuple(deque() for _ in Priority)
        self._admitted = 0
        self._measured_at: float | None = None
        self._interval = _TICK_SECONDS

    @property
    def limit(self) -> int:
        """How many may be under way now."""
        return int(self._limit)

    @asynccontextmanager
    async def place(self, priority: Priority = Priority.RESYNC) -> AsyncIterator[None]:
        """Wait for a place, and hold it."""
        await self._enter(self._waiting[priority])
        try:
            yield
        finally:
            self._release()

    async def _enter(self, waiting: deque[asyncio.Future[None]]) -> None:
        if self._under_way < self.limit and not any(self._waiting):
            self._take()
            return
        turn = asyncio.get_running_loop().create_future()
        waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._release()  # it was given a place that it does not use
            else:
                with suppress(ValueError):  # passed over already, as it was cancelled before its turn came
                    waiting.remove(turn)
            raise

    def _release(self) -> None:
        self._under_way -= 1
        self._admit()

    def _take(self) -> None:
        self._under_way += 1
        if self._measured_at is None:
            self._tick()

    def _admit(self) -> None:
        while self._under_way < self.limit and any(self._waiting):
            self._admitted += 1
            turn = next_lane(self._waiting, self._admitted).popleft()
            if not turn.done():
                self._take()
                turn.set_result(None)

    def _tick(self) -> None:
        """Measure the iterations of the loop, as long as anything is under way."""
        used = time.thread_time()
        if self._measured_at is not None:
            if used - self._measured_at > self._interval + self._turn_seconds:
                self._limit = max(self._limit * 0.9, _MIN_LIMIT)
            elif any(self._waiting):
                self._limit = min(self._limit + 1, self._max_limit)
                self._admit()
        if self._under_way == 0 and not any(self._waiting):
            self._measured_at = None
            return
        self._measured_at = used
        self._interval = _TICK_SECONDS if any(self._waiting) else _CALM_TICK_SECONDS
        asyncio.get_running_loop().call_later(self._interval, self._tick)
