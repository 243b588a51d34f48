"""Large bodies give their memory back as soon as they are answered.

The C library keeps what it was given back once, of any size up to 32 MiB, for later; here that would be bodies of
reviews, which are large only now and then. So it is told to take larger blocks from the system and to return them. What
is read from a connection at once stays below that: it would cost two system calls each time.
"""

import ctypes

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
LARGE = 512 * 1024


def return_large_blocks() -> None:
    """Have the C library return large blocks; one that knows no such option is left as it is."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    for option in (M_MMAP_THRESHOLD, M_TRIM_THRESHOLD):
        mallopt(option, LARGE)
