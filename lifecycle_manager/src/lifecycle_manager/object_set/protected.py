"""The Lifecycle Manager's own objects in an SKR: no module may write or delete them. Pure functions."""

from collections.abc import Callable

from kube_runtime import KubernetesObject
from lifecycle_manager_api import names
from lifecycle_manager_api.crds import KINDS

WATCHER = "skr-webhook"
"""The name, or the prefix of the name, of the Watcher's objects."""

_OUR_KINDS = frozenset(kind.KIND for kind in KINDS)
_OUR_CRDS = frozenset(f"{kind.PLURAL}.{kind.GROUP}" for kind in KINDS)


def is_protected(thing: KubernetesObject) -> bool:
    """Tell whether an object is one of the Lifecycle Manager's own."""
    return any(check(thing) for check in _CHECKS)


def _one_of_our_kinds(thing: KubernetesObject) -> bool:
    return thing.api_version.partition("/")[0] == names.GROUP and thing.kind in _OUR_KINDS


def _crd_of_our_kinds(thing: KubernetesObject) -> bool:
    return thing.kind == "CustomResourceDefinition" and thing.name in _OUR_CRDS


def _part_of_the_watcher(thing: KubernetesObject) -> bool:
    in_namespace = thing.namespace in ("", names.SKR_NAMESPACE)
    return in_namespace and (thing.name == WATCHER or thing.name.startswith(f"{WATCHER}-"))


def _namespace_of_the_watcher(thing: KubernetesObject) -> bool:
    return (thing.api_version, thing.kind, thing.name) == ("v1", "Namespace", names.SKR_NAMESPACE)


def _rights_of_ours(thing: KubernetesObject) -> bool:
    return thing.kind in {"ClusterRole", "ClusterRoleBinding"} and thing.name == names.LIFECYCLE_MANAGER


_CHECKS: tuple[Callable[[KubernetesObject], bool], ...] = (
    _one_of_our_kinds,
    _crd_of_our_kinds,
    _part_of_the_watcher,
    _namespace_of_the_watcher,
    _rights_of_ours,
)
