"""How a reconcile of a SyncResource ends: its status, and when it is reconciled again. Pure functions."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

from msgspec.structs import replace

from kube_runtime import ApplyResult, InventoryEntry, Readiness
from lifecycle_manager.object_set.inventory import Identity
from lifecycle_manager.object_set.repairs import seen_in
from lifecycle_manager.object_set.steps import NothingApplied, RemoveFinalizer, SetBraked, SetDone, SetFailed
from lifecycle_manager.skr import failure_of
from lifecycle_manager.sync_resource import status as statuses
from lifecycle_manager.sync_resource.snapshot import SyncResourceSnapshot
from lifecycle_manager.sync_resource.status import Refusal
from lifecycle_manager_api import State, SyncResourceStatus
from lifecycle_manager_api.policy_checks import Violation

READINESS_SECONDS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncResourceDone(SetDone):
    """Write the status. `lost` are objects that belong to another SyncResource."""

    status: SyncResourceStatus
    lost: frozenset[InventoryEntry] = frozenset()


@dataclass(frozen=True, slots=True)
class Unchanged:
    """The objects and the status stay as they are; `again` is when to reconcile, by default at the interval."""

    again: float | None = None


@dataclass(frozen=True, slots=True)
class ObjectsApplied:
    """The objects are applied, or some were refused. `held` says why some stay that are no longer wanted.

    `workloads` are those that are not ready, with what their Pods say; `found` is what existed before.
    """

    result: ApplyResult
    held: tuple[Violation, ...]
    workloads: Mapping[InventoryEntry, Readiness]
    found: frozenset[Identity] = frozenset()


@dataclass(frozen=True, slots=True)
class ObjectsDeleting:
    """The objects are being deleted, but for those that are held: the module may not delete these."""

    result: ApplyResult
    held: tuple[InventoryEntry, ...]


@dataclass(frozen=True, slots=True)
class ObjectsKept:
    """All that is left may not be deleted by the module."""

    entries: tuple[InventoryEntry, ...]
    violations: tuple[Violation, ...]


SyncResourceEnd = SyncResourceDone | RemoveFinalizer | NothingApplied
SyncResourceOutcome = SetFailed | SetBraked | Unchanged | Refusal | ObjectsApplied | ObjectsDeleting | ObjectsKept


def ended(seen: SyncResourceSnapshot, outcome: SyncResourceOutcome) -> SyncResourceDone:
    now, interval = seen.now, seen.interval_seconds
    resource = replace(seen.resource, status=replace(seen.resource.status, emptied_at=seen.emptied_at))
    match outcome:
        case SetFailed(error):
            return SyncResourceDone(status=statuses.unreachable(resource, failure_of(error), now), error=error)
        case SetBraked(hold):
            return SyncResourceDone(status=statuses.braked(resource, hold, now), requeue_after=hold.seconds)
        case Unchanged(again):
            return SyncResourceDone(status=resource.status, requeue_after=interval if again is None else again)
        case Refusal(lost=lost):
            return SyncResourceDone(status=statuses.refused(resource, outcome, now), requeue_after=interval, lost=lost)
        case ObjectsApplied(result, held, workloads, found):
            status = statuses.applied(resource, result, now, held, workloads, found=found)
            is_settled = status.state is State.READY or held or result.held
            return SyncResourceDone(
                status=status,
                requeue_after=interval if is_settled else READINESS_SECONDS,
                applied=result,
                shown=seen_in(result.outcomes),
                error=result.first_failure,
            )
        case ObjectsDeleting(result, left):
            status = statuses.deleting(resource, result, now, left)
            return SyncResourceDone(status=status, requeue_after=interval if result.held else READINESS_SECONDS)
        case ObjectsKept(entries, violations):
            status = statuses.holding(resource, entries, violations, now)
            return SyncResourceDone(status=status, requeue_after=interval)
        case _:
            assert_never(outcome)
