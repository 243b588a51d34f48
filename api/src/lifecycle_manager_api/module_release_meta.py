"""ModuleReleaseMeta: which version of a module each channel has."""

from typing import ClassVar

from lifecycle_manager_api import names
from lifecycle_manager_api.meta import LabelSelector, ObjectMeta, Struct


class ChannelVersion(Struct, frozen=True, kw_only=True):
    """The version that a channel has."""

    channel: str
    version: str


class MandatoryVersion(Struct, frozen=True, kw_only=True):
    """The version that every cluster gets."""

    version: str


class ModuleReleaseMetaSpec(Struct, frozen=True, kw_only=True):
    """What is released."""

    module_name: str
    beta: bool = False
    channels: tuple[ChannelVersion, ...] = ()
    internal: bool = False
    kyma_selector: LabelSelector | None = None
    mandatory: MandatoryVersion | None = None
    ocm_component_name: str = ""


class ModuleReleaseMeta(Struct, frozen=True, kw_only=True):
    """ModuleReleaseMeta: which version of a module each channel has."""

    GROUP: ClassVar[str] = names.GROUP
    VERSION: ClassVar[str] = "v1beta2"
    KIND: ClassVar[str] = "ModuleReleaseMeta"
    PLURAL: ClassVar[str] = "modulereleasemetas"
    NAMESPACED: ClassVar[bool] = True

    api_version: str = f"{names.GROUP}/v1beta2"
    kind: str = "ModuleReleaseMeta"
    metadata: ObjectMeta = ObjectMeta()
    spec: ModuleReleaseMetaSpec
