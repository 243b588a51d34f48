"""What a Module Manager may have in a user's cluster. Pure functions.

The Lifecycle Manager may write almost anything there, and so may every Module Manager that may write a SyncResource.
So objects that reach beyond a module's own need the operator's permission, for each module.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from enum import StrEnum

from kube_runtime import KubernetesObject
from lifecycle_manager.object_set.protected import is_protected

SYSTEM_NAMESPACES = frozenset({"kube-system", "kube-public", "kube-node-lease"})


class Allowance(StrEnum):
    """What an operator can allow a module beyond its own objects."""

    CLUSTER_RBAC = "cluster-rbac"
    ADMISSION = "admission"
    SYSTEM_NAMESPACES = "system-namespaces"


Allowances = Mapping[str, frozenset[Allowance]]
"""What each module is allowed, by its name."""


class UnknownAllowance(ValueError):
    """An allowance is not written as `module=allowance`, or there is none of that name."""


def parse_allowances(texts: Iterable[str]) -> Allowances:
    """Return what is allowed from texts such as `telemetry=cluster-rbac`. Raises UnknownAllowance."""
    allowed: dict[str, frozenset[Allowance]] = {}
    for text in texts:
        module, separator, name = text.partition("=")
        if not module or not separator or name not in list(Allowance):
            known = ", ".join(Allowance)
            raise UnknownAllowance(f"{text!r} is no allowance; write MODULE=ALLOWANCE, with one of {known}")
        allowed[module] = allowed.get(module, frozenset()) | {Allowance(name)}
    return allowed


def forbidden(objects: Iterable[KubernetesObject], allowed: Collection[Allowance]) -> str | None:
    """Return which object a module may not have in an SKR and why, None where it may have all of them."""
    for thing in objects:
        if is_protected(thing):
            return f"document {thing.index}: {thing} belongs to the Lifecycle Manager"
        for allowance, concerns, what in _RULES:
            if allowance not in allowed and concerns(thing):
                return (
                    f"document {thing.index}: {thing} is {what}, which this module is not allowed; "
                    f"an operator can allow it: {allowance}"
                )
    return None


def _cluster_wide_rights(thing: KubernetesObject) -> bool:
    return _group(thing) == "rbac.authorization.k8s.io" and thing.kind in {"ClusterRole", "ClusterRoleBinding"}


def _part_of_admission(thing: KubernetesObject) -> bool:
    return _group(thing) in {"admissionregistration.k8s.io", "apiregistration.k8s.io"}


def _in_a_system_namespace(thing: KubernetesObject) -> bool:
    return thing.namespace in SYSTEM_NAMESPACES or (thing.kind == "Namespace" and thing.name in SYSTEM_NAMESPACES)


def _group(thing: KubernetesObject) -> str:
    return thing.api_version.rpartition("/")[0]


_RULES: tuple[tuple[Allowance, Callable[[KubernetesObject], bool], str], ...] = (
    (Allowance.CLUSTER_RBAC, _cluster_wide_rights, "a right in the whole cluster"),
    (Allowance.ADMISSION, _part_of_admission, "a part of the API server's admission or aggregation"),
    (Allowance.SYSTEM_NAMESPACES, _in_a_system_namespace, "in a system namespace"),
)
