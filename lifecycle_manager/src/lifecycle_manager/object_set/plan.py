"""The rules of every set of objects in an SKR. Pure functions; the plan of a domain puts them together.

In this order: the objects are resolved as the SKR knows them, the intent is recorded in KCP, the objects are applied,
and what is no longer wanted is pruned. Nothing is applied that the module may not have by its policy, nor any of the
Lifecycle Manager's own objects.

May delete: objects that an apply has kept although they are no longer wanted and that the module may have, and none
that the domain spares. In a round with a failure only what may be the reason for it: webhooks, policies, quotas.
Objects that existed in the cluster before the set had them are released instead: with their present values, without
labels, annotations and managed fields of the Lifecycle Manager. So is a Namespace with objects of others when its set
is removed. If only a new version lacks it, it waits until these objects are gone, as a CRD with objects does always.
"""

from collections.abc import Callable, Iterable

from kube_runtime import ApplyResult, InventoryEntry, KubernetesObject, may_refuse
from lifecycle_manager.contract.verdict import FORBIDDEN
from lifecycle_manager.object_set import rules
from lifecycle_manager.object_set.inventory import Identity, among, identities, inventory_of, without
from lifecycle_manager.object_set.owner_writes import Owner, Status
from lifecycle_manager.object_set.rules import Objection, held_back, kept
from lifecycle_manager.object_set.snapshot import SetSnapshot
from lifecycle_manager.object_set.steps import PruneObjects, RecordIntent, ReleaseFound, ResolveObjects
from lifecycle_manager_api.policy_checks import Violation


def plan_intent(
    seen: SetSnapshot[Owner],
    objects: tuple[KubernetesObject, ...],
    own_kinds: tuple[InventoryEntry, ...] = (),
    *,
    finalizer: str,
    begun: Callable[[Owner, tuple[InventoryEntry, ...], frozenset[Identity]], Status],
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
    return RecordIntent(entries, begun(seen.resource, entries, seen.found))


def plan_prune(
    seen: SetSnapshot[Owner],
    applied: ApplyResult,
    spared: Iterable[InventoryEntry] = (),
) -> ReleaseFound | PruneObjects | None:
    """Return how to release or delete what is no longer wanted, but for what is spared; None where that is done."""
    if seen.pruned:
        return None
    left = without(kept(applied), spared)
    if applied.failed:
        left = tuple(each for each in left if may_refuse(each.group, each.kind) and each.identity not in seen.found)
    elif found := among(left, seen.found):
        return ReleaseFound(found)
    entries = without(left, held_back(left, seen.rules)[0])
    return PruneObjects(applied, entries) if entries else None


def left_by_policy(seen: SetSnapshot[Owner]) -> tuple[Violation, ...]:
    """Return why objects that are no longer wanted stay in the SKR: the module may not have, nor delete them."""
    return held_back(kept(seen.applied), seen.rules)[1] if seen.applied is not None else ()


def objection_in(
    seen: SetSnapshot[Owner], objects: Iterable[KubernetesObject], *, forbidden: str = FORBIDDEN
) -> Objection | None:
    """Return which objects the module may not have by its policy, or nobody but the Lifecycle Manager; None where none.

    Once the SKR has stated it, it is known which are namespaced. `forbidden` is the reason of the latter.
    """
    if seen.recorded or seen.applied is not None:
        return None
    return rules.objection_to(seen, objects, seen.wanted, forbidden=forbidden)
