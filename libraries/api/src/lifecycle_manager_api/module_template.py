"""ModuleTemplate: one version of a module in the catalog."""

from typing import Annotated, ClassVar

import msgspec

from kube_crds import AGE, ATOMIC_MAP, Column, Conditions, Struct, keyed_by, schema
from lifecycle_manager_api import names
from lifecycle_manager_api.fields import EMBEDDED_OBJECT, ModuleName, ModuleVersion
from lifecycle_manager_api.kinds import ApiObject
from lifecycle_manager_api.references import GroupVersionKind, ManagerReference
from lifecycle_manager_api.state import State

MAX_STATE_CHECKS = 32
MAX_PATH_LENGTH = 256
MAX_PATH_SEGMENTS = 32
MAX_VALUE_LENGTH = 256
_NAME = "[A-Za-z0-9_/-]+"
_BRACKETS = r"""\[([0-9]{1,4}|'[^'"\\]+'|"[^'"\\]+")\]"""
STATE_PATH = rf"^\x24?([.]?{_NAME}|{_BRACKETS})([.]{_NAME}|{_BRACKETS}){{0,{MAX_PATH_SEGMENTS - 1}}}$"


class CustomStateCheck(Struct, frozen=True, kw_only=True):
    """Maps a value in the Module CR to a state of the module."""

    json_path: Annotated[str, schema(pattern=STATE_PATH, maxLength=MAX_PATH_LENGTH)]
    """Path of the value in the Module CR, names and indexes without a leading $, for example status.health or
    status.conditions[0].status."""
    value: Annotated[str, schema(maxLength=MAX_VALUE_LENGTH)]
    """The value to compare with: a text, a number, true, false or null."""
    mapped_state: State
    """The state of the module if the values are equal."""


class Icon(Struct, frozen=True, kw_only=True):
    """An icon of the module."""

    name: str
    """Name of the icon."""
    link: str
    """URL of the icon."""


class ModuleInfo(Struct, frozen=True, kw_only=True):
    """Links to information about the module."""

    repository: str
    """URL of the module's source code."""
    documentation: str
    """URL of the module's documentation."""
    icons: Annotated[tuple[Icon, ...], keyed_by("name")] = ()
    """Icons for user interfaces."""


class ModuleResource(Struct, frozen=True, kw_only=True):
    """A file of the module."""

    name: str
    """Name of the file; rawManifest has the objects to install."""
    link: Annotated[str, schema(format="uri")]
    """URL of the file."""


class ModuleTemplateSpec(Struct, frozen=True, kw_only=True):
    """The parts of the version."""

    descriptor: Annotated[msgspec.Raw, ATOMIC_MAP]
    """The Open Component Model descriptor of the version, or a reference to it."""
    associated_resources: tuple[GroupVersionKind, ...] = ()
    """Further kinds of the module, besides that of its Module CR."""
    channel: Annotated[str, schema(pattern="^$|^[a-z]{3,}$", maxLength=32)] = ""
    """Deprecated: the channel of this version, if the module has no ModuleReleaseMeta."""
    custom_state_check: Annotated[tuple[CustomStateCheck, ...], schema(maxItems=MAX_STATE_CHECKS)] = ()
    """How to read the module's state from its Module CR, if that has no status.state."""
    data: Annotated[msgspec.Raw, EMBEDDED_OBJECT] = msgspec.Raw(b"null")
    """The module's default Module CR, created with the module if the user's customResourcePolicy is CreateAndDelete."""
    enable_module_config: bool = False
    """Whether the module's Module CRs are copied to the control plane as ModuleConfigs, for a Module Manager."""
    info: ModuleInfo | None = None
    """Links to information about the module."""
    manager: ManagerReference | None = None
    """The object that the module's readiness is read from."""
    mandatory: bool = False
    """Whether the module is installed in every cluster."""
    module_name: ModuleName = ""
    """Name of the module."""
    requires_downtime: bool = False
    """Whether an upgrade to this version causes a downtime and waits for a maintenance window."""
    resources: Annotated[tuple[ModuleResource, ...], keyed_by("name")] = ()
    """Files of the version."""
    target: str = ""
    """Deprecated: a setting of v1beta1. It has no effect."""
    version: ModuleVersion = ""
    """Version of the module."""


class PinnedDescriptor(Struct, frozen=True, kw_only=True):
    """The descriptor that the registry had for a version of a component when it was seen first."""

    component: str
    """Name of the component."""
    version: str
    """Version of the component."""
    digest: str
    """Digest of the component's manifest in the registry."""


class PinnedLink(Struct, frozen=True, kw_only=True):
    """The content of the link to a version's objects when it was seen first."""

    url: str
    """URL of the file."""
    version: str
    """Version of the module."""
    digest: str
    """Digest of the content, sha256:..."""


class ModuleTemplateStatus(Struct, frozen=True, kw_only=True):
    """What Lifecycle Manager has found for the version."""

    pinned_descriptor: PinnedDescriptor | None = None
    """The descriptor in the registry that stands for an empty spec.descriptor. It stays in force whatever the tag names
    later."""
    pinned_link: PinnedLink | None = None
    """The content of the link to the objects. Nothing else is installed for this version, whatever is there later."""
    conditions: Conditions = ()
    """The conditions. DescriptorPinned says whether the tag in the registry still names the pinned descriptor,
    LinkPinned whether the link still has the pinned content."""


class ModuleTemplate(ApiObject, frozen=True, kw_only=True):
    """One version of a module in the catalog."""

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
    """The parts of the version."""
    status: ModuleTemplateStatus = ModuleTemplateStatus()
    """What Lifecycle Manager has found for the version."""
