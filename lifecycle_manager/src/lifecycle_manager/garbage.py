"""Keeps the search for cyclic garbage from stopping the event loop for long.

A process that looks after thousands of clusters has millions of objects that stay: connections, queues, caches. A full
collection looks at all of them, and nothing else goes on meanwhile. So what survived one that took long is set aside
and not looked at again. It is still freed when nobody refers to it any more; only a cycle among what was set aside
would stay, and each object is set aside once.
"""

import gc
import time
from collections.abc import Callable
from typing import Literal

LONG_SECONDS = 0.01
YOUNG_OBJECTS = 2_000
"""So many new objects before the youngest are looked at: decoding one long list makes more than CPython's 700."""

OLDER_AFTER = 2
"""So many collections of the younger before one of the older. A full one finds what came since the last that took long,
so this bounds it: some 20,000 objects are looked at in 20 ms, while CPython's 10 would leave it ten times as many.
"""


def collect_less(long_seconds: float = LONG_SECONDS) -> Callable[[], None]:
    """Set aside what survives collections that take more CPU time than this. Returns what undoes it."""
    thresholds = gc.get_threshold()
    began = 0.0

    def watch(phase: Literal["start", "stop"], collection: dict[str, int]) -> None:
        nonlocal began
        if phase == "start":
            began = time.thread_time()
        elif collection["generation"] == 2 and time.thread_time() - began > long_seconds:
            gc.freeze()

    def undo() -> None:
        gc.callbacks.remove(watch)
        gc.set_threshold(*thresholds)
        gc.unfreeze()

    gc.callbacks.append(watch)
    gc.set_threshold(YOUNG_OBJECTS, OLDER_AFTER, OLDER_AFTER)
    return undo
