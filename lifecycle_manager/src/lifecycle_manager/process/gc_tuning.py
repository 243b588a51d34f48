"""Keeps the search for cyclic garbage, and threads that compute, from stopping the event loop for long.

A process that manages thousands of clusters has millions of objects that stay: connections, queues, caches. A full
collection traverses all of them and blocks the event loop meanwhile. So the survivors of a long collection are frozen:
later collections skip them. They are still freed once nothing refers to them; only a cycle among frozen objects stays.

A thread that makes a large text has the interpreter for as long as it may between two switches, and the event loop
waits for that each time it returns from the network. With CPython's 5 ms, ten returns took three times as long beside
such a thread as with 0.5 ms.
"""

import gc
import sys
import time
from collections.abc import Callable
from typing import Literal

LONG_SECONDS = 0.01
YOUNG_OBJECTS = 8_000
"""New objects before a collection of the youngest.

The canaries of hundreds of clusters allocate up to 5,000 objects at once, and release all of them. With 2,000, each
such burst led to a collection, which took 6 % of the CPU time.
"""

OLDER_AFTER = 0
"""Collections of a generation, above which the next older one is collected: 0 means after each.

Every third collection is a full one, of about 24,000 new objects in 20 ms. With CPython's default of 10 it would be
about every 120th, of a million objects.
"""

SWITCH_SECONDS = 0.0005


def tune_garbage_collection() -> Callable[[], None]:
    """Do both for this process. Returns a function that undoes it."""
    undo_collection, interval = collect_less(), sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_SECONDS)

    def undo() -> None:
        sys.setswitchinterval(interval)
        undo_collection()

    return undo


def collect_less(long_seconds: float = LONG_SECONDS) -> Callable[[], None]:
    """Freeze what survives collections that take more CPU time than this. Returns a function that undoes it."""
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
