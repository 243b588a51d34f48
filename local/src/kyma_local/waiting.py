"""Waiting for what another process does, by looking again."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def eventually(check: Callable[[], Awaitable[T | None]], *, every: float = 0.02) -> T:
    """Return the check's first truthy value; the caller's own deadline ends the wait."""
    while True:
        if value := await check():
            return value
        await asyncio.sleep(every)
