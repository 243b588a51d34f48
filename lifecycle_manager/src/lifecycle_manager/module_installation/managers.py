"""What runs a module: the object that its Manifest names, or else the workloads among its objects.

Where none is named, Jobs and claims of storage count as well while they are there: a Job that is done may be cleared
away. Of definitions nothing is asked here, for an apply waits until they are served.
"""

from collections.abc import Iterable

from kube_runtime import Client, InventoryEntry, JsonObject, KindUnknown, NotFound, readiness
from lifecycle_manager.module_installation.status import ManagerView
from lifecycle_manager_api import ManagerReference, names

_WORKLOADS = frozenset({("apps", "Deployment"), ("apps", "StatefulSet"), ("apps", "DaemonSet")})
_WAITED_FOR = frozenset({("batch", "Job"), ("", "PersistentVolumeClaim")})


def managers_of(
    manager: ManagerReference | None, inventory: Iterable[InventoryEntry], default_namespace: str = names.SKR_NAMESPACE
) -> tuple[InventoryEntry, ...]:
    """Return the objects by whose readiness a module's own is told."""
    if manager is None:
        return tuple(each for each in inventory if (each.group, each.kind) in _WORKLOADS)
    wanted = InventoryEntry(manager.group, manager.version, manager.kind, manager.namespace, manager.name)
    if manager.namespace:
        return (wanted,)
    alike = (wanted.group, wanted.kind, wanted.name)
    own = next((each for each in inventory if (each.group, each.kind, each.name) == alike), None)
    return (own or InventoryEntry(wanted.group, wanted.version, wanted.kind, default_namespace, wanted.name),)


def waited_for(manager: ManagerReference | None, inventory: Iterable[InventoryEntry]) -> tuple[InventoryEntry, ...]:
    """Return the other objects by whose readiness a module's own is told, as long as they are there."""
    if manager is not None:
        return ()
    return tuple(each for each in inventory if (each.group, each.kind) in _WAITED_FOR)


async def manager_seen(skr: Client, entry: InventoryEntry, live: JsonObject | None = None) -> ManagerView:
    """Judge one of them, which is read unless that was just done. Raises KubeError."""
    where = f"{entry.namespace}/{entry.name}" if entry.namespace else entry.name
    name = f"{entry.kind} {where}"
    try:
        if live is None:
            resource = await skr.mapper.resource(entry.api_version, entry.kind)
            live = await skr.get(resource, entry.name, entry.namespace or None)
    except (KindUnknown, NotFound):
        return ManagerView(name, None)
    return ManagerView(name, readiness(live))
