"""Returns the memory of large request bodies to the system as soon as they are answered.

By default the C library keeps freed blocks of up to 32 MiB for reuse. Here those would be bodies of reviews, which are
large only sometimes. So it is configured to allocate larger blocks from the system and to return them. The size of one
read from a connection stays below that limit: above it, each read would cost two more system calls.
"""

import ctypes

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
LARGE_BYTES = 512 * 1024


def return_large_blocks() -> None:
    """Configure the C library to return large blocks; without effect if it lacks the option."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    for option in (M_MMAP_THRESHOLD, M_TRIM_THRESHOLD):
        mallopt(option, LARGE_BYTES)
