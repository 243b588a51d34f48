"""Waiting on the event loop until something is so, with a deadline."""

import asyncio
from collections.abc import Callable


async def until(condition: Callable[[], object], *, within: float = 60.0, every: float = 0.002) -> None:
    """Return once the condition is true. Raises AssertionError at the deadline."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within
    while not condition():
        assert loop.time() < deadline, f"it did not come true within {within} s"
        await asyncio.sleep(every)
