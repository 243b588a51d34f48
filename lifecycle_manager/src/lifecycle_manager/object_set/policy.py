"""What a module may have in a user's cluster: what its ModulePolicy allows, never the Lifecycle Manager's own objects.

The Lifecycle Manager may write almost anything there, and so may every Module Manager that may write a SyncResource.
SyncResources are written by module teams: without a ModulePolicy its defaults apply. Manifests are written by the
Lifecycle Manager from the catalog of KCP: without a ModulePolicy they are unrestricted, unless an option says
otherwise. The rules themselves are in `lifecycle_manager_api.policy_checks`.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from kube_runtime import Change, Informer, InventoryEntry, KubernetesObject, Manager, ObjectKey
from lifecycle_manager.contract.resources import MODULE_POLICIES
from lifecycle_manager.object_set.inventory import listed
from lifecycle_manager.object_set.protected import is_protected
from lifecycle_manager_api import ModulePolicy, names
from lifecycle_manager_api.policy_checks import ModuleRules, Place, Scopes, Violation, misplaced, policy_violations

PROTECTED = "protected"


@dataclass(frozen=True, eq=False, slots=True)
class Policies:
    """The ModulePolicies in KCP."""

    informer: Informer[ModulePolicy]

    @classmethod
    def watched_by(cls, manager: Manager) -> "Policies":
        """Return the policies as an informer of a Manager has them."""
        return cls(manager.informer(MODULE_POLICIES, namespace=names.KCP_NAMESPACE))

    def of(self, module: str) -> ModuleRules | None:
        """Return the policy of a module; None where nobody has written one."""
        policy = self.informer.get(ObjectKey(names.KCP_NAMESPACE, module))
        return ModuleRules(module, policy.spec) if policy is not None else None

    def of_sync_resources(self, module: str) -> ModuleRules:
        """Return the policy of a module's SyncResources: by default the defaults of a ModulePolicy."""
        return self.of(module) or ModuleRules(module)

    def of_manifests(self, module: str, *, restricted: bool) -> ModuleRules | None:
        """Return the policy of a module's Manifests: by default none, or where `restricted` is set, the defaults."""
        return self.of_sync_resources(module) if restricted else self.of(module)


def policy_changed(change: Change[ModulePolicy]) -> bool:
    """Tell whether a ModulePolicy was written or deleted."""
    return change.old is None or change.new is None or change.old.spec != change.new.spec


def module_of_policy(change: Change[ModulePolicy]) -> str:
    """Return the module of a ModulePolicy that changed."""
    policy = change.new or change.old
    return policy.metadata.name if policy is not None else ""


def objections(
    objects: Iterable[KubernetesObject], rules: ModuleRules, scopes: Scopes | None = None, *, default_namespace: str
) -> tuple[Violation, ...]:
    """Return why a module may not have a set of objects; nothing where it may.

    `scopes` are those that the SKR has stated, see `policy_violations`.
    """
    things = tuple(objects)
    protected = (
        Violation(each.index, str(each), PROTECTED, "it belongs to the Lifecycle Manager")
        for each in things
        if is_protected(each)
    )
    return (*protected, *policy_violations(things, rules, scopes, default_namespace=default_namespace))


def held_back(
    entries: Iterable[InventoryEntry], rules: ModuleRules | None
) -> tuple[tuple[InventoryEntry, ...], tuple[Violation, ...]]:
    """Return the objects of an inventory that a module may not delete, and why."""
    by_place = {Place(each.group, each.kind, each.namespace, each.name): each for each in entries}
    found = tuple(misplaced(by_place, rules)) if rules is not None else ()
    return tuple(dict.fromkeys(by_place[place] for place, _ in found)), tuple(violation for _, violation in found)


def scopes_of(entries: Iterable[InventoryEntry]) -> Scopes:
    """Return whether the kinds of resolved objects are namespaced."""
    return {(each.group, each.kind): bool(each.namespace) for each in entries}


def message_of(found: Collection[Violation]) -> str:
    """Return violations as the message of a condition."""
    return listed([str(each) for each in found])
