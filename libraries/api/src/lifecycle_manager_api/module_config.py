"""ModuleConfig: a user's Module CR, for the Module Manager of the module."""

from typing import Annotated, ClassVar

import msgspec

from kube_crds import AGE, ATOMIC_MAP, Column, Struct, checked_by, schema
from lifecycle_manager_api import names
from lifecycle_manager_api.cel import IMMUTABLE
from lifecycle_manager_api.kinds import MAX_TEXT_BYTES, READY, REASON, STATE, ApiObject, ObjectStatus
from lifecycle_manager_api.references import ResourceReference

OwnerName = Annotated[str, schema(minLength=1, maxLength=253), checked_by(IMMUTABLE)]


class ModuleConfigSpec(Struct, frozen=True, kw_only=True):
    """The Module CR as text."""

    kyma: OwnerName
    """Name of the Kyma; its cluster has the Module CR."""
    module: OwnerName
    """Name of the module, as in the Kyma."""
    resource: Annotated[str, schema(maxLength=MAX_TEXT_BYTES)] = ""
    """The Module CR as YAML text, with its status as far as others write it, without managedFields, resourceVersion and
    the last-applied annotation."""
    resource_ref: ResourceReference | None = None
    """Reference of the Module CR, with the version that was read."""


class ModuleConfigStatus(ObjectStatus, frozen=True, kw_only=True):
    """The observed state."""

    module_status: Annotated[msgspec.Raw, ATOMIC_MAP] = msgspec.Raw(b"null")
    """Further fields for the status of the Module CR in the user's cluster, from the Module Manager: up to 16 KiB.
    The fields state, observedGeneration and conditions are Lifecycle Manager's."""


class ModuleConfig(ApiObject, frozen=True, kw_only=True):
    """A copy of a user's Module CR in the control plane, for the Module Manager of the module, which only reads it."""

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
    """The Module CR as text."""
    status: ModuleConfigStatus = ModuleConfigStatus()
    """The observed state. Lifecycle Manager writes the condition Synced, the Module Manager the other fields."""
