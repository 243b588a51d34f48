"""The Lifecycle Manager's own objects in an SKR: no module may write or delete them. Pure functions."""

from kube_runtime import KubernetesObject
from lifecycle_manager_api import names
from lifecycle_manager_api.crds import KINDS

WATCHER = "skr-webhook"
"""The name, or the prefix of the name, of the Watcher's objects."""

_OUR_KINDS = frozenset(kind.KIND for kind in KINDS)
_OUR_CRDS = frozenset(f"{kind.PLURAL}.{kind.GROUP}" for kind in KINDS)


def is_protected(thing: KubernetesObject) -> bool:
    """Tell whether an object is one of the Lifecycle Manager's own."""
    is_watchers = thing.name == WATCHER or thing.name.startswith(f"{WATCHER}-")
    return (
        (thing.api_version.partition("/")[0] == names.GROUP and thing.kind in _OUR_KINDS)
        or (thing.kind == "CustomResourceDefinition" and thing.name in _OUR_CRDS)
        or (is_watchers and thing.namespace in ("", names.SKR_NAMESPACE))
        or (thing.api_version, thing.kind, thing.name) == ("v1", "Namespace", names.SKR_NAMESPACE)
        or (thing.kind in {"ClusterRole", "ClusterRoleBinding"} and thing.name == names.LIFECYCLE_MANAGER)
    )
