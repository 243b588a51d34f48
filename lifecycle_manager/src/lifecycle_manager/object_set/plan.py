"""The rules of every set of objects in an SKR. Pure functions; the plan of a domain puts them together.

In this order: the objects are resolved as the SKR knows them, the intent is recorded in KCP, the objects are applied,
and what is no longer wanted is pruned. Nothing is applied that the module may not have.

May delete: objects that an apply has kept although they are no longer wanted and that the module may have, none in a
round with a failure, and none that the domain spares.
"""

from collections.abc import Callable, Iterable

from kube_runtime import ApplyResult, InventoryEntry, KubernetesObject
from lifecycle_manager.object_set.inventory import identities, inventory_of, without
from lifecycle_manager.object_set.owner_writes import Owner, Status
from lifecycle_manager.object_set.policy import held_back
from lifecycle_manager.object_set.snapshot import SetSnapshot
from lifecycle_manager.object_set.steps import PruneObjects, RecordIntent, ResolveObjects, kept


def plan_intent(
    seen: SetSnapshot[Owner],
    objects: tuple[KubernetesObject, ...],
    own_kinds: tuple[InventoryEntry, ...] = (),
    *,
    finalizer: str,
    begun: Callable[[Owner, tuple[InventoryEntry, ...]], Status],
) -> ResolveObjects | RecordIntent | None:
    """Return the next step before objects are applied; None where their intent is recorded.

    `own_kinds` are objects of kinds that the set itself defines; `begun` returns the status that records an intent.
    """
    if seen.wanted is None:
        return ResolveObjects(objects, own_kinds)
    if seen.recorded or seen.applied is not None:
        return None
    entries = seen.intended
    is_held = finalizer in seen.resource.metadata.finalizers
    if is_held and identities(entries) <= identities(inventory_of(seen.resource)):
        return None
    return RecordIntent(entries, begun(seen.resource, entries))


def plan_prune(
    seen: SetSnapshot[Owner],
    applied: ApplyResult,
    objects: tuple[KubernetesObject, ...],
    spared: Iterable[InventoryEntry] = (),
) -> PruneObjects | None:
    """Return how to delete what is no longer wanted, but for what is spared; None where that is done."""
    if seen.pruned or applied.failed:
        return None
    left = without(kept(applied), spared)
    entries = without(left, held_back(left, seen.rules)[0])
    return PruneObjects(objects, applied, entries) if entries else None
