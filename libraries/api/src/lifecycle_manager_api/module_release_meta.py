"""ModuleReleaseMeta: the version of a module in each channel."""

from typing import Annotated, ClassVar

from kube_crds import AGE, ATOMIC_MAP, Column, Struct, checked_by, default, keyed_by, schema
from lifecycle_manager_api import names
from lifecycle_manager_api.cel import MANDATORY_OR_CHANNELS
from lifecycle_manager_api.fields import Channel, ModuleName, ModuleVersion
from lifecycle_manager_api.kinds import ApiObject
from lifecycle_manager_api.selectors import KymaSelector
from lifecycle_manager_api.versions import SEMANTIC_VERSION

_COMPONENT = r"^[a-z][-a-z0-9]*([.][a-z][-a-z0-9]*)*[.][a-z]{2,}(/[a-z][-a-z0-9_]*([.][a-z][-a-z0-9_]*)*)+$"


class ChannelVersion(Struct, frozen=True, kw_only=True):
    """The version of a module in a channel."""

    channel: Channel
    """The channel."""
    version: ModuleVersion
    """The version; the ModuleTemplate is named after module and version."""


class MandatoryVersion(Struct, frozen=True, kw_only=True):
    """The version that is installed in every cluster."""

    version: Annotated[str, schema(pattern=SEMANTIC_VERSION, minLength=1)]
    """The version, a semantic version."""


class ModuleReleaseMetaSpec(Struct, frozen=True, kw_only=True):
    """The released versions."""

    module_name: ModuleName
    """Name of the module."""
    beta: Annotated[bool, default(False)] = False
    """Whether the module is offered only to Kymas with the label operator.kyma-project.io/beta."""
    channels: Annotated[tuple[ChannelVersion, ...], keyed_by("channel")] = ()
    """The version in each channel. Left out for a mandatory module."""
    internal: Annotated[bool, default(False)] = False
    """Whether the module is offered only to Kymas with the label operator.kyma-project.io/internal."""
    kyma_selector: Annotated[KymaSelector, ATOMIC_MAP] | None = None
    """Labels of the Kymas that the module is offered to. Left out, it matches all; an empty one matches none."""
    mandatory: MandatoryVersion | None = None
    """The version that is installed in every cluster. Left out for an optional module."""
    ocm_component_name: Annotated[str | None, schema(pattern=_COMPONENT, maxLength=255)] = None
    """The OCM component of the module."""


class ModuleReleaseMeta(ApiObject, frozen=True, kw_only=True):
    """The version of a module in each channel."""

    GROUP: ClassVar[str] = names.GROUP
    VERSION: ClassVar[str] = "v1beta2"
    KIND: ClassVar[str] = "ModuleReleaseMeta"
    PLURAL: ClassVar[str] = "modulereleasemetas"
    SHORT_NAMES: ClassVar[tuple[str, ...]] = ("mrm",)
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("Module", ".spec.moduleName"),
        Column("Channels", ".spec.channels[*].channel"),
        Column("Mandatory", ".spec.mandatory.version"),
        AGE,
    )

    api_version: str = f"{names.GROUP}/v1beta2"
    kind: str = "ModuleReleaseMeta"
    spec: Annotated[ModuleReleaseMetaSpec, checked_by(MANDATORY_OR_CHANNELS)]
    """The released versions."""
