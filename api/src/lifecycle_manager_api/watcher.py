"""Watcher: which changes in the clusters a manager wants to hear of."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from lifecycle_manager_api import names
from lifecycle_manager_api.conditions import Conditions
from lifecycle_manager_api.fields import REQUIRED, default, schema
from lifecycle_manager_api.kinds import AGE, READY, REASON, STATE, ApiObject, Column
from lifecycle_manager_api.meta import Struct
from lifecycle_manager_api.selectors import Selector
from lifecycle_manager_api.state import State


class WatchedResource(Struct, frozen=True, kw_only=True):
    """The resource whose changes are told."""

    group: str
    """API group of the resource; empty for the core group."""
    version: str
    """API version of the resource; * for every one."""
    resource: str
    """Plural name of the resource, kymas for instance."""


class Gateway(Struct, frozen=True, kw_only=True):
    """An Istio Gateway in front of the control plane."""

    selector: Selector
    """Labels of the Gateway."""


class ServiceInfo(Struct, frozen=True, kw_only=True):
    """The Service in the control plane that takes the events."""

    name: str
    """Name of the Service."""
    namespace: str
    """Namespace of the Service."""
    port: Annotated[int, schema(minimum=1, maximum=65535)]
    """Port of the Service."""


class WatcherSpec(Struct, frozen=True, kw_only=True):
    """What is wanted."""

    field: Literal["spec", "status"]
    """Which part of an object has to change for the manager to hear of it."""
    gateway: Gateway
    """An Istio Gateway. Kept for set-ups that have one; Lifecycle Manager's own endpoint needs none."""
    resource_to_watch: WatchedResource
    """The resource whose changes are told."""
    service_info: ServiceInfo
    """Where the events go."""
    labels_to_watch: Mapping[str, str] = {}
    """Labels that an object has to have for its changes to be told. Left out, all objects count."""
    manager: str = ""
    """Name of the manager that the events are for. Left out, the label operator.kyma-project.io/managed-by counts."""


class WatcherStatus(Struct, frozen=True, kw_only=True):
    """How it is."""

    state: Annotated[State, REQUIRED, default("")] = State.EMPTY
    """All aspects added up to one word."""
    conditions: Conditions = ()
    """The aspects one by one. Ready stands for all of them."""
    observed_generation: int | None = None
    """The metadata.generation that this status speaks of. An older one means that a change is still to be seen."""


class Watcher(ApiObject, frozen=True, kw_only=True):
    """Which changes in the clusters a manager wants to hear of."""

    GROUP: ClassVar[str] = names.GROUP
    VERSION: ClassVar[str] = "v1beta2"
    KIND: ClassVar[str] = "Watcher"
    PLURAL: ClassVar[str] = "watchers"
    SHORT_NAMES: ClassVar[tuple[str, ...]] = ("kw",)
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        STATE,
        READY,
        REASON,
        Column("Resource", ".spec.resourceToWatch.resource"),
        Column("Field", ".spec.field", wide=True),
        AGE,
    )

    api_version: str = f"{names.GROUP}/v1beta2"
    kind: str = "Watcher"
    spec: WatcherSpec
    """What is wanted."""
    status: WatcherStatus = WatcherStatus()
    """How it is."""
