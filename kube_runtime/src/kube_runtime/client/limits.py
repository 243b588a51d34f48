"""Client-side limits: a token bucket, a number of concurrent requests, and the memory of large answers.

The first two let a request pass without touching the event loop while there is room, which is nearly always.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from types import TracebackType

from kube_runtime.byte_budget import ByteBudget, TooManyBytes
from kube_runtime.exceptions import ResponseInvalid

__all__ = ["AnswerMemory", "RequestLimits", "TokenBucket"]

MIB = 1024 * 1024
FREE_BYTES = MIB
MAX_LARGE_BYTES, MAX_LARGE_BYTES_PER_SERVER = 192 * MIB, 64 * MIB


class TokenBucket:
    """Allows `rate` things a second on average and `burst` at once. A rate of 0 allows everything."""

    def __init__(self, rate: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        if rate < 0 or burst < 1:
            raise ValueError("a rate can't be negative, and a burst is at least 1")
        self._rate = rate
        self._burst = float(burst)
        self._clock = clock
        self._tokens = float(burst)
        self._at = clock()

    def reserve(self) -> float:
        """Take a token, and return how many seconds from now it may be used: 0 at once."""
        if not self._rate:
            return 0.0
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + max(0.0, now - self._at) * self._rate)
        self._at = now
        self._tokens -= 1.0
        return 0.0 if self._tokens >= 0 else -self._tokens / self._rate

    def give_back(self) -> None:
        """Return a token that was taken and not used."""
        self._tokens = min(self._burst, self._tokens + 1.0)


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

    Whoever is cancelled while it waits has no token: those behind it move up.

    `pause(seconds)` delays every further request: Retry-After of an overloaded server concerns all requests to it, not
    only the one that it answered.
    """

    def __init__(self, rate: float, burst: int, max_in_flight: int) -> None:
        self._bucket = TokenBucket(rate, burst)
        self._next = asyncio.Lock()
        self._places = asyncio.Semaphore(max_in_flight)
        self._paused_until = 0.0

    def pause(self, seconds: float) -> None:
        """Delay new requests for so long."""
        self._paused_until = max(self._paused_until, time.monotonic() + seconds)

    async def turn(self) -> None:
        """Wait until the rate allows another request."""
        async with self._next:
            seconds = max(self._bucket.reserve(), self._paused_until - time.monotonic())
            if seconds > 0:
                await self._or_give_back(asyncio.sleep(seconds))

    async def __aenter__(self) -> None:
        await self.turn()
        await self._or_give_back(self._places.acquire())

    async def _or_give_back(self, wait: Awaitable[object]) -> None:
        try:
            await wait
        except asyncio.CancelledError:
            self._bucket.give_back()
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._places.release()
