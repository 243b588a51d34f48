"""Turns changes into entries of the outbox, each with its own id and trace (W3C Trace Context)."""

import asyncio
import logging
import secrets
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from skr_watcher.changes import ObjectChange
from skr_watcher.logs import LogRateLimit
from skr_watcher.metrics import Metrics
from skr_watcher.outbox import RESYNC, Entry, Outbox

if TYPE_CHECKING:
    from kyma_diagnostics.spans import ChangeTracer

log = logging.getLogger("skr_watcher.admission")

# A RESYNC has the control plane read everything, and any Pod of the cluster can cause one with requests of its own. So
# they become rarer while there are causes without a pause.
RESYNC_PAUSE_SECONDS = 2.0
MAX_RESYNC_PAUSE_SECONDS = 30.0
MAX_CHANGE_SIZE = 2048
# An API server waits up to 30 s for each webhook: a change that was allowed here may be stored that much later.
MAX_WRITE_SECONDS = 32.0


class Recorder:
    """Records changes in the outbox, and requests a RESYNC after changes that were not inspected."""

    def __init__(
        self, outbox: Outbox, resync: ObjectChange, metrics: Metrics, tracer: "ChangeTracer | None" = None
    ) -> None:
        self._tracer = tracer
        self._outbox = outbox
        self._resync = resync
        self._metrics = metrics
        self._log_rate_limit = LogRateLimit()
        self._missed = asyncio.Event()
        self._has_lost = False
        self._is_reached = False
        self._later: asyncio.TimerHandle | None = None
        self._sequence = 0

    def record(self, change: ObjectChange, observed_at: float) -> None:
        """Put a change into the outbox; one that is larger than any of a real API server leads to a RESYNC instead."""
        if change.size > MAX_CHANGE_SIZE:
            self.missed()
            return
        self._sequence += 1
        traceparent = self._trace_of(change, observed_at)
        trace_id = traceparent[3:35]
        if not self._outbox.put(Entry(change, self._sequence, observed_at, trace_id, traceparent)):
            self._lost()
        if change.operation == RESYNC:
            self._metrics.resynced()
        if log.isEnabledFor(change.log_level) and self._log_rate_limit.grants():
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
                    "unlogged_before": self._log_rate_limit.denied_before,
                },
            )

    def _trace_of(self, change: ObjectChange, observed_at: float) -> str:
        """Return the trace that a change begins, measured from its admission where somebody made it."""
        if self._tracer is not None and change.names_object:
            started = datetime.fromtimestamp(observed_at, UTC)
            with self._tracer.segment("admission", "", started=started, attributes=change.facts):
                return self._tracer.traceparent()
        trace_id = secrets.token_hex(16)
        return f"00-{trace_id}-{trace_id[:16]}-00"  # not sampled here

    def resync(self) -> None:
        """Have the control plane reconcile everything."""
        self._missed.clear()
        self.record(self._resync, time.time())

    def reached(self) -> None:
        """Note a request of the API server. Changes made before the first one may not have come here."""
        if not self._is_reached:
            self._is_reached = True
            self._missed.set()

    def missed(self) -> None:
        """Note that a change was allowed without inspection; a RESYNC for all such changes follows soon."""
        self._metrics.missed()
        self._lost()

    def _lost(self) -> None:
        self._has_lost = True
        self._missed.set()

    async def send_resyncs(self) -> None:
        """Send a RESYNC 2 s after changes were missed or may have been, and later, up to 30 s, while that goes on.

        A second one follows when the last of the changes is certainly stored: a RESYNC can arrive before the write, as
        any event can, and it names no object for which the control plane could wait. Runs until cancelled.
        """
        loop, pause = asyncio.get_running_loop(), RESYNC_PAUSE_SECONDS
        while True:
            sent_at = loop.time()
            await self._missed.wait()
            if loop.time() - sent_at >= MAX_RESYNC_PAUSE_SECONDS:
                pause = RESYNC_PAUSE_SECONDS
            await asyncio.sleep(pause)
            pause = min(2 * pause, MAX_RESYNC_PAUSE_SECONDS)
            self.resync()
            self._resync_later()
            if self._has_lost:
                log.warning("changes were allowed without inspection; sent a RESYNC")
            else:
                log.info("the API server has sent its first request; sent a RESYNC for changes before it")
            self._has_lost = False

    def send_resync_now(self) -> None:
        """Send an outstanding RESYNC at once, before the stop."""
        if self._missed.is_set() or self._later is not None:
            self.resync()

    def _resync_later(self) -> None:
        if self._later is not None:
            self._later.cancel()
        self._later = asyncio.get_running_loop().call_later(MAX_WRITE_SECONDS, self._resync_second_time)

    def _resync_second_time(self) -> None:
        self._later = None
        self.resync()
