"""The rules of every set of objects in an SKR. Pure functions.

Nothing is applied that the module may not have by its policy, nor any of the Lifecycle Manager's own objects.

May delete: objects that an apply has kept although they are no longer wanted and that the module may have. In a round
with a failure only what may be the reason for it: webhooks, policies, quotas. Objects that existed in the cluster
before the set had them are released instead: with their present values, without labels, annotations and managed fields
of the Lifecycle Manager. So is a Namespace with objects of others when its set is removed. If only a new version lacks
it, it waits until these objects are gone, as a CRD with objects does always.
"""

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import NamedTuple

from kube_runtime import ApplyResult, InventoryEntry, KubernetesObject, may_refuse
from lifecycle_manager.contract.verdict import FORBIDDEN, POLICY_VIOLATION
from lifecycle_manager.object_set.inventory import Identity, among, name_of, scopes_of, without
from lifecycle_manager.object_set.owner_writes import Owner
from lifecycle_manager.object_set.protected import is_protected, is_protected_entry
from lifecycle_manager.object_set.snapshot import SetSnapshot
from lifecycle_manager_api.conditions import listed
from lifecycle_manager_api.policy_checks import ModuleRules, Violation, misplaced, policy_violations
from lifecycle_manager_api.policy_objects import Place, Scopes


class Objection(NamedTuple):
    """Why objects are not applied."""

    reason: str
    message: str


def objection_to(
    seen: SetSnapshot[Owner],
    objects: Iterable[KubernetesObject],
    wanted: Collection[InventoryEntry] | None,
    *,
    forbidden: str = FORBIDDEN,
) -> Objection | None:
    """Return which objects the module may not have by its policy, or nobody but the Lifecycle Manager; None where none.

    `wanted` are the objects as the SKR has resolved them, None before that: then it is known which are namespaced.
    `forbidden` is the reason of the latter.
    """
    scopes = scopes_of(wanted) if wanted is not None else None
    if seen.rules is not None and (
        found := objections(objects, seen.rules, scopes, default_namespace=seen.default_namespace)
    ):
        return Objection(POLICY_VIOLATION, message_of(found))
    if protected := sorted(each for each in wanted or () if is_protected_entry(each, seen.pull_secret)):
        named = listed([name_of(each) for each in protected])
        return Objection(forbidden, f"these objects belong to the Lifecycle Manager: {named}")
    return None


def objections(
    objects: Iterable[KubernetesObject], rules: ModuleRules, scopes: Scopes | None = None, *, default_namespace: str
) -> tuple[Violation, ...]:
    """Return why a module may not have a set of objects; nothing where it may.

    `scopes` are those that the SKR has stated, see `policy_violations`.
    """
    things = tuple(objects)
    protected = (
        Violation(each.index, str(each), "protected", "it belongs to the Lifecycle Manager")
        for each in things
        if is_protected(each)
    )
    return (*protected, *policy_violations(things, rules, scopes, default_namespace=default_namespace))


def leaving(
    applied: ApplyResult, found: Collection[Identity], rules: ModuleRules | None
) -> tuple[tuple[InventoryEntry, ...], tuple[InventoryEntry, ...]]:
    """Return which objects that are no longer wanted are released, as they existed before, and which are pruned."""
    left = kept(applied)
    released = () if applied.failed else among(left, found)
    pruned = without(left, among(left, found))
    if applied.failed:
        pruned = tuple(each for each in pruned if may_refuse(each.group, each.kind))
    return released, without(pruned, held_back(pruned, rules)[0])


def after_release(applied: ApplyResult, entries: Collection[InventoryEntry]) -> ApplyResult:
    """Return the result of an apply after objects were released to the users: it has not kept, but released them."""
    outcomes = (replace(each, action="released") if each.entry in entries else each for each in applied.outcomes)
    return ApplyResult(tuple(outcomes), without(applied.inventory, entries))


def left_by_policy(applied: ApplyResult, rules: ModuleRules | None) -> tuple[Violation, ...]:
    """Return why objects that are no longer wanted stay in the SKR: the module may not have, nor delete them."""
    return held_back(kept(applied), rules)[1]


def kept(applied: ApplyResult) -> tuple[InventoryEntry, ...]:
    """Return the objects that an apply has kept although they are no longer among its objects."""
    return tuple(each.entry for each in applied.outcomes if each.index is None and each.action == "kept")


def held_back(
    entries: Iterable[InventoryEntry], rules: ModuleRules | None
) -> tuple[tuple[InventoryEntry, ...], tuple[Violation, ...]]:
    """Return the objects of an inventory that a module may not delete, and why."""
    by_place = {Place(each.group, each.kind, each.namespace, each.name): each for each in entries}
    found = tuple(misplaced(by_place, rules)) if rules is not None else ()
    return tuple(dict.fromkeys(by_place[place] for place, _ in found)), tuple(violation for _, violation in found)


def message_of(found: Collection[Violation]) -> str:
    return listed([str(each) for each in found])
