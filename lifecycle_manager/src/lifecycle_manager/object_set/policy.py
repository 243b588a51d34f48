"""What a module may have in a user's cluster: what its ModulePolicy allows, never the Lifecycle Manager's own objects.

The Lifecycle Manager may write almost anything there, and so may every Module Manager that may write a SyncResource.
SyncResources are written by module teams: without a ModulePolicy its defaults apply. Manifests are written by the
Lifecycle Manager from the catalog of KCP: without a ModulePolicy they are unrestricted, unless an option says
otherwise. The rules themselves are in `lifecycle_manager_api.policy_checks`.

The policy also names the namespace in KCP of the module's ModuleConfigs and SyncResources. Only operators write
policies, so nobody else decides where a module has them; those in other namespaces have no effect. The namespace never
changes while there are ModuleConfigs: the field is immutable, and `namespace_objection` refuses the rest at admission.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from kube_runtime import Change, Informer, InventoryEntry, KubernetesObject, Manager, ObjectKey
from lifecycle_manager.contract.resources import MODULE_POLICIES
from lifecycle_manager.contract.verdict import FORBIDDEN, POLICY_VIOLATION
from lifecycle_manager.object_set.inventory import listed, name_of
from lifecycle_manager.object_set.owner_writes import Owner
from lifecycle_manager.object_set.protected import is_protected, is_protected_entry
from lifecycle_manager.object_set.snapshot import SetSnapshot
from lifecycle_manager_api import ModuleConfig, ModulePolicy, SyncResource, names
from lifecycle_manager_api.conditions import counted
from lifecycle_manager_api.policy_checks import ModuleRules, Violation, misplaced, policy_violations
from lifecycle_manager_api.policy_objects import Place, Scopes

PROTECTED = "protected"


@dataclass(frozen=True, eq=False, slots=True)
class Policies:
    informer: Informer[ModulePolicy]

    @classmethod
    def watched_by(cls, manager: Manager) -> "Policies":
        return cls(manager.informer(MODULE_POLICIES, namespace=names.KCP_NAMESPACE))

    def policy_of(self, module: str) -> ModulePolicy | None:
        """Return the ModulePolicy of a module; None where nobody has written one."""
        return self.informer.get(ObjectKey(names.KCP_NAMESPACE, module))

    def of(self, module: str) -> ModuleRules | None:
        """Return the policy of a module; None where nobody has written one."""
        policy = self.policy_of(module)
        return ModuleRules(module, policy.spec) if policy is not None else None

    def namespace_of(self, module: str) -> str:
        """Return the namespace in KCP of a module's ModuleConfigs and SyncResources."""
        policy = self.policy_of(module)
        return policy.spec.control_plane_namespace if policy is not None else names.KCP_NAMESPACE

    def is_in_place(self, part: ModuleConfig | SyncResource) -> bool:
        """Tell whether a ModuleConfig or SyncResource is in the namespace of its module. Others have no effect."""
        return part.metadata.namespace == self.namespace_of(part.spec.module)

    def of_sync_resources(self, module: str) -> ModuleRules:
        """Return the policy of a module's SyncResources: by default the defaults of a ModulePolicy."""
        return self.of(module) or ModuleRules(module)

    def of_manifests(self, module: str, *, restricted: bool) -> ModuleRules | None:
        """Return the policy of a module's Manifests: by default none, or where `restricted` is set, the defaults."""
        return self.of_sync_resources(module) if restricted else self.of(module)


def policy_changed(change: Change[ModulePolicy]) -> bool:
    return change.old is None or change.new is None or change.old.spec != change.new.spec


def module_of_policy(change: Change[ModulePolicy]) -> str:
    policy = change.new or change.old
    return policy.metadata.name if policy is not None else ""


def namespace_objection(
    policy: ModulePolicy, configs: Iterable[ModuleConfig], *, is_deletion: bool = False
) -> str | None:
    """Return why a ModulePolicy may not be created or deleted: the module has ModuleConfigs in its present namespace.

    Without a policy that is kcp-system. ModuleConfigs in other namespaces don't count: anybody may have written them.
    """
    module, namespace = policy.metadata.name, policy.spec.control_plane_namespace
    present, later = (namespace, names.KCP_NAMESPACE) if is_deletion else (names.KCP_NAMESPACE, namespace)
    if present == later:
        return None
    count = sum((each.spec.module, each.metadata.namespace) == (module, present) for each in configs)
    if not count:
        return None
    change = "without this policy" if is_deletion else "by spec.controlPlaneNamespace"
    return (
        f"{change} the namespace of module {module} would be {later}, and it has {counted(count, 'ModuleConfig')} in "
        f"{present}; a module cannot move. First remove it from all Kymas, or set spec.enableModuleConfig of its "
        "ModuleTemplates to false, and wait until its ModuleConfigs are deleted"
    )


class Objection(NamedTuple):
    """Why objects are not applied."""

    reason: str
    message: str


def objection_in(
    seen: SetSnapshot[Owner], objects: Iterable[KubernetesObject], *, forbidden: str = FORBIDDEN
) -> Objection | None:
    """Return which objects the module may not have by its policy, or nobody but the Lifecycle Manager; None where none.

    Once the SKR has stated it, it is known which are namespaced. `forbidden` is the reason of the latter.
    """
    if seen.recorded or seen.applied is not None:
        return None
    scopes = scopes_of(seen.wanted) if seen.wanted is not None else None
    if seen.rules is not None and (
        found := objections(objects, seen.rules, scopes, default_namespace=seen.default_namespace)
    ):
        return Objection(POLICY_VIOLATION, message_of(found))
    if protected := sorted(each for each in seen.wanted or () if is_protected_entry(each, seen.pull_secret)):
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
    return {(each.group, each.kind): bool(each.namespace) for each in entries}


def message_of(found: Collection[Violation]) -> str:
    return listed([str(each) for each in found])
