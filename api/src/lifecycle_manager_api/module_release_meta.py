"""ModuleReleaseMeta: which version of a module each channel has."""

from typing import Annotated, ClassVar

from lifecycle_manager_api import names
from lifecycle_manager_api.cel import MANDATORY_OR_CHANNELS
from lifecycle_manager_api.fields import ATOMIC_MAP, Channel, ModuleName, ModuleVersion, checked_by, default, keyed_by, schema
from lifecycle_manager_api.kinds import AGE, ApiObject, Column
from lifecycle_manager_api.meta import Struct
from lifecycle_manager_api.selectors import KymaSelector
from lifecycle_manager_api.versions import SEMANTIC_VERSION

_COMPONENT = r"^[a-z][-a-z0-9]*([.][a-z][-a-z0-9]*)*[.][a-z]{2,}(/[a-z][-a-z0-9_]*([.][a-z][-a-z0-9_]*)*)+$"


class ChannelVersion(Struct, frozen=True, kw_only=True):
    """The version that a channel has."""

    channel: Channel
    """The channel."""
    version: ModuleVersion
    """The version that it has; the ModuleTemplate is named after module and version."""


class MandatoryVersion(Struct, frozen=True, kw_only=True):
    """The version that every cluster gets."""

    version: Annotated[str, schema(pattern=SEMANTIC_VERSION, minLength=1)]
    """The version, after the rules of Semantic Versioning."""


class ModuleReleaseMetaSpec(Struct, frozen=True, kw_only=True):
    """What is released."""

    module_name: ModuleName
    """Name of the module."""
    beta: Annotated[bool, default(False)] = False
    """Whether only clusters whose Kyma has the label operator.kyma-project.io/beta may have the module."""
    channels: Annotated[tuple[ChannelVersion, ...], keyed_by("channel")] = ()
    """Which version each channel has. Left out for a mandatory module."""
    internal: Annotated[bool, default(False)] = False
    """Whether only clusters whose Kyma has the label operator.kyma-project.io/internal may have the module."""
    kyma_selector: Annotated[KymaSelector, ATOMIC_MAP] | None = None
    """Which Kymas may have the module, by their labels. Left out, all may; an empty selector matches none."""
    mandatory: MandatoryVersion | None = None
    """The version that every cluster gets, whether its users ask for it or not. Left out for a module to choose."""
    ocm_component_name: Annotated[str | None, schema(pattern=_COMPONENT, maxLength=255)] = None
    """The OCM component that the module's versions are versions of."""


class ModuleReleaseMeta(ApiObject, frozen=True, kw_only=True):
    """Which version of a module each channel has."""

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
    """What is released."""
