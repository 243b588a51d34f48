"""Watcher: the changes in clusters that a manager receives events for."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from kube_crds import AGE, REQUIRED, Column, Conditions, Struct, default, schema
from lifecycle_manager_api import names
from lifecycle_manager_api.kinds import READY, REASON, STATE, ApiObject
from lifecycle_manager_api.selectors import Selector
from lifecycle_manager_api.state import State


class WatchedResource(Struct, frozen=True, kw_only=True):
    """The resource to watch."""

    group: str
    """API group of the resource; empty for the core group."""
    version: str
    """API version of the resource; * for all versions."""
    resource: str
    """Plural name of the resource, for example kymas."""


class Gateway(Struct, frozen=True, kw_only=True):
    """Istio Gateways in front of the control plane."""

    selector: Selector
    """Labels of the Gateways."""


class ServiceInfo(Struct, frozen=True, kw_only=True):
    """The Service in the control plane that receives the events."""

    name: str
    """Name of the Service."""
    namespace: str
    """Namespace of the Service."""
    port: Annotated[int, schema(minimum=1, maximum=65535)]
    """Port of the Service."""


class WatcherSpec(Struct, frozen=True, kw_only=True):
    """The desired state."""

    field: Literal["spec", "status"]
    """The part of an object whose changes are reported: spec or status."""
    gateway: Gateway
    """The Istio Gateways that route the events, if Lifecycle Manager runs with watcher-virtual-services."""
    resource_to_watch: WatchedResource
    """The resource to watch."""
    service_info: ServiceInfo
    """The receiver of the events."""
    labels_to_watch: Mapping[str, str] = {}
    """Required labels of the objects to watch. Left out, all objects are watched."""
    manager: str = ""
    """Name of the manager of the events. Left out, the label operator.kyma-project.io/managed-by is used."""


class WatcherStatus(Struct, frozen=True, kw_only=True):
    """The observed state."""

    state: Annotated[State, REQUIRED, default("")] = State.EMPTY
    """Summary of all conditions."""
    conditions: Conditions = ()
    """The conditions. Ready summarizes the others."""
    observed_generation: int | None = None
    """The metadata.generation that this status is about. If it is older, the last change is not reconciled yet."""


class Watcher(ApiObject, frozen=True, kw_only=True):
    """The changes in clusters that a manager receives events for."""

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
    """The desired state."""
    status: WatcherStatus = WatcherStatus()
    """The observed state."""
