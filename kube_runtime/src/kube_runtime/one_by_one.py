"""Turns of work that takes long: one step in an iteration of the event loop, whoever's it is, and events before it."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["OneByOne"]

MAX_WAIT_SECONDS = 0.02
"""So long a step waits for events, and so long one event is waited for: either may go on without end."""

_EVENT: ContextVar[object | None] = ContextVar("event", default=None)


class OneByOne:
    """Lets one step begin in an iteration, in the order in which they ask; everybody else goes on in between.

    The steps of many clusters at once would else make one long iteration, which delays what others do by all of them.
    They wait for the events under way, which take milliseconds; not for one whose own work takes turns.
    """

    def __init__(self) -> None:
        self._next = asyncio.Lock()
        self._events: set[object] = set()
        self._calm: asyncio.Future[None] | None = None

    async def turn(self) -> None:
        """Wait until the next step may begin."""
        self._end(_EVENT.get())
        async with self._next:
            await asyncio.sleep(0)
            if self._events:
                self._calm = asyncio.get_running_loop().create_future()
                await asyncio.wait([self._calm], timeout=MAX_WAIT_SECONDS)

    @contextmanager
    def event(self) -> Iterator[None]:
        """Have the steps of others wait while the work on an event is under way here."""
        event = object()
        self._events.add(event)
        late = asyncio.get_running_loop().call_later(MAX_WAIT_SECONDS, self._end, event)
        outer = _EVENT.set(event)
        try:
            yield
        finally:
            _EVENT.reset(outer)
            late.cancel()
            self._end(event)

    def _end(self, event: object) -> None:
        self._events.discard(event)
        if not self._events and self._calm is not None and not self._calm.done():
            self._calm.set_result(None)
