"""SyncResource: what a Module Manager wants in a cluster."""

from typing import Annotated, ClassVar

from lifecycle_manager_api import names
from lifecycle_manager_api.fields import default
from lifecycle_manager_api.kinds import AGE, READY, REASON, STATE, ApiObject, Column, Status
from lifecycle_manager_api.meta import Struct
from lifecycle_manager_api.module_config import Belonging
from lifecycle_manager_api.state import State


class SyncedObject(Struct, frozen=True, kw_only=True):
    """An object that was brought to the cluster, and how it is."""

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
    """Why the object is in its state, in the API server's own words where it refused it."""


class SyncResourceSpec(Struct, frozen=True, kw_only=True):
    """What is wanted, as text."""

    kyma: Belonging
    """Name of the Kyma whose cluster gets the objects."""
    module: Belonging
    """Name of the module that the objects belong to."""
    resource: str
    """The objects as YAML text, one document each; the items of a List count one by one."""
    prune: Annotated[bool, default(True)] = True
    """Whether objects are removed from the cluster that an earlier text held and this one does not."""


class SyncResourceStatus(Status, frozen=True, kw_only=True):
    """How it is."""

    objects: str = ""
    """How many of the objects are ready, 3/4 for instance."""
    synced: tuple[SyncedObject, ...] = ()
    """The objects that are in the cluster because of this text, and how each is."""


class SyncResource(ApiObject, frozen=True, kw_only=True):
    """What a Module Manager wants in a cluster. Lifecycle Manager applies it there, and removes it again."""

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
    """What is wanted, as text."""
    status: SyncResourceStatus = SyncResourceStatus()
    """How it is."""
