"""The rules of a SyncResource: what its text means, and what came of applying it. Pure functions, no I/O."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache

import msgspec

from kube_runtime import (
    ApplyResult,
    InventoryEntry,
    KubernetesObject,
    ManifestInvalid,
    ObjectOutcome,
    parse_objects,
    readiness,
)
from lifecycle_manager.sync_resource.claims import Claimed, taken
from lifecycle_manager.sync_resource.intent import inventory_of, known_objects
from lifecycle_manager.sync_resource.inventory import identity_of, synced_object
from lifecycle_manager.sync_resource.policy import Allowance, Allowances, forbidden
from lifecycle_manager_api import (
    Kyma,
    State,
    SyncedObject,
    SyncResource,
    SyncResourceStatus,
    aggregate,
    find,
    names,
)
from lifecycle_manager_api.conditions import Said, last_operation, set_conditions

VALID = "Valid"
APPLIED = "Applied"
READY = "Ready"

CONFLICT = "Conflict"
REMEMBERED_TEXT = 64 * 1024
_BEGINNING = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a SyncResource is not applied: a reason and a message for its `Valid` condition.

    `lost` names what its status claims and another SyncResource has.
    """

    reason: str
    message: str
    lost: frozenset[InventoryEntry] = frozenset()


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Let the SyncResource go: nothing of it is left, or the cluster is gone for good."""


@dataclass(frozen=True, slots=True)
class DeleteObjects:
    """Remove from the SKR what the inventory names."""

    inventory: tuple[InventoryEntry, ...]


@dataclass(frozen=True, slots=True)
class ApplyObjects:
    """Apply these objects, then prune what the inventory names and they no longer hold.

    Before the first of them it is written down what they are, and that the SyncResource is held by its finalizer.
    `namespaces` are made before, where they are missing. They are not a part of the SyncResource: others may have put
    something into them by the time it goes.
    """

    objects: tuple[KubernetesObject, ...]
    inventory: tuple[InventoryEntry, ...]
    prune: bool
    recheck: bool
    namespaces: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Refuse:
    """Apply nothing, remove nothing, and say why."""

    refusal: Refusal


Step = RemoveFinalizer | DeleteObjects | ApplyObjects | Refuse


def plan(
    resource: SyncResource,
    kyma: Kyma | None,
    remembered: Collection[InventoryEntry] = (),
    *,
    claimed: Claimed = lambda _: (),
    allowed: Collection[Allowance] = (),
) -> Step:
    """Decide what a SyncResource needs next.

    `remembered` is what this process knows to be in the SKR beyond what the status in its cache says, which may be
    older than the last write. `claimed` tells what other SyncResources of the Kyma have there.
    """
    inventory = tuple(sorted({*inventory_of(resource), *remembered}))
    held = names.SYNC_RESOURCE_FINALIZER in resource.metadata.finalizers
    if resource.metadata.being_deleted:
        return DeleteObjects(inventory) if held and inventory and kyma is not None else RemoveFinalizer()
    if kyma is None:
        return Refuse(Refusal("KymaNotFound", f"there is no Kyma {resource.spec.kyma!r} in this namespace"))
    if kyma.metadata.being_deleted:
        return Refuse(Refusal("KymaDeleting", f"Kyma {resource.spec.kyma!r} is being deleted"))
    return _apply(resource, inventory, claimed, allowed)


def _apply(
    resource: SyncResource,
    inventory: tuple[InventoryEntry, ...],
    claimed: Claimed,
    allowed: Collection[Allowance],
) -> ApplyObjects | Refuse:
    objects = read_text(resource.spec.resource, allowed)
    if isinstance(objects, Refusal):
        return Refuse(objects)
    if conflicts := taken(objects, inventory, since(resource), claimed):
        lost = frozenset(each.claim.entry for each in conflicts)
        return Refuse(Refusal(CONFLICT, "; ".join(map(str, conflicts)), lost))
    namespaces = _namespaces_of(objects) if resource.metadata.annotations.get(names.CREATE_NAMESPACES) == "true" else ()
    recheck = not _just_changed(resource)
    return ApplyObjects(objects, inventory, prune=resource.spec.prune, recheck=recheck, namespaces=namespaces)


def read_text(text: str, allowed: Collection[Allowance]) -> tuple[KubernetesObject, ...] | Refusal:
    """Return the objects in a SyncResource's text, or why it is not to be applied."""
    try:
        objects = _parsed(text) if len(text) <= REMEMBERED_TEXT else parse_objects(text)
    except ManifestInvalid as error:
        return Refusal("InvalidResource", str(error))
    if (reason := forbidden(objects, allowed)) is not None:
        return Refusal("Forbidden", reason)
    return objects


@lru_cache(maxsize=64)
def _parsed(text: str) -> tuple[KubernetesObject, ...]:
    """Return the objects in a text. It is read at the door, and again a moment later when it is reconciled."""
    return parse_objects(text)


def objection_to(resource: SyncResource, allowances: Allowances) -> str | None:
    """Return what is wrong with a SyncResource that somebody writes; None where it can be tried."""
    objects = read_text(resource.spec.resource, allowances.get(resource.spec.module, frozenset()))
    return f"spec.resource: {objects.message}" if isinstance(objects, Refusal) else None


def in_conflict(resource: SyncResource) -> bool:
    """Tell whether a SyncResource waits for objects that another one has."""
    valid = find(resource.status.conditions, VALID)
    return valid is not None and valid.reason == CONFLICT


def since(resource: SyncResource) -> tuple[str, str]:
    """Return what tells which of two SyncResources is the older one."""
    return (resource.metadata.creation_timestamp or _BEGINNING).isoformat(), resource.metadata.name


def _namespaces_of(objects: Iterable[KubernetesObject]) -> tuple[str, ...]:
    """Return the namespaces that objects are in and that are not objects of their own among them."""
    listed = tuple(objects)
    own = {each.name for each in listed if each.kind == "Namespace"}
    return tuple(sorted({each.namespace for each in listed} - own - {""}))


def _just_changed(resource: SyncResource) -> bool:
    """Tell whether the text changed since all was well: then only what differs in it needs a request."""
    return resource.status.state is State.READY and resource.status.observed_generation != resource.metadata.generation


def refused(resource: SyncResource, refusal: Refusal, now: datetime) -> SyncResourceStatus:
    """Return the status of a SyncResource that can't be applied. Its objects stay as they are."""
    return _status(
        resource,
        now,
        state=State.ERROR,
        synced=_without(known_objects(resource), refusal.lost),
        conditions=(
            (VALID, "False", refusal.reason, refusal.message),
            (READY, "False", refusal.reason, refusal.message),
        ),
        operation=refusal.message,
    )


def _without(synced: Iterable[SyncedObject], lost: Iterable[InventoryEntry]) -> tuple[SyncedObject, ...]:
    gone = {entry.identity for entry in lost}
    return tuple(each for each in synced if identity_of(each) not in gone)


def unreachable(resource: SyncResource, reason: str, message: str, now: datetime) -> SyncResourceStatus:
    """Return the status of a SyncResource whose cluster can't be reached. Nothing is known to have changed."""
    return _status(
        resource,
        now,
        state=State.ERROR,
        synced=known_objects(resource),
        conditions=((APPLIED, "Unknown", reason, message), (READY, "False", reason, message)),
        operation=message,
    )


def applied(resource: SyncResource, result: ApplyResult, now: datetime) -> SyncResourceStatus:
    """Return the status after a round of applying: per object, and what it adds up to."""
    synced = _synced(result, resource.status.synced)
    failures = [_failure(outcome) for outcome in result.outcomes if outcome.error is not None]
    waiting = [f"{entry.kind} {entry.name}: {entry.message}" for entry in synced if entry.state is not State.READY]
    state = State.ERROR if failures else aggregate(entry.state for entry in synced)
    count = len(synced)
    applied_condition: Said
    ready_condition: Said
    if failures:
        applied_condition = (APPLIED, "False", "ApplyFailed", "; ".join(failures))
        ready_condition = (READY, "False", "ApplyFailed", "; ".join(failures))
    else:
        applied_condition = (APPLIED, "True", "Applied", f"{_objects(count)} in the cluster")
        ready_condition = (
            (READY, "True", "ObjectsReady", f"{_objects(count)} ready")
            if state is State.READY
            else (READY, "False", "ObjectsNotReady", "; ".join(waiting))
        )
    return _status(
        resource,
        now,
        state=state,
        synced=synced,
        conditions=(
            (VALID, "True", "Valid", "the text holds Kubernetes objects"),
            applied_condition,
            ready_condition,
        ),
        operation=ready_condition[3],
    )


def deleting(resource: SyncResource, result: ApplyResult, now: datetime) -> SyncResourceStatus:
    """Return the status of a SyncResource whose objects are on their way out."""
    waits = ", ".join(f"{entry.kind} {entry.name}" for entry in result.inventory)
    message = f"waits for {len(result.inventory)} to go: {waits}"
    return _status(
        resource,
        now,
        state=State.DELETING,
        synced=tuple(synced_object(entry, State.DELETING, "") for entry in result.inventory),
        conditions=((READY, "False", "Deleting", message),),
        operation=message,
    )


def _synced(result: ApplyResult, before: Iterable[SyncedObject]) -> tuple[SyncedObject, ...]:
    outcomes = {outcome.entry: outcome for outcome in result.outcomes}
    known = {identity_of(each): each for each in before}
    return tuple(
        _synced_object(entry, outcomes.get(entry), known.get(entry.identity)) for entry in sorted(result.inventory)
    )


def _synced_object(entry: InventoryEntry, outcome: ObjectOutcome | None, before: SyncedObject | None) -> SyncedObject:
    if outcome is None:
        return synced_object(entry, State.PROCESSING, "left from an earlier revision")
    if outcome.error is not None:
        return synced_object(entry, State.ERROR, outcome.error)
    if outcome.live is None:  # not asked for again, so as it was
        return before or synced_object(entry, State.PROCESSING, "")
    ready = readiness(outcome.live)
    states = {"Current": State.READY, "Failed": State.ERROR}
    state = states.get(ready.state, State.PROCESSING)
    return synced_object(entry, state, "" if state is State.READY else ready.message)


def _objects(count: int) -> str:
    return "1 object is" if count == 1 else f"{count} objects are"


def _failure(outcome: ObjectOutcome) -> str:
    entry = outcome.entry
    where = f"document {outcome.index}: " if outcome.index is not None else ""
    name = f"{entry.namespace}/{entry.name}" if entry.namespace else entry.name
    return f"{where}{entry.kind} {name}: {outcome.error}"


def _status(
    resource: SyncResource,
    now: datetime,
    *,
    state: State,
    synced: Sequence[SyncedObject],
    conditions: Iterable[Said],
    operation: str,
) -> SyncResourceStatus:
    before, generation = resource.status, resource.metadata.generation
    return msgspec.structs.replace(
        before,
        state=state,
        objects=f"{sum(each.state is State.READY for each in synced)}/{len(synced)}",
        synced=tuple(synced),
        conditions=set_conditions(before.conditions, conditions, generation, now),
        last_operation=last_operation(before.last_operation, operation, now),
        observed_generation=generation,
    )
