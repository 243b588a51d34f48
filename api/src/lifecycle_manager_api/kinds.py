"""What the kinds have in common, and how kubectl shows them."""

from typing import ClassVar, NamedTuple

from lifecycle_manager_api.conditions import Conditions, LastOperation
from lifecycle_manager_api.meta import ObjectMeta, Struct
from lifecycle_manager_api.state import State


class Column(NamedTuple):
    """A column of `kubectl get`: its title, where its value stands in the object, and of which type it is."""

    title: str
    path: str
    type: str = "string"
    wide: bool = False


AGE = Column("Age", ".metadata.creationTimestamp", "date")
STATE = Column("State", ".status.state")
READY = Column("Ready", '.status.conditions[?(@.type=="Ready")].status')
REASON = Column("Reason", '.status.conditions[?(@.type=="Ready")].reason')


class ApiObject(Struct, frozen=True, kw_only=True):
    """What every kind says of itself: where the API server serves it, and how kubectl calls and shows it."""

    GROUP: ClassVar[str]
    VERSION: ClassVar[str]
    KIND: ClassVar[str]
    PLURAL: ClassVar[str]
    NAMESPACED: ClassVar[bool] = True
    SHORT_NAMES: ClassVar[tuple[str, ...]] = ()
    COLUMNS: ClassVar[tuple[Column, ...]] = (AGE,)

    api_version: str
    """Group and version of the schema that this object follows."""
    kind: str
    """What kind of object this is."""
    metadata: ObjectMeta = ObjectMeta()
    """Name, identity and labels."""


class Status(Struct, frozen=True, kw_only=True):
    """How it is."""

    state: State = State.EMPTY
    """All aspects added up to one word."""
    conditions: Conditions = ()
    """The aspects one by one. Ready stands for all of them."""
    last_operation: LastOperation | None = None
    """What Lifecycle Manager did last."""
    observed_generation: int | None = None
    """The metadata.generation that this status speaks of. An older one means that a change is still to be seen."""
