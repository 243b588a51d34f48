"""Watcher: which changes in the clusters a manager wants to hear of."""

from collections.abc import Mapping
from typing import ClassVar, Literal

from lifecycle_manager_api import names
from lifecycle_manager_api.conditions import Condition
from lifecycle_manager_api.meta import LabelSelector, ObjectMeta, Struct
from lifecycle_manager_api.state import State


class WatchedResource(Struct, frozen=True, kw_only=True):
    """The resource whose changes are told."""

    group: str
    version: str
    resource: str


class Gateway(Struct, frozen=True, kw_only=True):
    """The gateway of upstream's set-ups; accepted and not used."""

    selector: LabelSelector


class ServiceInfo(Struct, frozen=True, kw_only=True):
    """The service that takes the events."""

    name: str
    namespace: str
    port: int


class WatcherSpec(Struct, frozen=True, kw_only=True):
    """What is wanted."""

    field: Literal["spec", "status"]
    gateway: Gateway
    resource_to_watch: WatchedResource
    service_info: ServiceInfo
    labels_to_watch: Mapping[str, str] = {}
    manager: str = ""


class WatcherStatus(Struct, frozen=True, kw_only=True):
    """How it is."""

    state: State = State.EMPTY
    conditions: tuple[Condition, ...] = ()
    observed_generation: int | None = None


class Watcher(Struct, frozen=True, kw_only=True):
    """Watcher: which changes in the clusters a manager wants to hear of."""

    GROUP: ClassVar[str] = names.GROUP
    VERSION: ClassVar[str] = "v1beta2"
    KIND: ClassVar[str] = "Watcher"
    PLURAL: ClassVar[str] = "watchers"
    NAMESPACED: ClassVar[bool] = True

    api_version: str = f"{names.GROUP}/v1beta2"
    kind: str = "Watcher"
    metadata: ObjectMeta = ObjectMeta()
    spec: WatcherSpec
    status: WatcherStatus = WatcherStatus()
