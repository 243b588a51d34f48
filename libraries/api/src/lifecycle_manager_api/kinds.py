"""The base of all kinds, and their columns in kubectl."""

from typing import ClassVar

from kube_crds import Column, Conditions, CustomResource, Struct
from lifecycle_manager_api.conditions import LastOperation
from lifecycle_manager_api.meta import ObjectMeta
from lifecycle_manager_api.state import State

MAX_TEXT_BYTES = 1024 * 1024
"""Maximum of the text of a SyncResource or ModuleConfig, as etcd stores it: as a JSON string of Go. With its status an
object may have 1.5 MiB there."""
STATE = Column("State", ".status.state")
READY = Column("Ready", '.status.conditions[?(@.type=="Ready")].status')
REASON = Column("Reason", '.status.conditions[?(@.type=="Ready")].reason')


class ApiObject(CustomResource, frozen=True, kw_only=True):
    """Base of all kinds, with their group, version, names and columns."""

    CATEGORIES: ClassVar[tuple[str, ...]] = ("kyma-modules",)

    api_version: str
    """Group and version of the object."""
    kind: str
    """Kind of the object."""
    metadata: ObjectMeta = ObjectMeta()
    """Name, identity and labels."""


class ObjectStatus(Struct, frozen=True, kw_only=True):
    """The observed state."""

    state: State = State.EMPTY
    """Summary of all conditions."""
    conditions: Conditions = ()
    """The conditions. Ready summarizes the others."""
    last_operation: LastOperation | None = None
    """The last operation of Lifecycle Manager on the object."""
    observed_generation: int | None = None
    """The metadata.generation that this status is about. If it is older, the last change is not reconciled yet."""
