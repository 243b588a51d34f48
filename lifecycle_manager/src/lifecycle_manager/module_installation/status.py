"""How a reconcile of a Manifest ends: its status, and when it is reconciled again.

Pure functions, and the reasons of its conditions. `Resources` says whether the objects are in the cluster, `ModuleCR`
which default Module CR was created, `Installation` whether the module runs; `Ready` sums them up.
"""

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import msgspec

from kube_runtime import ApplyResult, InventoryEntry, once_each
from kube_runtime.apply.results import is_there
from kyma_oci import SourceError
from lifecycle_manager.contract.conditions import MODULE_CRS_IN_USE
from lifecycle_manager.contract.former import is_former
from lifecycle_manager.contract.signals import ObjectReference
from lifecycle_manager.contract.verdict import OBJECTS_IN_USE
from lifecycle_manager.module_installation.module_cr import CrView, DefaultCr, refused_cr
from lifecycle_manager.module_installation.reading import ManagerView
from lifecycle_manager.module_installation.snapshot import MODULE_CR, RESOURCES, ManifestSnapshot, is_being_deleted
from lifecycle_manager.module_installation.state_checks import PRECEDENCE, state_of
from lifecycle_manager.module_installation.steps import ManifestDone
from lifecycle_manager.module_sources.store import SourceAwaited
from lifecycle_manager.object_set.inventory import (
    Identity,
    among,
    failure_message,
    found_message,
    held_message,
    inventory_of,
    references_to,
)
from lifecycle_manager.object_set.repairs import as_seen, seen_in
from lifecycle_manager.object_set.reporting import READY, with_conditions
from lifecycle_manager.skr.announcement import ObservedObject
from lifecycle_manager.skr.brake import Hold
from lifecycle_manager.skr.failure import SkrFailure, failure_of
from lifecycle_manager_api import ConditionStatus, CustomStateCheck, Manifest, ManifestStatus, ReadyVersion, State, find
from lifecycle_manager_api.conditions import NewCondition

INSTALLATION = "Installation"

APPLIED = "Applied"
APPLY_FAILED = "ApplyFailed"
DELETING = "Deleting"
KYMA_UNNAMED = "KymaUnnamed"
MANAGER_FAILED = "ManagerFailed"
MANAGER_MISSING = "ManagerMissing"
MANAGER_NOT_READY = "ManagerNotReady"
MODULE_CR_CREATED = "Created"
MODULE_CR_NOT_CREATED = "Refused"
MODULE_CR_REFUSED = "ModuleCRRefused"
MODULE_READY = "ModuleReady"
OBJECTS_TERMINATING = "ObjectsTerminating"
ORPHANED = "Orphaned"
UNMANAGED = "ModuleUnmanaged"

FIRST_BUSY_SECONDS = 0.1
"""How soon a Manifest is reconciled again whose state has just changed: its Deployment often runs by then."""
MAX_BUSY_SECONDS = 30.0
ORPHANED_AFTER = timedelta(minutes=5)
"""How old a Manifest is that no Kyma names: a Kyma names it moments after its creation."""


def was_created(manifest: Manifest, wanted: DefaultCr) -> bool:
    """Tell whether a default Module CR was created before: if it does not exist, its user has deleted it.

    The message says which one it was, except that of a former version.
    """
    created = find(manifest.status.conditions, MODULE_CR)
    if created is None or created.status != "True":
        return False
    return created.message == str(wanted) or is_former(created)


def begun(
    manifest: Manifest, inventory: Collection[InventoryEntry], found: Collection[Identity] = frozenset()
) -> ManifestStatus:
    """Return the status that records what is about to be applied, and what of it was found; its conditions stay."""
    state = manifest.status.state if manifest.status.state is not State.EMPTY else State.PROCESSING
    return msgspec.structs.replace(
        manifest.status,
        state=state,
        synced=references_to(inventory),
        found=references_to(among(inventory, found)),
    )


def refused(
    seen: ManifestSnapshot, reason: str, message: str, *, again: float | None = None, is_awaited: bool = False
) -> ManifestDone:
    """Return the end where the objects can't be read, or may not be applied. `is_awaited`: they are being fetched."""
    known: ConditionStatus = "Unknown" if is_awaited else "False"
    state = State.PROCESSING if is_awaited else State.ERROR
    status = _status(seen, state, [(RESOURCES, known, reason, message), _not_ready(reason, message)])
    return ManifestDone(status=status, requeue_after=again)


def without_source(seen: ManifestSnapshot, error: SourceError) -> ManifestDone:
    """Return the end where the source of a module has no objects."""
    is_awaited = isinstance(error, SourceAwaited)
    return refused(seen, error.reason, str(error), again=error.again_after_seconds, is_awaited=is_awaited)


def failed(seen: ManifestSnapshot, error: Exception) -> ManifestDone:
    """Return the end of a reconcile that failed. What was known at its beginning stays known."""
    known = sorted({*seen.before, *seen.inventory})
    return ManifestDone(status=unreachable(seen.resource, failure_of(error), seen.now, known), error=error)


def unreachable(
    manifest: Manifest, failure: SkrFailure, now: datetime, inventory: Iterable[InventoryEntry] | None = None
) -> ManifestStatus:
    """Return the status of a Manifest whose cluster can't be reached. The inventory stays."""
    why = (failure.reason, failure.message)
    state = State.DELETING if manifest.metadata.being_deleted else State.ERROR
    known = inventory_of(manifest) if inventory is None else inventory
    return _status_of(manifest, now, state, known, [(RESOURCES, "Unknown", *why), _not_ready(*why)])


def released(seen: ManifestSnapshot) -> ManifestDone:
    """Return the end where the objects belong to the users from now on. The inventory stays."""
    message = "the users manage the objects of the module"
    return ManifestDone(status=_status(seen, State.UNMANAGED, [(READY, "Unknown", UNMANAGED, message)]))


def braked(seen: ManifestSnapshot, hold: Hold) -> ManifestDone:
    """Return the end of a removal that is held."""
    status = _deleting(seen, f"waits for {hold.waits_for}", hold.reason)
    return ManifestDone(status=status, requeue_after=hold.seconds)


def held_by_others(seen: ManifestSnapshot) -> ManifestDone:
    """Return the end of a removal that waits for finalizers of others alone."""
    finalizers = ", ".join(seen.resource.metadata.finalizers)
    message = f"waiting as other finalizers are present: {finalizers}"  # upstream's words
    return ManifestDone(status=_deleting(replace(seen, inventory=()), message))


def waiting(seen: ManifestSnapshot, waits_for: str, *, needs_users: bool = False) -> ManifestDone:
    """Return the end of a removal that waits; with `needs_users` until these act.

    A condition says why the version that it would have meanwhile is not applied.
    """
    applied, problem = seen.applied, list[NewCondition]()
    if applied is not None and applied.failed:
        problem = [(RESOURCES, "False", APPLY_FAILED, "; ".join(map(failure_message, applied.failed)))]
    elif seen.source_error is not None:
        problem = [(RESOURCES, "False", seen.source_error.reason, str(seen.source_error))]
    status = _deleting(seen, waits_for, MODULE_CRS_IN_USE if needs_users else DELETING, problem)
    error = applied.first_failure if applied is not None else None
    return ManifestDone(status=status, requeue_after=_pause(seen, status), error=error, applied=applied)


def _deleting(
    seen: ManifestSnapshot, waits_for: str, reason: str = DELETING, problem: Sequence[NewCondition] = ()
) -> ManifestStatus:
    """Return the status of a Manifest whose module is being removed."""
    conditions = [*problem, (INSTALLATION, "False", reason, waits_for), _not_ready(reason, waits_for)]
    return _status(seen, State.DELETING, conditions)


def installed(seen: ManifestSnapshot) -> ManifestDone:
    """Return the end where the objects are applied, or some were refused: what was found out says whether it runs."""
    status, applied = _installed(seen), seen.applied
    return ManifestDone(
        status=status,
        requeue_after=_pause(seen, status),
        error=applied.first_failure if applied is not None else None,
        applied=applied,
        shown=_shown(seen),
        check_all=any(each.readiness is None for each in seen.managers or ()),
    )


def _installed(seen: ManifestSnapshot) -> ManifestStatus:
    resources = _resources(seen)
    _, status, reason, message = resources
    conditions = [resources, *_created(seen)]
    if reason == APPLY_FAILED:
        return _status(seen, State.ERROR, [*conditions, _not_ready(reason, message)])
    verdicts = [*map(_manager, seen.managers or ()), *_module_cr(seen.module_cr, seen.checks)]
    if problem := refused_cr(seen.resource):
        verdicts.append((State.ERROR, MODULE_CR_REFUSED, problem))
    worst = min(verdicts, key=lambda verdict: PRECEDENCE.index(verdict[0]), default=(State.READY, "", ""))
    if worst[0] is not State.READY:
        messages = "; ".join(message for state, _, message in verdicts if state is not State.READY)
        installation: NewCondition = (INSTALLATION, "False", worst[1], messages)
        return _status(seen, worst[0], [*conditions, installation, _not_ready(worst[1], messages)])
    runs = (MODULE_READY, "the module runs")
    conditions.append((INSTALLATION, "True", *runs))
    if status == "True":
        return _status(seen, State.READY, [*conditions, (READY, "True", *runs)])
    state = State.WARNING if reason == OBJECTS_IN_USE else State.PROCESSING
    return _status(seen, state, [*conditions, _not_ready(reason, message)])


def _resources(seen: ManifestSnapshot) -> NewCondition:
    if (applied := seen.applied) is not None:
        if applied.failed:
            return (RESOURCES, "False", APPLY_FAILED, "; ".join(map(failure_message, applied.failed)))
        if applied.held:
            staying = "; ".join(map(held_message, applied.held))
            return (RESOURCES, "False", OBJECTS_IN_USE, f"no longer a part of the module: {staying}")
        if leaving := terminating(applied):
            return (RESOURCES, "False", OBJECTS_TERMINATING, f"waiting for deletion of {', '.join(leaving)}")
    count, rendering = len(seen.inventory), seen.rendering
    there = "1 object is in the cluster" if count == 1 else f"{count} objects are there"
    twice: tuple[str, ...] = ()  # what the text of the module says twice
    if rendering is not None:
        twice = (*rendering.warnings, *once_each(rendering.objects, seen.namespace_of).warnings)
    message = f"{there}{found_message(seen.inventory, seen.found)}"
    return (RESOURCES, "True", APPLIED, "; ".join((message, *twice)))


def terminating(applied: ApplyResult) -> tuple[str, ...]:
    """Name the objects that left the module and are still in the SKR, and those that somebody deletes."""
    return tuple(
        f"{each.entry.kind} {each.entry.name}"
        for each in applied.outcomes
        if each.error is None
        and (is_there(each) if each.index is None else each.live is not None and is_being_deleted(each.live))
    )


def _manager(manager: ManagerView) -> tuple[State, str, str]:
    if manager.readiness is None:
        return State.ERROR, MANAGER_MISSING, f"{manager.name} does not exist"
    states = {"Current": State.READY, "Failed": State.ERROR}
    state = states.get(manager.readiness.state, State.PROCESSING)
    reason = MANAGER_FAILED if state is State.ERROR else MANAGER_NOT_READY
    return state, reason, f"{manager.name}: {manager.readiness.message}"


def _module_cr(view: CrView | None, checks: Sequence[CustomStateCheck]) -> list[tuple[State, str, str]]:
    if view is None:
        return []
    if view.refused:
        what = "read" if view.created else "created"
        return [(State.ERROR, MODULE_CR_REFUSED, f"{view.wanted} can't be {what}: {view.refused}")]
    if view.live is None:
        return []  # its user has deleted it
    state, message = state_of(view.live, checks)
    return [(state, f"ModuleCR{state}", f"{view.wanted} {message}")]


def _created(seen: ManifestSnapshot) -> list[NewCondition]:
    """Return which default Module CR was created; nothing where the condition stays as it is.

    One is to be created again where that of before went with its kind, not by its user.
    """
    view, known = seen.module_cr, find(seen.resource.status.conditions, MODULE_CR)
    if view is not None and not view.refused:
        return [(MODULE_CR, "True", MODULE_CR_CREATED, str(view.wanted))]
    if view is not None and not view.created:
        return [(MODULE_CR, "False", MODULE_CR_NOT_CREATED, view.refused)]
    if not seen.has_new_kind or known is None or known.status != "True":
        return []
    return [(MODULE_CR, "False", MODULE_CR_NOT_CREATED, "its kind is new in the cluster")]


def _not_ready(reason: str, message: str) -> NewCondition:
    return READY, "False", reason, message


def _status(seen: ManifestSnapshot, state: State, conditions: Sequence[NewCondition]) -> ManifestStatus:
    return _status_of(seen.resource, seen.now, state, seen.inventory, conditions)


def _status_of(
    manifest: Manifest,
    now: datetime,
    state: State,
    inventory: Iterable[InventoryEntry],
    conditions: Sequence[NewCondition],
) -> ManifestStatus:
    before, entries = manifest.status, tuple(inventory)
    same = set(inventory_of(manifest)) == set(entries)
    return with_conditions(
        before,
        manifest.metadata,
        now,
        conditions=conditions,
        state=state,
        synced=before.synced if same else references_to(entries),
        ready_version=ready_version(manifest, state, now),
    )


def ready_version(manifest: Manifest, state: State, now: datetime) -> ReadyVersion | None:
    """Return since when a module is Ready with its version, for the rollout that released one to its cluster.

    The condition Ready does not say that: it stays as it is where a module is Ready again before anybody has looked.
    """
    before, version = manifest.status, manifest.spec.version
    if state is not State.READY or before.release is None:
        return None
    known = before.ready_version
    return known if known is not None and known.version == version else ReadyVersion(version=version, since=now)


def _shown(seen: ManifestSnapshot) -> dict[ObjectReference, ObservedObject]:
    """Return the objects that this reconcile has read, as they are now."""
    found, view = seen_in(seen.applied.outcomes) if seen.applied is not None else {}, seen.module_cr
    if view is not None and view.live:
        wanted = view.wanted
        found[ObjectReference(wanted.group, wanted.kind, wanted.namespace, wanted.name)] = as_seen(view.live)
    return found


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
