"""The status of a SyncResource. Pure functions, and the reasons of its conditions.

The intent of a SyncResource, the objects about to be applied, is recorded before the first request to the SKR. So an
object is known even if this process dies right after creating it. It is recorded in the status alone, which nobody but
the Lifecycle Manager may write: what is recorded may be deleted.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType

import msgspec

from kube_runtime import ApplyResult, InventoryEntry, ObjectOutcome, Readiness, readiness, stored_size
from lifecycle_manager.contract.conditions import APPLIED, VALID
from lifecycle_manager.contract.verdict import (
    APPLY_FAILED,
    OBJECTS_IN_USE,
    OBJECTS_NOT_READY,
    POLICY_VIOLATION,
)
from lifecycle_manager.object_set.inventory import (
    Identity,
    among,
    entries_of,
    failure_message,
    found_message,
    held_message,
    identities,
    inventory_of,
    pending_object,
    references_to,
    synced_object,
    without,
)
from lifecycle_manager.object_set.reporting import READY, with_conditions
from lifecycle_manager.object_set.rules import message_of
from lifecycle_manager.skr.brake import Hold
from lifecycle_manager.skr.failure import SkrFailure
from lifecycle_manager_api import State, SyncedObject, SyncResource, SyncResourceStatus, aggregate, find
from lifecycle_manager_api.conditions import NewCondition, counted, listed, shortened
from lifecycle_manager_api.policy_checks import Violation

TEXT_VALID = "Valid"
OBJECTS_APPLIED = "Applied"
OBJECTS_READY = "ObjectsReady"
DELETING = "Deleting"
KYMA_DELETING = "KymaDeleting"
KYMA_NOT_FOUND = "KymaNotFound"
WRONG_NAMESPACE = "WrongNamespace"
MODULE_NOT_ENABLED = "ModuleNotEnabled"
NOT_PROTECTED = "ModulesNotProtected"
TOO_MANY_SYNC_RESOURCES = "TooManySyncResources"
NO_WORKLOADS: Mapping[InventoryEntry, Readiness] = MappingProxyType({})
MAX_STATUS_BYTES, MAX_OBJECT_BYTES = 768 * 1024, 1472 * 1024
"""Maximum of a status, and of it and the text. etcd stores objects of up to 1.5 MiB; the metadata need room, too."""
MAX_OBJECT_MESSAGE = 1_000
"""Characters of the message of one object."""


class TooManyObjects(Exception):
    """An intent does not fit into a status; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a SyncResource is not applied: reason and message of its `Valid` condition.

    `lost` are objects that its status claims and that belong to another SyncResource.
    """

    reason: str
    message: str
    lost: frozenset[InventoryEntry] = frozenset()


def begun(
    resource: SyncResource, intended: Collection[InventoryEntry], found: Collection[Identity] = frozenset()
) -> SyncResourceStatus:
    """Return the status that records an intent: its new objects are pending, some were found. Raises TooManyObjects.

    Without new objects it differs only where it is the first one; conditions stay until there is a result.
    """
    before = resource.status
    fresh = without(intended, inventory_of(resource))
    is_retry = before.state is State.ERROR and before.observed_generation == resource.metadata.generation
    status = msgspec.structs.replace(
        before,
        state=State.PROCESSING if (fresh and not is_retry) or before.state is State.EMPTY else before.state,
        synced=(*before.synced, *map(pending_object, fresh)),
        found=references_to(among(intended, found)),
    )
    room = min(MAX_STATUS_BYTES, MAX_OBJECT_BYTES - stored_size(resource.spec.resource)) if fresh else 0
    if fresh and len(msgspec.json.encode(status)) > room:
        raise TooManyObjects(f"{len(status.synced)} objects are too many; split them into several SyncResources")
    return status


def is_refused(resource: SyncResource, reason: str) -> bool:
    """Tell whether the last status of a SyncResource says that it was refused for a reason."""
    valid = find(resource.status.conditions, VALID)
    return valid is not None and valid.reason == reason


def refused(resource: SyncResource, refusal: Refusal, now: datetime) -> SyncResourceStatus:
    """Return the status of a SyncResource that can't be applied. Its objects stay as they are."""
    lost = identities(refusal.lost)
    known = resource.status.synced
    kept = (each for each, entry in zip(known, entries_of(known), strict=True) if entry.identity not in lost)
    conditions: list[NewCondition] = [(kind, "False", refusal.reason, refusal.message) for kind in (VALID, READY)]
    return _status(resource, now, State.ERROR, tuple(kept), conditions)


def unreachable(resource: SyncResource, failure: SkrFailure, now: datetime) -> SyncResourceStatus:
    """Return the status of a SyncResource whose cluster can't be reached. Its objects stay as they were."""
    why = (failure.reason, failure.message)
    conditions: list[NewCondition] = [(APPLIED, "Unknown", *why), (READY, "False", *why)]
    state = State.DELETING if resource.metadata.being_deleted else State.ERROR
    return _status(resource, now, state, resource.status.synced, conditions)


def applied(
    resource: SyncResource,
    result: ApplyResult,
    now: datetime,
    held: Sequence[Violation] = (),
    workloads: Mapping[InventoryEntry, Readiness] = NO_WORKLOADS,
    *,
    found: Collection[Identity] = frozenset(),
) -> SyncResourceStatus:
    """Return the status after a round of applying: each object, and their sum. `held` says what may not be deleted.

    Of `workloads` more is known than of the other objects; what is `found` existed before.
    """
    synced = _fitting(_synced(result, resource.status.synced, workloads), resource)
    count = _objects(len(synced))
    valid: NewCondition = (VALID, "True", TEXT_VALID, "the text holds Kubernetes objects")
    if result.failed:
        message = "; ".join(map(failure_message, result.failed))
        failed: list[NewCondition] = [(kind, "False", APPLY_FAILED, message) for kind in (APPLIED, READY)]
        return _status(resource, now, State.ERROR, synced, [valid, *failed])
    present: NewCondition = (
        APPLIED,
        "True",
        OBJECTS_APPLIED,
        f"{count} in the cluster{found_message(result.inventory, found)}",
    )
    if held:
        return _status(resource, now, State.ERROR, synced, [valid, present, not_deleted(held)])
    if result.held:
        message = f"no longer in the text: {'; '.join(map(held_message, result.held))}"
        in_use: NewCondition = (READY, "False", OBJECTS_IN_USE, message)
        return _status(resource, now, State.WARNING, synced, [valid, present, in_use])
    state = aggregate(each.state for each in synced)
    ready: NewCondition = (READY, "True", OBJECTS_READY, f"{count} ready")
    if state is not State.READY:
        waiting = (f"{each.kind} {each.name}: {each.message}" for each in synced if each.state is not State.READY)
        ready = (READY, "False", OBJECTS_NOT_READY, "; ".join(waiting))
    return _status(resource, now, state, synced, [valid, present, ready])


def not_deleted(held: Sequence[Violation]) -> NewCondition:
    """Return the condition of a SyncResource with objects in the cluster that its module may not delete."""
    return (
        READY,
        "False",
        POLICY_VIOLATION,
        f"left in the cluster, because the module may not have it: {message_of(held)}",
    )


def holding(
    resource: SyncResource, inventory: Sequence[InventoryEntry], held: Sequence[Violation], now: datetime
) -> SyncResourceStatus:
    """Return the status of a SyncResource that is being deleted and whose module may not delete its last objects."""
    synced = tuple(synced_object(entry, State.ERROR, POLICY_VIOLATION) for entry in inventory)
    return _status(resource, now, State.DELETING, synced, [not_deleted(held)])


def deleting(
    resource: SyncResource, result: ApplyResult, now: datetime, held: Sequence[InventoryEntry] = ()
) -> SyncResourceStatus:
    """Return the status of a SyncResource whose objects are being deleted, but for those that are held back."""
    waits = ", ".join(f"{entry.kind} {entry.name}" for entry in result.inventory)
    waits = f"waits for {counted(len(result.inventory), 'object')} to be deleted: {waits}"
    reason, message = DELETING, "; ".join((waits, *map(failure_message, result.failed)))
    if result.held:
        in_use = "; ".join(map(held_message, result.held))
        reason, message = OBJECTS_IN_USE, f"delete them first; they would be deleted as well: {in_use}"
    synced = tuple(synced_object(entry, State.DELETING, "") for entry in (*result.inventory, *held))
    return _status(resource, now, State.DELETING, synced, [(READY, "False", reason, message)])


def braked(resource: SyncResource, hold: Hold, now: datetime) -> SyncResourceStatus:
    """Return the status of a SyncResource the removal of whose objects is held. They stay as they were."""
    condition: NewCondition = (READY, "False", hold.reason, f"waits for {hold.waits_for}")
    state = State.DELETING if resource.metadata.being_deleted else State.WARNING
    return _status(resource, now, state, resource.status.synced, [condition])


def _synced(
    result: ApplyResult, before: Sequence[SyncedObject], workloads: Mapping[InventoryEntry, Readiness]
) -> tuple[SyncedObject, ...]:
    outcomes = {outcome.entry: outcome for outcome in result.outcomes}
    known = {entry.identity: each for each, entry in zip(before, entries_of(before), strict=True)}
    return tuple(
        _synced_object(entry, outcomes.get(entry), known.get(entry.identity), workloads.get(entry))
        for entry in sorted(result.inventory)
    )


def _fitting(synced: Sequence[SyncedObject], resource: SyncResource) -> tuple[SyncedObject, ...]:
    """Return objects with as much of their messages as there is room for: users say in their cluster how long they are.

    A character may take four bytes.
    """
    if not any(each.message for each in synced):
        return tuple(synced)
    bare = len(msgspec.json.encode([msgspec.structs.replace(each, message="") for each in synced]))
    room = MAX_OBJECT_BYTES - stored_size(resource.spec.resource) - bare
    most = max(2, min(MAX_OBJECT_MESSAGE, room // (4 * len(synced))))
    return tuple(msgspec.structs.replace(each, message=shortened(each.message, most)) for each in synced)


def _synced_object(
    entry: InventoryEntry, outcome: ObjectOutcome | None, before: SyncedObject | None, workload: Readiness | None
) -> SyncedObject:
    if outcome is None:
        return synced_object(entry, State.PROCESSING, "left from an earlier revision")
    if outcome.error is not None:
        return synced_object(entry, State.ERROR, outcome.error)
    if outcome.live is None:  # not requested again, so unchanged
        return before or synced_object(entry, State.PROCESSING, "")
    if outcome.action == "held":
        return synced_object(entry, State.WARNING, f"no longer in the text, but it has {listed(outcome.contents)}")
    ready = workload or readiness(outcome.live)
    states = {"Current": State.READY, "Failed": State.ERROR}
    state = states.get(ready.state, State.PROCESSING)
    return synced_object(entry, state, "" if state is State.READY else ready.message)


def _objects(count: int) -> str:
    return "1 object is" if count == 1 else f"{count} objects are"


def _status(
    resource: SyncResource,
    now: datetime,
    state: State,
    synced: Sequence[SyncedObject],
    conditions: Sequence[NewCondition],
) -> SyncResourceStatus:
    return with_conditions(
        resource.status,
        resource.metadata,
        now,
        conditions=conditions,
        state=state,
        objects=f"{sum(each.state is State.READY for each in synced)}/{len(synced)}",
        synced=tuple(synced),
    )
