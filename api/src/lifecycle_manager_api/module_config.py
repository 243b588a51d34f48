"""ModuleConfig: a user's Module CR, for the module's Module Manager."""

from typing import ClassVar

from lifecycle_manager_api import names
from lifecycle_manager_api.conditions import Condition
from lifecycle_manager_api.kyma import LastOperation
from lifecycle_manager_api.meta import ObjectMeta, Struct
from lifecycle_manager_api.references import ObjectReference
from lifecycle_manager_api.state import State


class ModuleConfigSpec(Struct, frozen=True, kw_only=True):
    """What the user wants, as text."""

    kyma: str
    module: str
    resource: str = ""
    resource_ref: ObjectReference | None = None


class ModuleConfigStatus(Struct, frozen=True, kw_only=True):
    """How it is."""

    state: State = State.EMPTY
    conditions: tuple[Condition, ...] = ()
    last_operation: LastOperation | None = None
    observed_generation: int | None = None


class ModuleConfig(Struct, frozen=True, kw_only=True):
    """ModuleConfig: a user's Module CR, for the module's Module Manager."""

    GROUP: ClassVar[str] = names.GROUP
    VERSION: ClassVar[str] = "v1alpha1"
    KIND: ClassVar[str] = "ModuleConfig"
    PLURAL: ClassVar[str] = "moduleconfigs"
    NAMESPACED: ClassVar[bool] = True

    api_version: str = f"{names.GROUP}/v1alpha1"
    kind: str = "ModuleConfig"
    metadata: ObjectMeta = ObjectMeta()
    spec: ModuleConfigSpec
    status: ModuleConfigStatus = ModuleConfigStatus()
