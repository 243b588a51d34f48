"""ModuleConfig: a user's Module CR, for the module's Module Manager."""

from typing import Annotated, ClassVar

from lifecycle_manager_api import names
from lifecycle_manager_api.cel import IMMUTABLE
from lifecycle_manager_api.fields import checked_by, schema
from lifecycle_manager_api.kinds import AGE, READY, REASON, STATE, ApiObject, Column, Status
from lifecycle_manager_api.meta import Struct
from lifecycle_manager_api.references import ObjectReference

Belonging = Annotated[str, schema(minLength=1, maxLength=253), checked_by(IMMUTABLE)]


class ModuleConfigSpec(Struct, frozen=True, kw_only=True):
    """What the user wants, as text."""

    kyma: Belonging
    """Name of the Kyma from whose cluster the Module CR was read."""
    module: Belonging
    """Name of the module, as it stands in the Kyma."""
    resource: str = ""
    """The Module CR as YAML text, its status included; managedFields and the last-applied annotation are left out."""
    resource_ref: ObjectReference | None = None
    """Which Module CR it is, and which version of it was read."""


class ModuleConfigStatus(Status, frozen=True, kw_only=True):
    """How it is."""


class ModuleConfig(ApiObject, frozen=True, kw_only=True):
    """A user's Module CR, brought to the control plane for the module's Module Manager, who only reads it."""

    GROUP: ClassVar[str] = names.GROUP
    VERSION: ClassVar[str] = "v1alpha1"
    KIND: ClassVar[str] = "ModuleConfig"
    PLURAL: ClassVar[str] = "moduleconfigs"
    SHORT_NAMES: ClassVar[tuple[str, ...]] = ("mc",)
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("Kyma", ".spec.kyma"),
        Column("Module", ".spec.module"),
        STATE,
        Column("Synced", ".status.lastOperation.lastUpdateTime", "date"),
        READY,
        REASON,
        AGE,
    )

    api_version: str = f"{names.GROUP}/v1alpha1"
    kind: str = "ModuleConfig"
    spec: ModuleConfigSpec
    """What the user wants, as text."""
    status: ModuleConfigStatus = ModuleConfigStatus()
    """How it is. Lifecycle Manager writes the condition Synced, the Module Manager the rest."""
