"""What an event leads to: signals for the controllers of the Kyma whose SKR sent it.

An event is a hint. It names the object to read, and the read decides. Whatever an event contains is looked up among the
Kymas of the one runtime that its certificate names, so no SKR can reach the objects of another. Which controllers a
signal concerns is theirs to decide.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime

import msgspec
import structlog

from kube_runtime import Informer, Manager, ObjectKey, RateLimits
from lifecycle_manager.contract.indexes import BY_RUNTIME
from lifecycle_manager.contract.resources import KYMAS
from lifecycle_manager.contract.signals import (
    ObjectChanged,
    ObjectReference,
    ResyncReported,
    Trace,
    UnclaimedChange,
    WatcherEventReceived,
)
from lifecycle_manager.contract.watchers import manager_of
from lifecycle_manager.events.endpoint import UnknownRuntime, VerifiedEvent
from lifecycle_manager.process.telemetry import ChangeLatency
from lifecycle_manager.skr.revocation import revoked_before
from lifecycle_manager.skr.watcher import HEARTBEAT, RESYNC, is_answer, is_canary
from lifecycle_manager_api import Kyma, Watcher, WatchEvent, names

log = structlog.get_logger("events")

UNSAMPLED = "-00"
"""The end of a traceparent whose trace is not exported for its own sake."""


def managers_of(watchers: Iterable[Watcher]) -> set[str]:
    """Return the managers whose path takes events: LM's, and each that a Watcher CR names.

    Only LM accesses SKRs, so whatever manager an event is for, LM reads the object.
    """
    return {names.LIFECYCLE_MANAGER, *map(manager_of, watchers)}


class EventPublisher:
    """Publishes verified events as signals. `selects`: the Kymas that are managed here, by default all."""

    def __init__(
        self, manager: Manager, latency: ChangeLatency, *, selects: Callable[[Kyma], bool] | None = None
    ) -> None:
        self._manager = manager
        self._selects = selects
        self._kymas: Informer[Kyma] = manager.informer(KYMAS, indexes=[BY_RUNTIME])
        self._latency = latency
        self._traces = RateLimits[str](per_second=1.0, burst=20)
        self._times = RateLimits[str](per_second=20.0, burst=200)

    def kymas_of(self, verified: VerifiedEvent) -> Sequence[Kyma]:
        """Return the Kymas of the runtime that sent an event, usually one. Raises UnknownRuntime."""
        kymas = self._kymas.by_index(BY_RUNTIME, verified.runtime_id)
        if self._selects is not None:
            kymas = tuple(filter(self._selects, kymas))
        if not kymas:
            raise UnknownRuntime(verified.runtime_id)
        return kymas

    def revoked_before(self, runtime_id: str) -> datetime | None:
        """Return the time from which on certificates of a runtime must be valid, or None where none is revoked."""
        kymas = self._kymas.by_index(BY_RUNTIME, runtime_id)
        return max(filter(None, map(revoked_before, kymas)), default=None)

    def any_kyma(self, runtime_id: str, holds: Callable[[Kyma], bool]) -> bool:
        """Tell whether a predicate holds for a Kyma of a runtime."""
        return any(map(holds, self._kymas.by_index(BY_RUNTIME, runtime_id)))

    async def take_here(self, verified: VerifiedEvent) -> None:
        """Take an event for all Kymas of its runtime, where this is the only replica. Raises UnknownRuntime."""
        for kyma in self.kymas_of(verified):
            self.take(kyma.metadata.name, verified)

    def take(self, kyma_name: str, verified: VerifiedEvent) -> None:
        """Publish the signals of an event for a Kyma."""
        event = verified.event
        if self._kymas.get(ObjectKey(names.KCP_NAMESPACE, kyma_name)) is None:
            return  # deleted meanwhile
        if not verified.by_former_watcher:
            now = self._manager.clock.monotonic()
            answers = is_answer(event, kyma_name, now)
            self._manager.publish(WatcherEventReceived(kyma_name, answers, at=now))
        if is_canary(event) or event.operation == HEARTBEAT:
            return
        event = self._within_share(verified)
        with self._traced(kyma_name, verified, event):
            self._publish_change(kyma_name, event)
            self._latency.event_taken(event.observed_at)
        log.info(
            "event taken",
            kyma=kyma_name,
            operation=event.operation,
            watched=f"{event.watched_gvk.kind} {event.watched.namespace}/{event.watched.name}",
            event_id=event.id,
            traceparent=event.traceparent,
            observed_at=event.observed_at,
        )

    def _within_share(self, verified: VerifiedEvent) -> WatchEvent:
        """Return an event without what exceeds its runtime's share of the traces and histograms of the fleet."""
        event, now = verified.event, self._manager.clock.monotonic()
        is_sampled = bool(event.traceparent) and not event.traceparent.endswith(UNSAMPLED)
        if is_sampled and not self._traces.grants(verified.runtime_id, now):
            event = msgspec.structs.replace(event, traceparent=event.traceparent[:-2] + UNSAMPLED[1:])
        if event.observed_at and not self._times.grants(verified.runtime_id, now):
            event = msgspec.structs.replace(event, observed_at="")
        return event

    def _traced(self, kyma_name: str, verified: VerifiedEvent, event: WatchEvent) -> AbstractContextManager[None]:
        """Continue the trace of a change with what its verification took; a RESYNC is no change."""
        if event.operation == RESYNC or not event.watched.name:
            return nullcontext()
        return self._manager.traced(
            "verification",
            event.traceparent,
            started=verified.received_at,
            kyma=kyma_name,
            kind=event.watched_gvk.kind,
            namespace=event.watched.namespace,
            object_name=event.watched.name,
            operation=event.operation,
        )

    def _publish_change(self, kyma_name: str, event: WatchEvent) -> None:
        if event.operation == RESYNC or not event.watched.name:  # it names no object to read
            self._manager.publish(ResyncReported(kyma_name))
            return
        gvk, watched = event.watched_gvk, event.watched
        change = ObjectChanged(
            kyma_name,
            ObjectReference(gvk.group, gvk.kind, watched.namespace, watched.name),
            event.operation,
            uid=event.uid,
            resource_version=event.resource_version,
            trace=Trace(event.id, event.traceparent, event.observed_at),
        )
        enqueued = self._manager.publish(change)
        if not enqueued and (gvk.group, gvk.kind) != (names.GROUP, Kyma.KIND):
            self._manager.publish(UnclaimedChange(kyma_name))
