"""What the Module CRs of all modules have in common: the status that Lifecycle Manager writes, and its columns.

class TeaRoomStatus(ModuleCrStatus, frozen=True, kw_only=True):
    tables: int = 0

class TeaRoom(CustomResource, frozen=True, kw_only=True):
    GROUP: ClassVar[str] = "tea-room.kyma-project.io"
    COLUMNS: ClassVar[tuple[Column, ...]] = MODULE_CR_COLUMNS
    spec: TeaRoomSpec = TeaRoomSpec()
    status: TeaRoomStatus = TeaRoomStatus()
"""

from kube_crds import AGE, Column, Conditions, Struct
from lifecycle_manager_api import State

_READY = '.status.conditions[?(@.type=="Ready")]'
MODULE_CR_COLUMNS = (
    Column("State", ".status.state"),
    Column("Ready", f"{_READY}.status"),
    Column("Reason", f"{_READY}.reason"),
    Column("Message", f"{_READY}.message", wide=True),
    AGE,
)


class ModuleCrStatus(Struct, frozen=True, kw_only=True):
    """The fields that Lifecycle Manager writes. Those of a module come beside them."""

    state: State = State.EMPTY
    """The state of the module in this cluster."""
    observed_generation: int = 0
    """The metadata.generation that the state is about."""
    conditions: Conditions = ()
    """Whether the configuration is in force."""
