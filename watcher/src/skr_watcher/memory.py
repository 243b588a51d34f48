"""Returns the memory of large request bodies to the system as soon as they are answered.

By default the C library keeps freed blocks of up to 32 MiB for reuse. Here those would be bodies of reviews, which are
large only sometimes. So it is configured to allocate larger blocks from the system and to return them. The size of one
read from a connection stays below that limit: above it, each read would cost two more system calls.

It also keeps the garbage collector from visiting the objects of imported modules, which stay for good: a full
collection of them takes tens of milliseconds, in which nobody is answered.
"""

import ctypes
import gc
from collections.abc import Callable

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
LARGE_BYTES = 512 * 1024


def return_large_blocks() -> None:
    """Configure the C library to return large blocks; without effect if it lacks the option."""
    if mallopt := _of_c_library("mallopt"):
        for option in (M_MMAP_THRESHOLD, M_TRIM_THRESHOLD):
            mallopt(option, LARGE_BYTES)


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
