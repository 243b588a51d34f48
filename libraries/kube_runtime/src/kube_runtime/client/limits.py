"""Client-side limits: a rate, a number of concurrent requests, and the memory of large answers.

The first two let a request pass without touching the event loop while there is room, which is nearly always.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType

from kube_runtime.byte_budget import ByteBudget, TooManyBytes
from kube_runtime.exceptions import ResponseInvalid
from kube_runtime.rate_limit import RateLimit

MIB = 1024 * 1024
FREE_BYTES = MIB
MAX_LARGE_BYTES, MAX_LARGE_BYTES_PER_SERVER = 192 * MIB, 64 * MIB


IN_BACKGROUND: ContextVar[bool] = ContextVar("in background", default=False)
"""Whether the requests of what runs can wait for others: no user waits for them."""


class AnswerMemory:
    """Limits the memory that answers of many servers take while they are read, beyond FREE_BYTES each.

    Servers that never end their answers would fill it.
    """

    def __init__(self, max_bytes: int = MAX_LARGE_BYTES, per_server: int = MAX_LARGE_BYTES_PER_SERVER) -> None:
        self._budget = ByteBudget(max_bytes, per_server)

    @contextmanager
    def reading(self, server: str) -> Iterator[Callable[[int], None]]:
        """Yield what takes note of the size so far, and raises ResponseInvalid where others have taken all room."""
        with self._budget.share(server) as take:
            taken = 0

            def grow(size: int) -> None:
                nonlocal taken
                more = max(0, size - FREE_BYTES) - taken
                try:
                    take(more)
                except TooManyBytes:
                    raise ResponseInvalid("other large answers have to be read before; it is requested again") from None
                taken += more

            yield grow


class RequestLimits:
    """An async context manager around each request: waits for the rate, then for one of the places.

    Requests in the background have some of the places: as many as keep the server busy. With more it would answer all
    of them later, and with them what users wait for.

    Whoever is cancelled while it waits does not count: those behind it move up.

    `pause(seconds)` delays every further request: Retry-After of an overloaded server concerns all requests to it, not
    only the one that it answered.
    """

    def __init__(self, rate: float, burst: int, max_in_flight: int, max_in_background: int | None = None) -> None:
        self._rate = RateLimit(rate, burst)
        self._next = asyncio.Lock()
        self._places = asyncio.Semaphore(max_in_flight)
        self._in_background = asyncio.Semaphore(max_in_flight if max_in_background is None else max_in_background)
        self._paused_until = 0.0

    def pause(self, seconds: float) -> None:
        """Delay new requests for so long."""
        self._paused_until = max(self._paused_until, time.monotonic() + seconds)

    async def wait(self) -> None:
        """Wait until the rate allows another request."""
        async with self._next:
            now = time.monotonic()
            seconds = max(self._rate.take(now), self._paused_until - now)
            if seconds > 0:
                await self._or_give_back(asyncio.sleep(seconds))

    async def __aenter__(self) -> None:
        await self.wait()
        await self._or_give_back(self._acquire())

    async def _acquire(self) -> None:
        if not IN_BACKGROUND.get():
            await self._places.acquire()
            return
        await self._in_background.acquire()
        try:
            await self._places.acquire()
        except asyncio.CancelledError:
            self._in_background.release()
            raise

    async def _or_give_back(self, wait: Awaitable[object]) -> None:
        try:
            await wait
        except asyncio.CancelledError:
            self._rate.give_back()
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._places.release()
        if IN_BACKGROUND.get():
            self._in_background.release()
