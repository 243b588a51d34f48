"""What a module may have in a user's cluster: what its ModulePolicy allows.

The Lifecycle Manager may write almost anything there, and so may every Module Manager that may write a SyncResource.
SyncResources are written by module teams: without a ModulePolicy its defaults apply. Manifests are written by the
Lifecycle Manager from the catalog of KCP: without a ModulePolicy they are unrestricted, unless an option says
otherwise. `plan` has the rules that follow; those on single objects are in `lifecycle_manager_api.policy_checks`.

The policy also names the namespace in KCP of the module's ModuleConfigs and SyncResources. Only operators write
policies, so nobody else decides where a module has them; those in other namespaces have no effect. The namespace never
changes while there are ModuleConfigs: the field is immutable, and `namespace_objection` refuses the rest at admission.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from kube_runtime import Change, Informer, Manager, ObjectKey
from lifecycle_manager.contract.resources import MODULE_POLICIES
from lifecycle_manager_api import ModuleConfig, ModulePolicy, SyncResource, names
from lifecycle_manager_api.conditions import counted
from lifecycle_manager_api.policy_checks import ModuleRules


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
