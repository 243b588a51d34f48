"""How a reconcile of a Manifest ends: its status, and when it is reconciled again. Pure functions."""

import math
from collections.abc import Collection
from datetime import timedelta

from kube_runtime import ApplyResult, InventoryEntry, once_each
from kube_runtime.apply.results import is_there
from kyma_oci import SourceError
from lifecycle_manager.contract.signals import ObjectReference
from lifecycle_manager.module_installation import status as statuses
from lifecycle_manager.module_installation.module_cr import refused_cr
from lifecycle_manager.module_installation.snapshot import ManifestSnapshot, is_being_deleted
from lifecycle_manager.module_installation.status import Seen
from lifecycle_manager.module_installation.steps import ManifestDone
from lifecycle_manager.module_sources import SourceAwaited
from lifecycle_manager.object_set.inventory import failure_message, listed
from lifecycle_manager.object_set.repairs import as_seen, seen_in
from lifecycle_manager.skr import ObservedObject, failure_of
from lifecycle_manager.skr.brake import Hold
from lifecycle_manager_api import ManifestStatus, State

FIRST_BUSY_SECONDS = 0.1
"""How soon a Manifest is reconciled again whose state has just changed: its Deployment often runs by then."""
MAX_BUSY_SECONDS = 30.0
ORPHANED_AFTER = timedelta(minutes=5)
"""How old a Manifest is that no Kyma names: a Kyma names it moments after its creation."""


def failed(seen: ManifestSnapshot, error: Exception) -> ManifestDone:
    """Return the end of a reconcile that failed. What was known at its beginning stays known."""
    known = sorted({*seen.before, *seen.inventory})
    status = statuses.unreachable(seen.resource, failure_of(error), seen.now, known)
    return ManifestDone(status=status, error=error)


def refused(
    seen: ManifestSnapshot, reason: str, message: str, *, again: float | None = None, is_awaited: bool = False
) -> ManifestDone:
    """Return the end where the objects can't be read, or may not be applied. `is_awaited`: they are being fetched."""
    status = statuses.refused(seen.resource, seen.inventory, reason, message, seen.now, awaited=is_awaited)
    return ManifestDone(status=status, requeue_after=again)


def without_source(seen: ManifestSnapshot, error: SourceError) -> ManifestDone:
    """Return the end where the source of a module has no objects."""
    is_awaited = isinstance(error, SourceAwaited)
    return refused(seen, error.reason, str(error), again=error.again_after_seconds, is_awaited=is_awaited)


def released(seen: ManifestSnapshot) -> ManifestDone:
    """Return the end where the objects belong to the users from now on."""
    return ManifestDone(status=statuses.unmanaged(seen.resource, seen.inventory, seen.now))


def braked(seen: ManifestSnapshot, hold: Hold) -> ManifestDone:
    """Return the end of a removal that is held."""
    message = f"waits for {hold.waits_for}"
    status = statuses.deleting(seen.resource, seen.inventory, message, seen.now, hold.reason)
    return ManifestDone(status=status, requeue_after=hold.seconds)


def held_by_others(seen: ManifestSnapshot) -> ManifestDone:
    """Return the end of a removal that waits for finalizers of others alone."""
    finalizers = ", ".join(seen.resource.metadata.finalizers)
    message = f"waiting as other finalizers are present: {finalizers}"  # upstream's words
    return ManifestDone(status=statuses.deleting(seen.resource, (), message, seen.now))


def installed(seen: ManifestSnapshot) -> ManifestDone:
    """Return the end where the objects are applied, or some were refused: what was found out says whether it runs."""
    manifest, applied, managers = seen.resource, seen.applied, seen.managers or ()
    held = {each.entry: each.contents for each in (applied.held if applied is not None else ())}
    view = Seen(
        applied.inventory if applied is not None else seen.inventory,
        failures=tuple(map(failure_message, applied.failed)) if applied is not None else (),
        terminating=terminating(applied, held) if applied is not None else (),
        held=tuple(f"{entry.kind} {entry.name} has {listed(found)}" for entry, found in held.items()),
        found=seen.found,
        managers=managers,
        module_cr=seen.module_cr,
        refused_cr=refused_cr(seen.resource),
        has_new_kind=seen.has_new_kind,
        warnings=_warnings(seen),
    )
    status = statuses.installed(manifest, view, seen.checks, seen.now)
    check_all = any(each.readiness is None for each in managers)
    return ManifestDone(
        status=status,
        requeue_after=_pause(seen, status),
        error=applied.first_failure if applied is not None else None,
        applied=applied,
        shown=_shown(seen),
        check_all=check_all,
    )


def _warnings(seen: ManifestSnapshot) -> tuple[str, ...]:
    """Return what the text of the module says twice."""
    rendering = seen.rendering
    return () if rendering is None else (*rendering.warnings, *once_each(rendering.objects, seen.namespace_of).warnings)


def _shown(seen: ManifestSnapshot) -> dict[ObjectReference, ObservedObject]:
    """Return the objects that this reconcile has read, as they are now."""
    found, view = seen_in(seen.applied.outcomes) if seen.applied is not None else {}, seen.module_cr
    if view is not None and view.live:
        wanted = view.wanted
        found[ObjectReference(wanted.group, wanted.kind, wanted.namespace, wanted.name)] = as_seen(view.live)
    return found


def waiting(seen: ManifestSnapshot, waits_for: str, *, needs_users: bool = False) -> ManifestDone:
    """Return the end of a removal that waits; with `needs_users` until these act."""
    applied = seen.applied
    failures = tuple(map(failure_message, applied.failed)) if applied is not None else ()
    status = statuses.deleting(
        seen.resource,
        seen.inventory,
        waits_for,
        seen.now,
        needs_users=needs_users,
        problem=statuses.not_applied(failures, seen.source_error),
    )
    error = applied.first_failure if applied is not None else None
    return ManifestDone(status=status, requeue_after=_pause(seen, status), error=error, applied=applied)


def terminating(applied: ApplyResult, held: Collection[InventoryEntry] = ()) -> tuple[str, ...]:
    """Name the objects that left the module and are still in the SKR, and those that somebody deletes."""
    return tuple(
        f"{each.entry.kind} {each.entry.name}"
        for each in applied.outcomes
        if each.error is None
        and each.entry not in held
        and (is_there(each) if each.index is None else each.live is not None and is_being_deleted(each.live))
    )


def orphaned_in(seen: ManifestSnapshot) -> float:
    """Return in how many seconds a Manifest that no Kyma names counts as orphaned."""
    created = seen.resource.metadata.creation_timestamp
    if seen.is_named or created is None:
        return math.inf
    return (created + ORPHANED_AFTER - seen.now).total_seconds()


def _pause(seen: ManifestSnapshot, status: ManifestStatus) -> float:
    """Return when to reconcile again: soon while something is in progress, less often the longer it takes."""
    options = seen.options
    if status.state is State.READY:
        left = seen.next_check - seen.seconds if seen.next_check is not None else options.interval_seconds
        return max(min(left, orphaned_in(seen)), options.busy_seconds)
    last = status.last_operation
    since = last.last_update_time if last is not None else None
    age = (seen.now - since).total_seconds() if since is not None else 0.0
    soon = max(FIRST_BUSY_SECONDS, age / 3)
    if soon < options.busy_seconds and status.state in {State.PROCESSING, State.DELETING}:
        return soon
    return min(max(options.busy_seconds, age / 4), max(MAX_BUSY_SECONDS, options.busy_seconds))
