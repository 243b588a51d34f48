"""The base of all kinds, and their columns in kubectl."""

from typing import ClassVar, NamedTuple

from lifecycle_manager_api.conditions import Conditions, LastOperation
from lifecycle_manager_api.meta import ObjectMeta, Struct
from lifecycle_manager_api.state import State


class Column(NamedTuple):
    """A column of `kubectl get`: its title, the path and the type of its value."""

    title: str
    path: str
    type: str = "string"
    wide: bool = False


AGE = Column("Age", ".metadata.creationTimestamp", "date")
STATE = Column("State", ".status.state")
READY = Column("Ready", '.status.conditions[?(@.type=="Ready")].status')
REASON = Column("Reason", '.status.conditions[?(@.type=="Ready")].reason')


class ApiObject(Struct, frozen=True, kw_only=True):
    """Base of all kinds, with their group, version, names and columns."""

    GROUP: ClassVar[str]
    VERSION: ClassVar[str]
    KIND: ClassVar[str]
    PLURAL: ClassVar[str]
    NAMESPACED: ClassVar[bool] = True
    SHORT_NAMES: ClassVar[tuple[str, ...]] = ()
    COLUMNS: ClassVar[tuple[Column, ...]] = (AGE,)

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
