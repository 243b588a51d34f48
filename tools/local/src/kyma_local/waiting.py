"""Waits for a condition by polling."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def eventually(check: Callable[[], Awaitable[T | None]], *, every: float = 0.02) -> T:
    """Return the first truthy value of the check; the caller sets the deadline."""
    while True:
        if value := await check():
            return value
        await asyncio.sleep(every)
