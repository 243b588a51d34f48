"""ModuleTemplate: one version of a module, as the catalog offers it."""

from typing import Annotated, ClassVar

import msgspec

from lifecycle_manager_api import names
from lifecycle_manager_api.fields import (
    ATOMIC_MAP,
    EMBEDDED_OBJECT,
    ModuleName,
    ModuleVersion,
    default,
    keyed_by,
    schema,
)
from lifecycle_manager_api.kinds import AGE, ApiObject, Column
from lifecycle_manager_api.meta import Struct
from lifecycle_manager_api.references import GroupVersionKind, ManagerReference
from lifecycle_manager_api.state import State


class CustomStateCheck(Struct, frozen=True, kw_only=True):
    """Which value in the Module CR stands for which state."""

    json_path: str
    """Where the value stands in the Module CR, as a JSONPath without the leading $, status.health for instance."""
    value: str
    """The value that is compared with."""
    mapped_state: State
    """The module's state where the values are equal."""


class Icon(Struct, frozen=True, kw_only=True):
    """A picture of the module."""

    name: str
    """What the picture is for."""
    link: str
    """Address of the picture."""


class ModuleInfo(Struct, frozen=True, kw_only=True):
    """Where to read about the module."""

    repository: str
    """Address of the module's source code."""
    documentation: str
    """Address of the module's documentation."""
    icons: Annotated[tuple[Icon, ...], keyed_by("name")] = ()
    """Pictures for user interfaces."""


class ModuleResource(Struct, frozen=True, kw_only=True):
    """A file that belongs to the module."""

    name: str
    """What the file is; rawManifest holds the objects to install."""
    link: Annotated[str, schema(format="uri")]
    """Address of the file."""


class ModuleTemplateSpec(Struct, frozen=True, kw_only=True):
    """What the version consists of."""

    descriptor: Annotated[msgspec.Raw, ATOMIC_MAP]
    """The Open Component Model descriptor of the version, or a reference to where it can be found."""
    associated_resources: tuple[GroupVersionKind, ...] = ()
    """Kinds that belong to the module beside its Module CR."""
    channel: Annotated[str, schema(pattern="^$|^[a-z]{3,}$", maxLength=32)] = ""
    """Deprecated: the channel that offers this version, where the module has no ModuleReleaseMeta."""
    custom_state_check: tuple[CustomStateCheck, ...] = ()
    """How the module's state is read from its Module CR where that has no status.state."""
    data: Annotated[msgspec.Raw, EMBEDDED_OBJECT] = msgspec.Raw(b"null")
    """The module's default Module CR: created with the module where the user's customResourcePolicy says so."""
    enable_module_config: Annotated[bool, default(False)] = False
    """Whether the module's Module CRs are brought to the control plane as ModuleConfigs, for a Module Manager."""
    info: ModuleInfo | None = None
    """Where to read about the module."""
    manager: ManagerReference | None = None
    """The object by whose readiness the module's own is told."""
    mandatory: bool = False
    """Whether every cluster gets the module without asking."""
    module_name: ModuleName = ""
    """Name of the module."""
    requires_downtime: bool = False
    """Whether an upgrade to this version interrupts the module, so that it waits for a maintenance window."""
    resources: Annotated[tuple[ModuleResource, ...], keyed_by("name")] = ()
    """Files that belong to the version."""
    target: str = ""
    """Deprecated: a setting of v1beta1, kept as it is and without effect."""
    version: ModuleVersion = ""
    """Version of the module."""


class ModuleTemplate(ApiObject, frozen=True, kw_only=True):
    """One version of a module, as the catalog offers it."""

    GROUP: ClassVar[str] = names.GROUP
    VERSION: ClassVar[str] = "v1beta2"
    KIND: ClassVar[str] = "ModuleTemplate"
    PLURAL: ClassVar[str] = "moduletemplates"
    SHORT_NAMES: ClassVar[tuple[str, ...]] = ("mt",)
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("Module", ".spec.moduleName"),
        Column("Version", ".spec.version"),
        Column("Channel", ".spec.channel", wide=True),
        Column("Mandatory", ".spec.mandatory", "boolean", wide=True),
        AGE,
    )

    api_version: str = f"{names.GROUP}/v1beta2"
    kind: str = "ModuleTemplate"
    spec: ModuleTemplateSpec
    """What the version consists of."""
