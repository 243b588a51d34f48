"""Kyma: one user cluster, and the modules that its users want in it."""

from datetime import datetime
from typing import ClassVar, Literal

from lifecycle_manager_api import names
from lifecycle_manager_api.conditions import Condition
from lifecycle_manager_api.meta import ObjectMeta, Struct
from lifecycle_manager_api.references import TrackingObject
from lifecycle_manager_api.state import State

CustomResourcePolicy = Literal["CreateAndDelete", "Ignore"]


class KymaModule(Struct, frozen=True, kw_only=True):
    """A module that is asked for."""

    name: str
    channel: str = ""
    controller: str = ""
    custom_resource_policy: CustomResourcePolicy = "CreateAndDelete"
    managed: bool = True
    remote_module_template_ref: str = ""


class KymaSpec(Struct, frozen=True, kw_only=True):
    """What is wanted."""

    channel: str
    modules: tuple[KymaModule, ...] = ()
    skip_maintenance_windows: bool = False


class LastOperation(Struct, frozen=True, kw_only=True):
    """What was done last."""

    operation: str
    last_update_time: datetime | None = None


class KymaModuleStatus(Struct, frozen=True, kw_only=True):
    """How a module is."""

    name: str
    state: State
    channel: str = ""
    version: str = ""
    message: str = ""
    fqdn: str = ""
    ocm_component_name: str = ""
    maintenance: bool = False
    template: TrackingObject | None = None
    manifest: TrackingObject | None = None
    resource: TrackingObject | None = None


class KymaStatus(Struct, frozen=True, kw_only=True):
    """How it is."""

    state: State = State.EMPTY
    active_channel: str = ""
    conditions: tuple[Condition, ...] = ()
    last_operation: LastOperation | None = None
    modules: tuple[KymaModuleStatus, ...] = ()
    observed_generation: int | None = None


class Kyma(Struct, frozen=True, kw_only=True):
    """One user cluster, and the modules that its users want in it."""

    GROUP: ClassVar[str] = names.GROUP
    VERSION: ClassVar[str] = "v1beta2"
    KIND: ClassVar[str] = "Kyma"
    PLURAL: ClassVar[str] = "kymas"
    NAMESPACED: ClassVar[bool] = True

    api_version: str = f"{names.GROUP}/v1beta2"
    kind: str = "Kyma"
    metadata: ObjectMeta = ObjectMeta()
    spec: KymaSpec
    status: KymaStatus = KymaStatus()
