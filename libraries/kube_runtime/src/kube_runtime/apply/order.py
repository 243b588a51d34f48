"""In which order kinds go into a cluster, and out of it the other way round."""

from collections.abc import Iterable

from kube_runtime.apply.objects import InventoryEntry
from kube_runtime.client.built_in_kinds import BUILT_IN_KINDS

CRD = ("apiextensions.k8s.io", "CustomResourceDefinition")

_RANKS: tuple[frozenset[tuple[str, str]], ...] = (
    frozenset({("", "Namespace"), CRD, ("scheduling.k8s.io", "PriorityClass")}),
    frozenset(
        {
            ("", "ServiceAccount"),
            ("", "ConfigMap"),
            ("", "ResourceQuota"),
            ("", "LimitRange"),
            ("", "PersistentVolume"),
            ("", "PersistentVolumeClaim"),
            ("storage.k8s.io", "StorageClass"),
            ("policy", "PodDisruptionBudget"),
            ("networking.k8s.io", "NetworkPolicy"),
            ("rbac.authorization.k8s.io", "ClusterRole"),
            ("rbac.authorization.k8s.io", "Role"),
        }
    ),
    frozenset(
        {
            ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
            ("rbac.authorization.k8s.io", "RoleBinding"),
            ("", "Secret"),  # a server deletes the token of a ServiceAccount that does not exist
            ("", "Service"),
        }
    ),
)
_WORKLOADS = len(_RANKS)
CUSTOM_RESOURCES = _WORKLOADS + 1
_CALLERS = _WORKLOADS + 2
_CALLING = frozenset(
    {
        ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"),
        ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"),
        ("apiregistration.k8s.io", "APIService"),
        *(
            ("admissionregistration.k8s.io", f"{kind}AdmissionPolicy{part}")
            for kind in ("Validating", "Mutating")
            for part in ("", "Binding")
        ),
    }
)

_REFUSING = _CALLING | {("", "ResourceQuota"), ("", "LimitRange")}

_SERVED = frozenset(api_version.rpartition("/")[0] for api_version, _ in BUILT_IN_KINDS) | {
    "authentication.k8s.io",
    "authorization.k8s.io",
    "certificates.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "internal.apiserver.k8s.io",
    "node.k8s.io",
    "resource.k8s.io",
    "storagemigration.k8s.io",
}
"""The groups of a server. CRDs have others with such names, such as `gateway.networking`."""


_RUNNING = frozenset({("apps", "Deployment"), ("apps", "StatefulSet"), ("apps", "DaemonSet")})


def may_refuse(group: str, kind: str) -> bool:
    """Tell whether an object of a kind can make the API server refuse others: a webhook, a policy, a quota.

    One that is left over can be what an apply fails for.
    """
    return (group, kind) in _REFUSING


def rank_of(group: str, kind: str) -> int:
    """Return the rank of a kind.

    What others stand on comes first, then what runs, then custom resources, which need somebody running to act on
    their finalizers when they are deleted, and at last what makes the API server call somebody or refuse others.
    """
    if (group, kind) in _CALLING:
        return _CALLERS
    known = next((rank for rank, kinds in enumerate(_RANKS) if (group, kind) in kinds), None)
    if known is not None:
        return known
    return _WORKLOADS if is_built_in(group) else CUSTOM_RESOURCES


def is_workload(entry: InventoryEntry) -> bool:
    """Tell whether an object runs Pods for as long as it exists."""
    return (entry.group, entry.kind) in _RUNNING


def ends_running(leaving: Iterable[InventoryEntry], staying: Iterable[InventoryEntry]) -> bool:
    """Tell whether what leaves a set runs Pods, and nothing that stays does."""
    return any(map(is_workload, leaving)) and not any(map(is_workload, staying))


def is_built_in(group: str) -> bool:
    """Tell whether a group is the server's own; the others are of custom resources, some of Kubernetes' projects."""
    return "." not in group or group in _SERVED
