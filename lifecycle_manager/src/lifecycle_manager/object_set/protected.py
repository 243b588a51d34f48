"""The Lifecycle Manager's own objects in an SKR: no module may write or delete them. Pure functions.

An object is matched by group, kind and name. A namespace counts only for kinds that have one: the API server drops it
from a document of any other kind. A document is matched before its kind is known to the SKR, so the kinds of ours that
have no namespace are named here; what was resolved by the SKR is matched again.
"""

from kube_runtime import InventoryEntry, KubernetesObject
from lifecycle_manager_api import names
from lifecycle_manager_api.crds import KINDS

WATCHER = "skr-webhook"
"""The name, or the prefix of the name, of the Watcher's objects."""

_RBAC = "rbac.authorization.k8s.io"
_OUR_KINDS = frozenset(kind.KIND for kind in KINDS)
_OUR_CRDS = frozenset(f"{kind.PLURAL}.{kind.GROUP}" for kind in KINDS)
_CLUSTER_ROLES = frozenset({(_RBAC, "ClusterRole"), (_RBAC, "ClusterRoleBinding")})
_CLUSTER_SCOPED = _CLUSTER_ROLES | {
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"),
    ("scheduling.k8s.io", "PriorityClass"),
}
"""Kinds without a namespace that the Watcher has objects of, or could have."""


def is_protected(thing: KubernetesObject, pull_secret: str = "") -> bool:
    """Tell whether a document is one of the Lifecycle Manager's own objects.

    `pull_secret` is the name of the image pull Secret, if there is one.
    """
    group, kind = thing.api_version.rpartition("/")[0], thing.kind
    is_own = _is_ours(group, kind, "" if (group, kind) in _CLUSTER_SCOPED else thing.namespace, thing.name)
    # A document that names no namespace may be meant for any: it is matched again as an entry.
    return is_own or _is_pull_secret((group, kind, thing.namespace, thing.name), pull_secret)


def is_protected_entry(entry: InventoryEntry, pull_secret: str = "") -> bool:
    """Tell whether an object, as an SKR has resolved it, is one of the Lifecycle Manager's own."""
    is_own = _is_ours(entry.group, entry.kind, entry.namespace, entry.name)
    return is_own or _is_pull_secret(entry.identity, pull_secret)


def _is_pull_secret(identity: tuple[str, str, str, str], name: str) -> bool:
    return bool(name) and identity == ("", "Secret", names.SKR_NAMESPACE, name)


def _is_ours(group: str, kind: str, namespace: str, name: str) -> bool:
    is_watchers = name == WATCHER or name.startswith(f"{WATCHER}-")
    return (
        (group == names.GROUP and kind in _OUR_KINDS)
        or ((group, kind) == ("apiextensions.k8s.io", "CustomResourceDefinition") and name in _OUR_CRDS)
        or (is_watchers and namespace in ("", names.SKR_NAMESPACE))
        or ((group, kind, name) == ("", "Namespace", names.SKR_NAMESPACE))
        or ((group, kind) in _CLUSTER_ROLES and name == names.LIFECYCLE_MANAGER)
    )
