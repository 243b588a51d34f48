"""Policies of modules for tests."""

from lifecycle_manager_api import ClusterResource, KindRule, ModulePolicySpec, NamespacedResources
from lifecycle_manager_api.policy_checks import SYSTEM_NAMESPACES, ModuleRules

ANYTHING = ModulePolicySpec(
    namespaces=("*", *sorted(SYSTEM_NAMESPACES)),
    cluster_resources=(ClusterResource(group="*", kind="*", names=("*",)),),
    namespaced_resources=NamespacedResources(allow=(KindRule(group="*", kind="*", names=("*",)),), deny=()),
    pod_security="privileged",
    service_accounts=("*",),
    secrets=("*",),
    hosts=("*",),
    addresses=("*",),
    pod_labels=("*",),
)
"""Allows all that a policy can allow."""


def anything(module: str = "cloud-resources") -> ModuleRules:
    return ModuleRules(module, ANYTHING)
