"""The rules of a SyncResource: its next step from a snapshot. Pure functions, no I/O.

The order of the lines is the rule. An object that another SyncResource claimed first is never touched; in a round with
a failure only what may be its reason is pruned; nothing is deleted that the inventory does not name, or that another
owner has by now.

May delete: objects of its inventory that the text no longer names and that the module may have; once it is being
deleted, all of its inventory. Never what an older SyncResource of the Kyma has, too, nor what another owner has by now,
nor what existed before, which is released to the users; and nothing while the brake holds its deletion, or the removal
of all its objects (`skr.brake`).

While the admission policy that keeps modules apart is not in force, a text that was not applied before is refused, and
nothing is deleted but with its Kyma: anybody may have asked for it.

A SyncResource outside the namespace of its module applies and deletes nothing, whatever its status says: others than
operators may write there.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from kube_runtime import (
    ApplyResult,
    InventoryEntry,
    JsonObject,
    KubernetesObject,
    ManifestInvalid,
    Step,
    readiness,
    require_once,
)
from lifecycle_manager.contract.conditions import VALID
from lifecycle_manager.contract.verdict import CONFLICT, INVALID_RESOURCE, TOO_MANY_OBJECTS
from lifecycle_manager.object_set.inventory import DEFAULT_NAMESPACE, among, without
from lifecycle_manager.object_set.owner_writes import RecordingFailed
from lifecycle_manager.object_set.ownership import conflicts
from lifecycle_manager.object_set.plan import (
    held_back,
    left_by_policy,
    message_of,
    objection_in,
    objections,
    plan_intent,
    plan_prune,
)
from lifecycle_manager.object_set.steps import (
    ApplyObjects,
    DeleteObjects,
    NothingApplied,
    ReleaseFound,
    RemoveFinalizer,
    SetBraked,
    SetFailed,
    SetStep,
)
from lifecycle_manager.object_set.workloads import is_workload
from lifecycle_manager.sync_resource.ending import (
    READINESS_SECONDS,
    ObjectsApplied,
    ObjectsDeleting,
    ObjectsKept,
    SyncResourceEnd,
    SyncResourceOutcome,
    Unchanged,
    ended,
)
from lifecycle_manager.sync_resource.intent import TooManyObjects, begun
from lifecycle_manager.sync_resource.snapshot import SyncResourceSnapshot, read_text, since
from lifecycle_manager.sync_resource.status import (
    KYMA_DELETING,
    KYMA_NOT_FOUND,
    MODULE_NOT_ENABLED,
    NOT_PROTECTED,
    TOO_MANY_SYNC_RESOURCES,
    WRONG_NAMESPACE,
    Refusal,
)
from lifecycle_manager_api import Kyma, State, SyncResource, boolean, find, names
from lifecycle_manager_api.policy_checks import ModuleRules

MAX_WORKLOADS = 5
"""Of how many workloads the Pods are read."""
PROTECTION_SECONDS = 10.0
"""After how long it is looked up again whether the admission policy is in force."""


@dataclass(frozen=True, slots=True)
class ReadPods(Step):
    """Read why these workloads are not ready."""

    workloads: tuple[tuple[InventoryEntry, JsonObject], ...]


SyncResourceStep = SetStep | ReadPods


def plan(seen: SyncResourceSnapshot) -> SyncResourceStep | SyncResourceEnd:
    found = _plan(seen)
    return ended(seen, found) if isinstance(found, SyncResourceOutcome) else found


def _plan(seen: SyncResourceSnapshot) -> SyncResourceStep | RemoveFinalizer | NothingApplied | SyncResourceOutcome:
    resource, kyma = seen.resource, seen.kyma
    if isinstance(seen.error, RecordingFailed):
        return NothingApplied(error=seen.error)
    if seen.error is not None:
        return SetFailed(seen.error)
    if is_paused(kyma):
        return Unchanged()
    if seen.unprotected is None and not _is_accepted(resource):
        return Unchanged(again=READINESS_SECONDS)
    if resource.metadata.being_deleted:
        if seen.unprotected and kyma is not None and not kyma.metadata.being_deleted:
            return Unchanged(again=PROTECTION_SECONDS)
        return _removal(seen)
    if (refusal := _refusal(seen)) is not None:
        return refusal
    if isinstance(seen.text, Refusal):
        return seen.text
    if seen.brake.hold is not None:  # the text has no objects any more, as those of too many clusters at once
        return SetBraked(seen.brake.hold)
    return _application(seen, seen.text)


def _application(
    seen: SyncResourceSnapshot, objects: tuple[KubernetesObject, ...]
) -> SyncResourceStep | SyncResourceOutcome:
    resource, applied = seen.resource, seen.applied
    if (objection := objection_in(seen, objects)) is not None:
        return Refusal(*objection)
    if applied is None and (found := conflicts(objects, seen.inventory, since(resource), seen.claims)):
        lost = frozenset(each.claim.entry for each in found)
        return Refusal(CONFLICT, "; ".join(map(str, found)), lost)
    try:
        require_once(objects, seen.namespace_of)
        step = plan_intent(seen, objects, finalizer=names.SYNC_RESOURCE_FINALIZER, begun=begun)
    except ManifestInvalid as error:
        return Refusal(INVALID_RESOURCE, str(error))
    except TooManyObjects as too_many:
        return Refusal(TOO_MANY_OBJECTS, str(too_many))
    if step is not None:
        return step
    if applied is None:
        namespaces = missing_namespaces(objects) if creates_namespaces(resource) else ()
        recheck = seen.announced if seen.announced is not None else not _just_changed(resource)
        return ApplyObjects(objects, seen.before, recheck=recheck, namespaces=namespaces, found=seen.found)
    if resource.spec.prune and (prune := plan_prune(seen, applied)) is not None:
        return prune
    if seen.workloads is None and (waiting := waiting_workloads(applied)):
        return ReadPods(waiting)
    left = left_by_policy(seen) if resource.spec.prune else ()
    return ObjectsApplied(applied, left, seen.workloads or {}, seen.found)


def waiting_workloads(applied: ApplyResult) -> tuple[tuple[InventoryEntry, JsonObject], ...]:
    """Return the first workloads that were read and are not ready, as they are in the SKR."""
    read = ((each.entry, each.live) for each in applied.outcomes if each.error is None)
    workloads = ((entry, live) for entry, live in read if live is not None and is_workload(entry))
    return tuple(islice((each for each in workloads if readiness(each[1]).state != "Current"), MAX_WORKLOADS))


def is_paused(kyma: Kyma | None) -> bool:
    """Tell whether the objects of a Kyma stay as they are: it is paused, and not being deleted."""
    if kyma is None or kyma.metadata.being_deleted:
        return False
    return boolean(kyma.metadata.labels, names.SKIP_RECONCILIATION)


def objection_to(resource: SyncResource, rules: ModuleRules) -> str | None:
    """Return what is wrong with a SyncResource that somebody writes; None where it can be tried."""
    objects = read_text(resource.spec.resource)
    if isinstance(objects, Refusal):
        return f"spec.resource: {objects.message}"
    found = objections(objects, rules, default_namespace=DEFAULT_NAMESPACE)
    return f"spec.resource: {message_of(found)}" if found else None


def missing_namespaces(objects: Iterable[KubernetesObject]) -> tuple[str, ...]:
    """Return the namespaces that objects are in and that are not themselves among the objects."""
    things = tuple(objects)
    own = {each.name for each in things if each.kind == "Namespace"}
    return tuple(sorted({each.namespace for each in things} - own - {""}))


def creates_namespaces(resource: SyncResource) -> bool:
    return boolean(resource.metadata.annotations, names.CREATE_NAMESPACES)


def _removal(seen: SyncResourceSnapshot) -> SetStep | RemoveFinalizer | SyncResourceOutcome:
    has_finalizer = names.SYNC_RESOURCE_FINALIZER in seen.resource.metadata.finalizers
    if not has_finalizer or not seen.inventory or seen.is_misplaced or seen.brake.may_forget:
        return RemoveFinalizer()
    if seen.brake.hold is not None:
        return SetBraked(seen.brake.hold)
    if found := among(seen.inventory, seen.found):
        return ReleaseFound(found)
    held, violations = held_back(seen.inventory, seen.rules)
    if seen.removed is None and (entries := without(seen.inventory, held)):
        return DeleteObjects(entries)
    if seen.removed is not None and seen.removed.inventory:
        return ObjectsDeleting(seen.removed, held)
    if held and seen.kyma is not None and not seen.kyma.metadata.being_deleted:
        return ObjectsKept(held, violations)
    return RemoveFinalizer()


def _refusal(seen: SyncResourceSnapshot) -> Refusal | None:
    resource, kyma = seen.resource, seen.kyma
    if seen.is_misplaced:
        module, namespace = resource.spec.module, seen.module_namespace
        message = f"SyncResources of module {module} have to be in namespace {namespace}; this one has no effect"
        return Refusal(WRONG_NAMESPACE, message)
    if kyma is None:
        return Refusal(KYMA_NOT_FOUND, f"there is no Kyma {resource.spec.kyma!r} in {names.KCP_NAMESPACE}")
    if kyma.metadata.being_deleted:
        return Refusal(KYMA_DELETING, f"Kyma {resource.spec.kyma!r} is being deleted")
    if not seen.has_module:
        return Refusal(MODULE_NOT_ENABLED, f"Kyma {resource.spec.kyma!r} does not have module {resource.spec.module}")
    if seen.unprotected and not _is_accepted(resource):
        return Refusal(NOT_PROTECTED, f"anybody may have written this: {seen.unprotected}")
    if seen.exceeds_quota:
        return Refusal(TOO_MANY_SYNC_RESOURCES, "the module has too many SyncResources for this Kyma; the oldest count")
    return None


def _is_accepted(resource: SyncResource) -> bool:
    """Tell whether the present text was applied before."""
    valid = find(resource.status.conditions, VALID)
    return valid is not None and valid.status == "True" and valid.observed_generation == resource.metadata.generation


def _just_changed(resource: SyncResource) -> bool:
    """Tell whether the text changed since everything was ready: then only what differs in it needs a request."""
    return resource.status.state is State.READY and resource.status.observed_generation != resource.metadata.generation
