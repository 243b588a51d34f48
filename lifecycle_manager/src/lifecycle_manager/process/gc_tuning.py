"""Keeps the search for cyclic garbage, and threads that compute, from stopping the event loop for long.

A full collection traverses every object of the process, and the caches of thousands of clusters have millions. So those
that are there at the start are frozen, and collections skip them. They are still freed once nothing refers to them.

A thread that makes a large text has the interpreter for as long as it may between two switches, and the event loop
waits for that each time it returns from the network. With CPython's 5 ms, ten returns took three times as long beside
such a thread as with 0.5 ms.
"""

import gc
import sys

SWITCH_SECONDS = 0.0005


async def tune_garbage_collection() -> None:
    """Do both for this process, once its caches hold everything."""
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.freeze()
