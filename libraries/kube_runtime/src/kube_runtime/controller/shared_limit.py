"""The limit on reconciles under way that all controllers of a process share.

Each reconcile under way adds to the iterations of the event loop, and the reconcile of an event passes through several.
Events pass the limit: they have workers of their own. Every other worker holds a place while it reconciles, and takes
the most urgent key of its queue only once it has one; a quarter of the places is for workers that take no resyncs.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager

from kube_runtime.controller.priority import Priority
from kube_runtime.metrics import ControllerMetrics

MAX_UNDER_WAY = 16
PLACE_SECONDS = 1.0
"""For how long a reconcile counts: whatever takes longer waits for its cluster, and such would else hold all places."""


class SharedLimit:
    """At most `most` reconciles at once; of the workers that wait, the one that has waited longest is next."""

    def __init__(self, most: int = MAX_UNDER_WAY) -> None:
        self._places = asyncio.Semaphore(most)
        self._with_resyncs = asyncio.Semaphore(most - most // 4)

    @asynccontextmanager
    async def place(self, least: Priority, metrics: ControllerMetrics) -> AsyncIterator[None]:
        """Hold a place of a worker that takes keys which are at least so urgent, once one is free."""
        limits = (self._with_resyncs, self._places) if least is Priority.RESYNC else (self._places,)
        with ExitStack() as held:
            metrics.waiting_workers += 1
            try:
                for each in limits:
                    await each.acquire()
                    held.callback(each.release)
            finally:
                metrics.waiting_workers -= 1
            late = asyncio.get_running_loop().call_later(PLACE_SECONDS, held.close)
            try:
                yield
            finally:
                late.cancel()
