"""The manager of a module: the object that its Manifest names, or else the workloads in its inventory.

Where none is named, Jobs and PersistentVolumeClaims count as well while they exist: a completed Job may be deleted.
CRDs are not checked here, since an apply waits until they are established. Pure functions.
"""

from collections.abc import Iterable

from kube_runtime import InventoryEntry
from kube_runtime.apply.order import is_workload
from lifecycle_manager_api import ManagerReference, names

_OPTIONAL = frozenset({("batch", "Job"), ("", "PersistentVolumeClaim")})


def managers_of(
    manager: ManagerReference | None, inventory: Iterable[InventoryEntry], default_namespace: str = names.SKR_NAMESPACE
) -> tuple[InventoryEntry, ...]:
    """Return the objects whose readiness is that of the module."""
    if manager is None:
        return tuple(filter(is_workload, inventory))
    wanted = InventoryEntry(manager.group, manager.version, manager.kind, manager.namespace, manager.name)
    if manager.namespace:
        return (wanted,)
    alike = (wanted.group, wanted.kind, wanted.name)
    own = next((each for each in inventory if (each.group, each.kind, each.name) == alike), None)
    return (own or InventoryEntry(wanted.group, wanted.version, wanted.kind, default_namespace, wanted.name),)


def optional_managers_of(
    manager: ManagerReference | None, inventory: Iterable[InventoryEntry]
) -> tuple[InventoryEntry, ...]:
    """Return the further objects that a module waits for while they exist."""
    if manager is not None:
        return ()
    return tuple(each for each in inventory if (each.group, each.kind) in _OPTIONAL)
