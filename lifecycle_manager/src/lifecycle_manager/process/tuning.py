"""Keeps the search for cyclic garbage, and threads that compute, from stopping the event loop for long; frees buffers.

A full collection traverses every object of the process, and the caches of thousands of clusters have millions. So those
that are there at the start are frozen, and collections skip them. They are still freed once nothing refers to them.

A thread that makes a large text has the interpreter for as long as it may between two switches, and the event loop
waits for that each time it returns from the network. With CPython's 5 ms, ten returns took three times as long beside
such a thread as with 0.5 ms.

A TLS connection has about 300 kB of buffers. The C library keeps what it once gave to thousands of them, unless larger
blocks have a mapping each, which goes back to the system with its connection.
"""

import gc
import sys

from http_guard.memory import return_large_blocks

SWITCH_SECONDS = 0.0005
MAPPED_BYTES = 64 * 1024


async def tune_process() -> None:
    """Do all of it for this process, once its caches hold everything."""
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.freeze()
    return_large_blocks(MAPPED_BYTES)
