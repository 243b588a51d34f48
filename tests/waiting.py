"""Waits of tests: for a condition with a deadline, never for a guessed length of time."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, overload

from kube_runtime import NotFound, NotServed

T = TypeVar("T")


@overload
async def eventually(
    condition: Callable[[], Awaitable[T | None]], *, within: float = ..., what: str = ..., every: float = ...
) -> T: ...
@overload
async def eventually(
    condition: Callable[[], T | None], *, within: float = ..., what: str = ..., every: float = ...
) -> T: ...
async def eventually(condition: Callable[[], Any], *, within: float = 60.0, what: str = "", every: float = 0.02) -> Any:
    """Return the condition's first truthy value. Raises AssertionError, with the last value, at the deadline.

    What takes long is asked less often, a server down to every 0.25 s: asking it 50 times a second costs it more than
    it does otherwise.
    """
    began = time.monotonic()
    deadline = began + within
    while True:
        outcome = condition()
        is_asked = inspect.isawaitable(outcome)
        value = await outcome if is_asked else outcome
        if value:
            return value
        if time.monotonic() > deadline:
            subject = what or getattr(condition, "__name__", "the condition")
            raise AssertionError(f"{subject} did not come true within {within} s; last value: {value!r}")
        longest, share = (0.25, 5) if is_asked else (0.1, 10)
        await asyncio.sleep(max(every, min(longest, (time.monotonic() - began) / share)))


async def consistently(
    condition: Callable[[], Awaitable[bool]], *, lasting: float = 2.0, what: str = "", every: float = 0.2
) -> None:
    """Check that a condition holds all the time. Raises AssertionError as soon as it does not."""
    end = time.monotonic() + lasting
    while time.monotonic() < end:
        assert await condition(), f"no longer: {what or condition}"
        await asyncio.sleep(every)


async def is_gone(read: Awaitable[Any]) -> bool:
    try:
        await read
    except (NotFound, NotServed):
        return True
    return False
