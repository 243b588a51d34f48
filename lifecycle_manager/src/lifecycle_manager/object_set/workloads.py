"""The readiness of workloads in an SKR, with the cause in their Pods.

Why containers do not run is in the status of Pods alone: the workload says that they don't when its deadline has
passed, a StatefulSet never.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from kube_runtime import Client, Forbidden, InventoryEntry, JsonObject, Readiness, Resource, readiness
from kube_runtime.apply.order import is_workload
from lifecycle_manager_api import LabelSelector
from lifecycle_manager_api.conditions import shortened

PODS: Resource[JsonObject] = Resource.dynamic("", "v1", "Pod", "pods", namespaced=True)
MAX_PODS = 20
"""How many Pods of a workload are read."""
_PULL_FAULTS = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})
_CRASHES = "CrashLoopBackOff"
_MAX_IMAGE_LENGTH = 256
_MAX_NAME_LENGTH = 63


async def readiness_with_pods(skr: Client, entry: InventoryEntry, live: JsonObject) -> Readiness:
    """Return the readiness of an object; of a workload that is not ready with what its Pods say. Raises KubeError."""
    found = readiness(live)
    if found.state in {"InProgress", "Failed"} and (selector := pods_of(entry, live)):
        return with_pods(found, await _pods(skr, entry.namespace, selector))
    return found


async def _pods(skr: Client, namespace: str, selector: str) -> Sequence[JsonObject]:
    """Return the first Pods of a workload. Raises KubeError."""
    try:
        async for page in skr.pages(PODS, namespace, label_selector=selector, page_size=MAX_PODS):
            return page.items
    except Forbidden:
        pass  # an SKR with the role of an earlier version: its workloads say so once their deadline has passed
    return ()


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
    if not is_workload(entry):
        return ""
    try:
        workload = msgspec.convert(live, _Workload)
    except msgspec.ValidationError:
        return ""  # malformed counts as absent
    status = workload.status
    has_pods = status.replicas > 0 or status.current_number_scheduled > 0
    is_observed = status.observed_generation >= workload.metadata.generation
    return str(workload.spec.selector) if has_pods and is_observed else ""


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
