"""Turns changes into entries of the outbox, each with an id and a trace of its own (W3C Trace Context)."""

import asyncio
import logging
import secrets
import time

from skr_watcher.changes import ObjectChange
from skr_watcher.logs import Quota
from skr_watcher.metrics import Metrics
from skr_watcher.outbox import RESYNC, Entry, Outbox

log = logging.getLogger("skr_watcher.admission")

RESYNC_PAUSE_SECONDS = 2.0
MOST_LETTERS = 2048
# An API server gives each webhook up to 30 s: what was allowed without a look may be stored that much later.
SLOWEST_WRITE_SECONDS = 32.0


class Recorder:
    """Records what is to be told; where something was missed, that everything is to be looked at."""

    def __init__(self, outbox: Outbox, resync: ObjectChange, metrics: Metrics) -> None:
        self._outbox = outbox
        self._resync = resync
        self._metrics = metrics
        self._quota = Quota()
        self._missed = asyncio.Event()
        self._once_more: asyncio.TimerHandle | None = None
        self._sequence = 0

    def record(self, change: ObjectChange, observed_at: float) -> None:
        """Have a change told; one that takes more room than any of an API server's is made up for instead."""
        if change.letters > MOST_LETTERS:
            self.missed()
            return
        self._sequence += 1
        trace_id = secrets.token_hex(16)
        traceparent = f"00-{trace_id}-{trace_id[:16]}-01"
        overflows = self._outbox.overflows
        self._outbox.put(Entry(change, self._sequence, observed_at, trace_id, traceparent))
        if self._outbox.overflows != overflows:
            self._look_once_more()
        if change.operation == RESYNC or self._outbox.overflows != overflows:
            self._metrics.resynced()
        if log.isEnabledFor(change.log_level) and self._quota.grants(observed_at):
            log.log(
                change.log_level,
                "change admitted",
                extra={
                    "event_id": trace_id,
                    "traceparent": traceparent,
                    "observed_at": observed_at,
                    "kind": change.kind,
                    "namespace": change.namespace,
                    "object_name": change.name,
                    "operation": change.operation,
                    "unlogged_before": self._quota.denied_before,
                },
            )

    def resync(self) -> None:
        """Have the control plane look at everything."""
        self._missed.clear()
        self.record(self._resync, time.time())

    def missed(self) -> None:
        """Note that a change was allowed and not looked at; soon a RESYNC makes up for all such."""
        self._metrics.missed()
        self._missed.set()

    async def make_up(self) -> None:
        """Have everything looked at after changes were missed, once for all of a few seconds. Runs until cancelled.

        And once more when the last of them is stored for sure: a RESYNC can overtake a write as any event can, and it
        does not say which object to look at until it has changed.
        """
        while True:
            await self._missed.wait()
            await asyncio.sleep(RESYNC_PAUSE_SECONDS)
            self.resync()
            self._look_once_more()
            log.warning("changes were admitted without a look; asked for a resync")

    def make_up_now(self) -> None:
        """Do so at once where something was missed: nothing comes after."""
        if self._missed.is_set() or self._once_more is not None:
            self.resync()

    def _look_once_more(self) -> None:
        if self._once_more is not None:
            self._once_more.cancel()
        self._once_more = asyncio.get_running_loop().call_later(SLOWEST_WRITE_SECONDS, self._resync_once_more)

    def _resync_once_more(self) -> None:
        self._once_more = None
        self.resync()
