"""The manager of a module: the object that its Manifest names, or else the workloads in its inventory.

Where none is named, Jobs and PersistentVolumeClaims count as well while they exist: a completed Job may be deleted.
CRDs are not checked here, since an apply waits until they are established. Pure functions.

Whether an image can be pulled is in the status of Pods alone: the workload says so when its deadline has passed, a
StatefulSet never.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from kube_runtime import InventoryEntry
from lifecycle_manager.module_installation.logins import as_query
from lifecycle_manager_api import LabelSelector, ManagerReference, names
from lifecycle_manager_api.conditions import shortened

_WORKLOADS = frozenset({("apps", "Deployment"), ("apps", "StatefulSet"), ("apps", "DaemonSet")})
_PULL_FAULTS = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})
_MAX_IMAGE_LENGTH = 256
_OPTIONAL = frozenset({("batch", "Job"), ("", "PersistentVolumeClaim")})


def managers_of(
    manager: ManagerReference | None, inventory: Iterable[InventoryEntry], default_namespace: str = names.SKR_NAMESPACE
) -> tuple[InventoryEntry, ...]:
    """Return the objects whose readiness is that of the module."""
    if manager is None:
        return tuple(each for each in inventory if (each.group, each.kind) in _WORKLOADS)
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


class _Waiting(msgspec.Struct, frozen=True):
    reason: str = ""


class _ContainerState(msgspec.Struct, frozen=True):
    waiting: _Waiting | None = None


class _Container(msgspec.Struct, frozen=True):
    image: str = ""
    state: _ContainerState = _ContainerState()


class _Containers(msgspec.Struct, frozen=True, rename="camel"):
    init_container_statuses: tuple[_Container, ...] = ()
    container_statuses: tuple[_Container, ...] = ()


class _Pod(msgspec.Struct, frozen=True):
    status: _Containers = _Containers()


class _Spec(msgspec.Struct, frozen=True):
    selector: LabelSelector = LabelSelector()


class _Counts(msgspec.Struct, frozen=True, rename="camel"):
    replicas: int = 0
    current_number_scheduled: int = 0


class _Workload(msgspec.Struct, frozen=True):
    spec: _Spec = _Spec()
    status: _Counts = _Counts()


def pods_of(entry: InventoryEntry, live: Mapping[str, Any]) -> str:
    """Return the label selector of a workload's Pods; empty where it has none (yet)."""
    if (entry.group, entry.kind) not in _WORKLOADS:
        return ""
    try:
        workload = msgspec.convert(live, _Workload)
    except msgspec.ValidationError:
        return ""  # malformed counts as absent
    has_pods = workload.status.replicas > 0 or workload.status.current_number_scheduled > 0
    return as_query(workload.spec.selector) if has_pods else ""


def image_fault(pods: Iterable[Mapping[str, Any]]) -> str:
    """Return why an image of a Pod can't be pulled; empty where none is known. What is malformed counts as absent."""
    for pod in pods:
        try:
            found = msgspec.convert(pod, _Pod).status
        except msgspec.ValidationError:
            continue
        for each in (*found.init_container_statuses, *found.container_statuses):
            if each.state.waiting is not None and each.state.waiting.reason in _PULL_FAULTS:
                return f"{each.state.waiting.reason}: image {shortened(each.image, _MAX_IMAGE_LENGTH)}"
    return ""
