"""SyncResource: the objects that Lifecycle Manager applies to a cluster for a Module Manager."""

from datetime import datetime
from typing import Annotated, ClassVar

from kube_crds import AGE, Column, Struct, default, schema
from lifecycle_manager_api import names
from lifecycle_manager_api.kinds import MAX_TEXT_BYTES, READY, REASON, STATE, ApiObject, ObjectStatus
from lifecycle_manager_api.module_config import OwnerName
from lifecycle_manager_api.references import SyncedReference
from lifecycle_manager_api.state import State


class SyncedObject(Struct, frozen=True, kw_only=True):
    """An object that was applied to the cluster, and its state."""

    group: str
    """API group of the object; empty for the core group."""
    version: str
    """API version of the object."""
    kind: str
    """Kind of the object."""
    namespace: str
    """Namespace of the object; empty for a cluster-scoped one."""
    name: str
    """Name of the object."""
    state: State = State.EMPTY
    """The state of the object."""
    message: str = ""
    """Reason for the state of the object: the message of the API server, if it rejected the object."""


class SyncResourceSpec(Struct, frozen=True, kw_only=True):
    """The objects as text."""

    kyma: OwnerName
    """Name of the Kyma; the objects are applied to its cluster."""
    module: OwnerName
    """Name of the module of the objects."""
    resource: Annotated[str, schema(maxLength=MAX_TEXT_BYTES)]
    """The objects as YAML text of up to 1 MiB, one document each; the items of a List are separate objects."""
    prune: Annotated[bool, default(True)] = True
    """Whether objects of an earlier text that are missing in this one are deleted from the cluster."""


class SyncResourceStatus(ObjectStatus, frozen=True, kw_only=True):
    """The observed state."""

    objects: str = ""
    """Number of ready objects of all, for example 3/4."""
    synced: tuple[SyncedObject, ...] = ()
    """The objects that are in the cluster or about to be applied, each with its state."""
    found: tuple[SyncedReference, ...] = ()
    """Those of these objects that existed in the cluster before. They are not deleted with the SyncResource."""
    emptied_at: datetime | None = None
    """When the text lost all its objects, so that those in the cluster are removed; left out where it has some."""
    owner_uid: str = ""
    """Deprecated: the uid by which an earlier version names the owner of its objects. It has no effect."""


class SyncResource(ApiObject, frozen=True, kw_only=True):
    """Objects that Lifecycle Manager applies to the cluster for a Module Manager, and deletes with the SyncResource."""

    GROUP: ClassVar[str] = names.GROUP
    VERSION: ClassVar[str] = "v1alpha1"
    KIND: ClassVar[str] = "SyncResource"
    PLURAL: ClassVar[str] = "syncresources"
    SHORT_NAMES: ClassVar[tuple[str, ...]] = ("sr",)
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("Kyma", ".spec.kyma"),
        Column("Module", ".spec.module"),
        STATE,
        Column("Objects", ".status.objects"),
        READY,
        REASON,
        AGE,
    )

    api_version: str = f"{names.GROUP}/v1alpha1"
    kind: str = "SyncResource"
    spec: SyncResourceSpec
    """The objects as text."""
    status: SyncResourceStatus = SyncResourceStatus()
    """The observed state."""
