"""Returns the memory of large buffers to the system as soon as they are freed.

By default the C library keeps freed blocks of up to 32 MiB for reuse. Here those would be bodies of requests, which are
large only sometimes, and buffers of TLS connections that are closed. So it is configured to allocate larger blocks from
the system and to return them.

It also keeps the garbage collector from visiting the objects of imported modules, which stay for good: a full
collection of them takes tens of milliseconds, in which nobody is answered.
"""

import ctypes
import gc
from collections.abc import Callable

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
MIN_TRIMMED_BYTES = 128 * 1024
"""The C library's own: with less it would give back, and ask for, the end of the heap all the time."""


def return_large_blocks(large_bytes: int) -> None:
    """Configure the C library to return blocks of this size; without effect if it lacks the option."""
    if mallopt := _of_c_library("mallopt"):
        mallopt(M_MMAP_THRESHOLD, large_bytes)
        mallopt(M_TRIM_THRESHOLD, max(large_bytes, MIN_TRIMMED_BYTES))


def keep_from_collector() -> None:
    """Exclude the objects that exist now from garbage collection, and return what the imports left behind."""
    gc.collect()
    gc.freeze()
    if trim := _of_c_library("malloc_trim"):
        trim(0)


def _of_c_library(name: str) -> Callable[..., int] | None:
    try:
        found: Callable[..., int] = getattr(ctypes.CDLL(None), name)
    except (OSError, AttributeError):
        return None
    return found
