"""Parsing and writing of texts outside the event loop.

A text of some hundred KiB takes so long to parse that leases would not be renewed, and requests not answered meanwhile.
Threads still share the interpreter with the event loop, so few run at once. They run Python for the most part, so they
give up the interpreter when the loop asks for it. Small texts are parsed in place: in 5 ms, whatever they hold.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

MAX_INLINE_BYTES = 4 * 1024
_THREADS = ThreadPoolExecutor(max_workers=2, thread_name_prefix="parser")


async def parse_aside(size: int, parse: Callable[..., T], *arguments: object) -> T:
    """Return what `parse` returns for its arguments. It runs in a thread if the `size` is above MAX_INLINE_BYTES."""
    if size <= MAX_INLINE_BYTES:
        return parse(*arguments)
    return await asyncio.get_running_loop().run_in_executor(_THREADS, parse, *arguments)
