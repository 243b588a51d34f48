"""The rules for the Watcher of one SKR: when it is installed, repaired, tested and removed, and what is reported.

Pure functions, one for each decision of `controller`. The webhook is installed only after an event of the Watcher has
arrived, so that no request of a user waits for a backend that does not run.

May delete: the objects of the Watcher (`documents.INVENTORY`) and those of the former version, once the Kyma is being
deleted and its modules are removed. After the first installation, those of the former version.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import NamedTuple

from kube_runtime import ApplyResult, End, InventoryEntry
from lifecycle_manager.contract.conditions import (
    CERTIFICATE_OVERDUE,
    EVENT_PATH_BROKEN,
    NO_WATCHER_EVENTS,
    WATCHER_READY,
    WATCHER_SILENT,
    ConditionContent,
    has_webhook,
    is_introduced,
    modules_removed,
)
from lifecycle_manager.skr.access import AccessSecretMissing
from lifecycle_manager.skr.failure import failed
from lifecycle_manager.skr_webhook.canary import EventPath
from lifecycle_manager.skr_webhook.documents import INVENTORY
from lifecycle_manager.skr_webhook.snapshot import Desired, WatcherSnapshot, records_of
from lifecycle_manager.skr_webhook.status import (
    NO_CERTIFICATE,
    REMOVAL_DONE,
    REMOVING,
    WATCHER_STARTING,
    is_of_former_version,
    reason_of,
)
from lifecycle_manager.skr_webhook.timers import FAULT_REPAIR_SECONDS, Timers
from lifecycle_manager_api import Kyma, names

UNKNOWN_KIND_SECONDS = 2.0
REMOVAL_SECONDS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WatcherDone(End):
    """What a reconcile reports: this condition unless it is None. `timers` are to be kept."""

    timers: Timers
    condition: ConditionContent | None = None


class WebhookComparison(NamedTuple):
    """How objects are applied, see `SkrObjects.apply`."""

    recheck: bool
    new: frozenset[InventoryEntry]


def is_managed(kyma: Kyma) -> bool:
    """Tell whether there is anything to do for a Kyma's Watcher now; where not, a change of the Kyma enqueues it.

    Events are needed until the last module is removed, so the Watcher of a deleted Kyma stays until then. That of a
    former version may be there although this one has never read the cluster.
    """
    if names.KYMA_FINALIZER not in kyma.metadata.finalizers:
        return False
    if kyma.metadata.being_deleted:
        return (is_introduced(kyma) or is_of_former_version(kyma)) and modules_removed(kyma)
    if not is_introduced(kyma):
        return False
    return not kyma.metadata.is_paused


def is_in_order(seen: WatcherSnapshot) -> bool:
    """Tell whether all was in order and only time has passed: then nothing is computed or compared for a canary."""
    return seen.timers.in_order and not seen.is_triggered and seen.now < seen.timers.repair_at and not is_silent(seen)


def comparison(seen: WatcherSnapshot, desired: Desired) -> WebhookComparison | None:
    """Return how the objects are applied; None where they were, and need not be compared now."""
    is_due = _is_repair_due(seen)
    if _is_applied(seen, desired) and not is_due:
        return None
    # The Watcher of a former version changes what the apply finds, so its objects are read first.
    is_new = not any(records_of(seen.kyma).values()) and not is_of_former_version(seen.kyma)
    return WebhookComparison(is_due or is_recorded(seen.kyma, desired), frozenset(INVENTORY if is_new else ()))


def after_apply(
    seen: WatcherSnapshot, desired: Desired, comparison: WebhookComparison, applied: ApplyResult, *, again: float
) -> Timers:
    """Return the timers once the objects were applied; they are compared again after `again` seconds."""
    timers, recorded = seen.timers, is_recorded(seen.kyma, desired)
    if comparison.recheck or comparison.new:
        drifted = recorded and any(outcome.action != "unchanged" for outcome in applied.outcomes)
        timers = timers.repaired(seen.times, now=seen.now, again=again, drifted=drifted)
    return timers if recorded or desired.with_webhook else timers.restarted(seen.now)


def unheard(seen: WatcherSnapshot, desired: Desired) -> WatcherDone | None:
    """Return the end for a Watcher that sends no events; None where it does, so that its path can be tested."""
    if not desired.with_webhook:
        return _without_webhook(seen)
    return _silent(seen) if is_silent(seen) else None


def path_of(seen: WatcherSnapshot) -> EventPath:
    """Return what is known of the event path, be it by a former process."""
    if seen.timers.path is None and reason_of(seen.kyma) == EVENT_PATH_BROKEN:
        return EventPath.presumed_broken(seen.times.canary, now=seen.now)
    return seen.timers.path_or_untested(seen.times, seen.now)


def tested(seen: WatcherSnapshot, desired: Desired | None) -> WatcherDone:
    """Return the end for a Watcher that sends events, by what is known of its path.

    Without `desired` everything else is as it was reported.
    """
    path = path_of(seen)
    seen = replace(seen, timers=seen.timers.with_path(path))
    if broken_for := path.broken_for(seen.now):
        message = (
            f"no change in the cluster was reported for {broken_for:.0f} s: its API server does not reach the Watcher; "
            "changes are found at intervals"
        )
        seen = replace(seen, timers=seen.timers.repair_now())
        return _done(seen, ConditionContent("False", EVENT_PATH_BROKEN, message), path.check_after(seen.now))
    if desired is not None and desired.rules.unknown:
        message = f"waits for the cluster to serve the kinds: {', '.join(desired.rules.unknown)}"
        return _done(seen, ConditionContent("True", WATCHER_READY, message), UNKNOWN_KIND_SECONDS)
    return WatcherDone(
        timers=seen.timers.found(in_order=True),
        condition=_working(desired) if desired is not None else None,
        requeue_after=_check_after(seen, path),
    )


def removed(seen: WatcherSnapshot, remaining: Collection[InventoryEntry]) -> WatcherDone:
    """Return the end of a removal that waits for the `remaining` objects."""
    if not remaining:
        return _done(seen, REMOVAL_DONE)
    waits = ", ".join(f"{entry.kind} {entry.name}" for entry in remaining)
    return _done(seen, ConditionContent("False", REMOVING, f"waits for {waits}"), REMOVAL_SECONDS)


def failure(seen: WatcherSnapshot, error: Exception) -> WatcherDone:
    """Report why something failed; a Watcher without a certificate is retried at that reason's own pace."""
    if seen.kyma.metadata.being_deleted and isinstance(error, AccessSecretMissing):
        return WatcherDone(timers=seen.timers)
    if (known := NO_CERTIFICATE.get(type(error))) is not None:
        reason, retry_seconds = known
        return _done(seen, ConditionContent("False", reason, str(error)), retry_seconds)
    return WatcherDone(timers=seen.timers.found(in_order=False), condition=failed(error), error=error)


def _working(desired: Desired) -> ConditionContent:
    if desired.overdue_until is None:
        message = f"kinds of Module CR that are watched: {desired.rules.kinds}"
        return ConditionContent("True", WATCHER_READY, message)
    message = (
        f"the Watcher's certificate ends at {desired.overdue_until:%Y-%m-%d %H:%M} UTC, and was not renewed in time"
    )
    return ConditionContent("True", CERTIFICATE_OVERDUE, message)


def _check_after(seen: WatcherSnapshot, path: EventPath) -> float:
    """Return the seconds until the path is to be tested or reported, the objects compared, or the Watcher is silent."""
    silent_in = seen.times.silence - seen.timers.silent_for(seen.now) + 0.1
    return min(seen.times.interval, silent_in, seen.timers.repair_in(seen.now), path.check_after(seen.now) + 0.01)


def is_silent(seen: WatcherSnapshot) -> bool:
    """Tell whether no events arrive. What a former process found holds until an event arrives at this one."""
    found_before = not seen.timers.has_received and reason_of(seen.kyma) == WATCHER_SILENT
    return found_before or seen.timers.silent_for(seen.now) > seen.times.silence


def _without_webhook(seen: WatcherSnapshot) -> WatcherDone:
    """Wait for the first event of a Watcher, and report one that has not sent any in time."""
    left = seen.times.silence - seen.timers.silent_for(seen.now)
    if left > 0 and reason_of(seen.kyma) != NO_WATCHER_EVENTS:
        starting = ConditionContent("False", WATCHER_STARTING, "the Watcher is installed and has not sent an event yet")
        return _done(seen, starting, min(left + 0.1, seen.timers.repair_in(seen.now)))
    message = "the Watcher is installed and has never sent an event; changes are found at intervals"
    return _fault(seen, NO_WATCHER_EVENTS, message)


def _silent(seen: WatcherSnapshot) -> WatcherDone:
    message = f"no events from the Watcher for {seen.timers.silent_for(seen.now):.0f} s; changes are found at intervals"
    # No canary can be answered now, so what is known of the path does not count.
    return _fault(replace(seen, timers=seen.timers.with_path(None)), WATCHER_SILENT, message)


def _fault(seen: WatcherSnapshot, reason: str, message: str) -> WatcherDone:
    seen = replace(seen, timers=seen.timers.repair_soon(seen.now))
    again = min(seen.times.interval, FAULT_REPAIR_SECONDS)
    return _done(seen, ConditionContent("False", reason, message), again)


def _done(seen: WatcherSnapshot, condition: ConditionContent, requeue_after: float | None = None) -> WatcherDone:
    return WatcherDone(timers=seen.timers.found(in_order=False), condition=condition, requeue_after=requeue_after)


def _is_repair_due(seen: WatcherSnapshot) -> bool:
    """Tell whether it is time to compare the objects in the SKR, or their state may be why events stopped."""
    fell_silent = is_silent(seen) and reason_of(seen.kyma) not in {
        WATCHER_SILENT,
        WATCHER_STARTING,
        NO_WATCHER_EVENTS,
    }
    return fell_silent or seen.now >= seen.timers.repair_at


def _is_applied(seen: WatcherSnapshot, desired: Desired) -> bool:
    """Tell whether these objects were applied, and the reconcile that did so ended without an error."""
    ended_well = has_webhook(seen.kyma) or reason_of(seen.kyma) in {WATCHER_STARTING, NO_WATCHER_EVENTS}
    return ended_well and is_recorded(seen.kyma, desired)


def is_recorded(kyma: Kyma, desired: Desired) -> bool:
    """Tell whether these objects were applied before: what differs now was changed by somebody else."""
    return desired.records == records_of(kyma)
