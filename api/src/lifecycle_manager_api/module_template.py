"""ModuleTemplate: one version of a module, as the catalog offers it."""

from typing import ClassVar

import msgspec

from lifecycle_manager_api import names
from lifecycle_manager_api.meta import ObjectMeta, Struct
from lifecycle_manager_api.references import GroupVersionKind, ManagerReference
from lifecycle_manager_api.state import State


class CustomStateCheck(Struct, frozen=True, kw_only=True):
    """Which value in the Module CR stands for which state."""

    json_path: str
    value: str
    mapped_state: State


class Icon(Struct, frozen=True, kw_only=True):
    """A picture of the module."""

    name: str
    link: str


class ModuleInfo(Struct, frozen=True, kw_only=True):
    """Where to read about the module."""

    repository: str
    documentation: str
    icons: tuple[Icon, ...] = ()


class ModuleResource(Struct, frozen=True, kw_only=True):
    """A file that belongs to the module."""

    name: str
    link: str


class ModuleTemplateSpec(Struct, frozen=True, kw_only=True):
    """What the version consists of."""

    descriptor: msgspec.Raw
    associated_resources: tuple[GroupVersionKind, ...] = ()
    channel: str = ""
    custom_state_check: tuple[CustomStateCheck, ...] = ()
    data: msgspec.Raw = msgspec.Raw(b"null")
    enable_module_config: bool = False
    info: ModuleInfo | None = None
    manager: ManagerReference | None = None
    mandatory: bool = False
    module_name: str = ""
    requires_downtime: bool = False
    resources: tuple[ModuleResource, ...] = ()
    version: str = ""


class ModuleTemplate(Struct, frozen=True, kw_only=True):
    """ModuleTemplate: one version of a module, as the catalog offers it."""

    GROUP: ClassVar[str] = names.GROUP
    VERSION: ClassVar[str] = "v1beta2"
    KIND: ClassVar[str] = "ModuleTemplate"
    PLURAL: ClassVar[str] = "moduletemplates"
    NAMESPACED: ClassVar[bool] = True

    api_version: str = f"{names.GROUP}/v1beta2"
    kind: str = "ModuleTemplate"
    metadata: ObjectMeta = ObjectMeta()
    spec: ModuleTemplateSpec
