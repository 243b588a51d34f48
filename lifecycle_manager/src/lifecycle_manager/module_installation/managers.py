"""The manager of a module: the object that its Manifest names, or else the workloads in its inventory.

Where none is named, Jobs and PersistentVolumeClaims count as well while they exist: a completed Job may be deleted.
CRDs are not checked here, since an apply waits until they are established. Pure functions.

Why containers do not run is in the status of Pods alone: the workload says that they don't when its deadline has
passed, a StatefulSet never.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from kube_runtime import InventoryEntry, Readiness
from lifecycle_manager.module_installation.logins import as_query
from lifecycle_manager_api import LabelSelector, ManagerReference, names
from lifecycle_manager_api.conditions import shortened

_WORKLOADS = frozenset({("apps", "Deployment"), ("apps", "StatefulSet"), ("apps", "DaemonSet")})
_PULL_FAULTS = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})
_CRASHES = "CrashLoopBackOff"
_MAX_IMAGE_LENGTH = 256
_MAX_NAME_LENGTH = 63
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


class _Terminated(msgspec.Struct, frozen=True, rename="camel"):
    exit_code: int = 0
    reason: str = ""


class _ContainerState(msgspec.Struct, frozen=True):
    waiting: _Waiting | None = None
    terminated: _Terminated | None = None


class _Container(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    image: str = ""
    ready: bool = False
    restart_count: int = 0
    state: _ContainerState = _ContainerState()
    last_state: _ContainerState = _ContainerState()


class _Containers(msgspec.Struct, frozen=True, rename="camel"):
    init_container_statuses: tuple[_Container, ...] = ()
    container_statuses: tuple[_Container, ...] = ()


class _Pod(msgspec.Struct, frozen=True):
    status: _Containers = _Containers()


class _Spec(msgspec.Struct, frozen=True):
    selector: LabelSelector = LabelSelector()


class _Generation(msgspec.Struct, frozen=True):
    generation: int = 0


class _Counts(msgspec.Struct, frozen=True, rename="camel"):
    observed_generation: int = 0
    replicas: int = 0
    current_number_scheduled: int = 0


class _Workload(msgspec.Struct, frozen=True):
    metadata: _Generation = _Generation()
    spec: _Spec = _Spec()
    status: _Counts = _Counts()


def pods_of(entry: InventoryEntry, live: Mapping[str, Any]) -> str:
    """Return the label selector of a workload's Pods; empty where it has none (yet), or only those of its past."""
    if (entry.group, entry.kind) not in _WORKLOADS:
        return ""
    try:
        workload = msgspec.convert(live, _Workload)
    except msgspec.ValidationError:
        return ""  # malformed counts as absent
    status = workload.status
    has_pods = status.replicas > 0 or status.current_number_scheduled > 0
    is_observed = status.observed_generation >= workload.metadata.generation
    return as_query(workload.spec.selector) if has_pods and is_observed else ""


def with_pods(found: Readiness, pods: Iterable[Mapping[str, Any]]) -> Readiness:
    """Return the readiness of a workload that is not ready with the cause in its Pods, as far as they name one.

    An image that can't be pulled fails the workload at once; a container that crashes may still recover. It is named
    while it runs again, too: else the text would change with each crash. What is malformed counts as absent.
    """
    crash = ""
    for pod in pods:
        try:
            status = msgspec.convert(pod, _Pod).status
        except msgspec.ValidationError:
            continue
        for each in (*status.init_container_statuses, *status.container_statuses):
            reason = each.state.waiting.reason if each.state.waiting is not None else ""
            if reason in _PULL_FAULTS:
                return Readiness("Failed", f"{reason}: image {shortened(each.image, _MAX_IMAGE_LENGTH)}")
            ended = each.last_state.terminated
            if not each.ready and ended is not None and (each.restart_count > 0 or reason == _CRASHES):
                crash = crash or (
                    f"{_CRASHES}: container {shortened(each.name, _MAX_NAME_LENGTH)} ended with exit code "
                    f"{ended.exit_code} ({shortened(ended.reason, _MAX_NAME_LENGTH)})"
                )
    return Readiness(found.state, f"{found.message.rstrip('.')}: {crash}") if crash else found
