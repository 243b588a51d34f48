"""The rules of a SyncResource. Pure functions, one for each decision of `controller`.

An object that another SyncResource claimed first is never touched; in a round with a failure only what may be its
reason is pruned; nothing is deleted that the inventory does not name, or that another owner has by now.

May delete: objects of its inventory that the text no longer names and that the module may have; once it is being
deleted, all of its inventory. Never what an older SyncResource of the Kyma has, too, nor what another owner has by now,
nor what another of its module names, nor what existed before, which is released to the users. It is deleted only when
users have no objects of its CRDs any more: its operator acts on their finalizers. Nothing while the brake holds its
deletion, or the removal of all its objects (`skr.brake`).

While the admission policy that keeps modules apart is not in force, a text that was not applied before is refused, and
nothing is deleted but with its Kyma: anybody may have asked for it.

A SyncResource outside the namespace of its module applies and deletes nothing, whatever its status says: others than
operators may write there.
"""

from collections.abc import Collection
from itertools import islice

from kube_runtime import (
    ApplyResult,
    InventoryEntry,
    JsonObject,
    ManifestInvalid,
    readiness,
    require_once,
)
from kube_runtime.apply.order import is_workload
from lifecycle_manager.contract.conditions import VALID
from lifecycle_manager.contract.verdict import CONFLICT, INVALID_RESOURCE
from lifecycle_manager.object_set.inventory import DEFAULT_NAMESPACE, Identity, namespace_in, scopes_of
from lifecycle_manager.object_set.ownership import conflicts
from lifecycle_manager.object_set.rules import message_of, objections
from lifecycle_manager.object_set.rules import objection_to as objection_to_set
from lifecycle_manager.skr.brake import Hold
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
from lifecycle_manager_api.policy_objects import scopes_in

MAX_WORKLOADS = 5
"""Of how many workloads the Pods are read."""
READINESS_SECONDS = 2.0
"""After how long objects that are not ready, or are being deleted, are read again."""
IN_USE_SECONDS = 10.0
"""After how long it is looked again whether users still have objects that a removal waits for."""
TOO_MANY = "the module has too many SyncResources for this Kyma; the oldest count"
PROTECTION_SECONDS = 10.0
"""After how long it is looked up again whether the admission policy is in force."""


def obstacle(seen: SyncResourceSnapshot) -> float | Refusal | Hold | None:
    """Return what keeps a SyncResource from its SKR, which is as it is: in how many seconds to look again, or why."""
    if (pause := pause_of(seen)) is not None or seen.resource.metadata.being_deleted:
        return pause
    if (found := refusal(seen)) is not None:
        return found
    return seen.brake.hold  # the text has no objects any more, as those of too many clusters at once


def refusal(seen: SyncResourceSnapshot) -> Refusal | None:
    """Return the first reason why nothing of a SyncResource is applied, whatever is in its SKR."""
    resource, kyma = seen.resource, seen.kyma
    module, of_kyma = resource.spec.module, f"Kyma {resource.spec.kyma!r}"
    in_place = f"SyncResources of module {module} have to be in namespace {seen.module_namespace}"
    is_leaving = kyma is not None and kyma.metadata.being_deleted
    is_unsafe = bool(seen.unprotected) and not is_accepted(resource)
    reasons = (
        (seen.is_misplaced, WRONG_NAMESPACE, f"{in_place}; this one has no effect"),
        (kyma is None, KYMA_NOT_FOUND, f"there is no {of_kyma} in {names.KCP_NAMESPACE}"),
        (is_leaving, KYMA_DELETING, f"{of_kyma} is being deleted"),
        (not seen.has_module, MODULE_NOT_ENABLED, f"{of_kyma} does not have module {module}"),
        (is_unsafe, NOT_PROTECTED, f"anybody may have written this: {seen.unprotected}"),
        (seen.exceeds_quota, TOO_MANY_SYNC_RESOURCES, TOO_MANY),
    )
    found = next((Refusal(reason, message) for is_so, reason, message in reasons if is_so), None)
    return seen.text if found is None and isinstance(seen.text, Refusal) else found


def pause_of(seen: SyncResourceSnapshot) -> float | None:
    """Return in how many seconds to look again where nothing may be done now; None where something may."""
    resource, kyma = seen.resource, seen.kyma
    if is_paused(kyma):
        return seen.interval_seconds
    if seen.unprotected is None and not is_accepted(resource):
        return READINESS_SECONDS
    if resource.metadata.being_deleted and seen.unprotected and kyma is not None and not kyma.metadata.being_deleted:
        return PROTECTION_SECONDS
    return None


def objection(seen: SyncResourceSnapshot, wanted: Collection[InventoryEntry] | None = None) -> Refusal | None:
    """Return which objects of the text may not be applied; `wanted` are they as the SKR has resolved them."""
    if (found := objection_to_set(seen, seen.objects, wanted)) is not None:
        return Refusal(*found)
    if contested := conflicts(seen.objects, seen.inventory, since(seen.resource), seen.claims):
        lost = frozenset(each.claim.entry for each in contested if each.claim.kind == "SyncResource")
        return Refusal(CONFLICT, "; ".join(map(str, contested)), lost)
    try:
        require_once(seen.objects, namespace_in(scopes_of((*seen.inventory, *(wanted or ()))), seen.default_namespace))
    except ManifestInvalid as error:
        return Refusal(INVALID_RESOURCE, str(error))
    return None


def recheck(seen: SyncResourceSnapshot) -> bool | frozenset[Identity]:
    """Return which objects are read although their document is unchanged: all, or those that events reported.

    None of them where only the text changed since everything was ready: what differs in it is requested.
    """
    status, generation = seen.resource.status, seen.resource.metadata.generation
    if seen.announced is not None:
        return seen.announced
    return status.state is not State.READY or status.observed_generation == generation


def namespaces(seen: SyncResourceSnapshot, wanted: Collection[InventoryEntry]) -> tuple[str, ...]:
    """Return the namespaces to create: those of objects that are not themselves in the text, if it asks for that.

    What is in none may name any, at which no policy looks: `wanted` says of which kinds that is.
    """
    if not creates_namespaces(seen.resource):
        return ()
    namespace_of = namespace_in({**scopes_in(seen.objects), **scopes_of(wanted)}, seen.default_namespace)
    own = {each.name for each in seen.objects if (each.api_version, each.kind) == ("v1", "Namespace")}
    return tuple(sorted({namespace_of(each) for each in seen.objects if each.namespace} - own - {""}))


def waiting_workloads(applied: ApplyResult) -> tuple[tuple[InventoryEntry, JsonObject], ...]:
    """Return the first workloads that were read and are not ready, as they are in the SKR."""
    read = ((each.entry, each.live) for each in applied.outcomes if each.error is None)
    workloads = ((entry, live) for entry, live in read if live is not None and is_workload(entry))
    return tuple(islice((each for each in workloads if readiness(each[1]).state != "Current"), MAX_WORKLOADS))


def is_forgotten(seen: SyncResourceSnapshot) -> bool:
    """Tell whether a SyncResource that is being deleted has nothing in an SKR that is to be removed there."""
    has_finalizer = names.SYNC_RESOURCE_FINALIZER in seen.resource.metadata.finalizers
    return not has_finalizer or not seen.inventory or seen.is_misplaced or seen.brake.may_forget


def is_kept(seen: SyncResourceSnapshot) -> bool:
    """Tell whether a SyncResource that is being deleted stays for objects that its module may not delete."""
    return seen.kyma is not None and not seen.kyma.metadata.being_deleted


def is_paused(kyma: Kyma | None) -> bool:
    """Tell whether the objects of a Kyma stay as they are: it is paused, and not being deleted."""
    return kyma is not None and kyma.metadata.is_paused and not kyma.metadata.being_deleted


def is_accepted(resource: SyncResource) -> bool:
    """Tell whether the present text was applied before."""
    valid = find(resource.status.conditions, VALID)
    return valid is not None and valid.status == "True" and valid.observed_generation == resource.metadata.generation


def creates_namespaces(resource: SyncResource) -> bool:
    return boolean(resource.metadata.annotations, names.CREATE_NAMESPACES)


def objection_to(resource: SyncResource, rules: ModuleRules) -> str | None:
    """Return what is wrong with a SyncResource that somebody writes; None where it can be tried."""
    objects = read_text(resource.spec.resource)
    if isinstance(objects, Refusal):
        return f"spec.resource: {objects.message}"
    found = objections(objects, rules, default_namespace=DEFAULT_NAMESPACE)
    return f"spec.resource: {message_of(found)}" if found else None
