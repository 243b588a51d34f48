"""What the status of a Module CR is decided on, and what is remembered from reconcile to reconcile."""

from dataclasses import dataclass, field
from datetime import datetime

from kube_runtime import Causes, Index
from lifecycle_manager.contract.signals import ClusterReachable, ClusterReplaced
from lifecycle_manager.contract.verdict import NOT_ACCESSIBLE, Verdict, config_of
from lifecycle_manager.module_cr_status.status import Fields, ModuleCrEvent
from lifecycle_manager_api import ModuleConfig, SyncResource

REFUSED_SECONDS = 600.0
"""After how long refused fields are sent again: the cluster may take them by then."""
SYNC_RESOURCES_BY_CONFIG: Index[SyncResource] = Index("config", lambda resource: (config_of(resource),))
"""SyncResources by the name of the ModuleConfig that they were made from."""


@dataclass(eq=False, slots=True)
class StatusMemory:
    """What is remembered of the Module CR with a uid.

    - `written`: the fields that its status has from the Lifecycle Manager; None as long as nobody has read it
    - `unsettled_since`: the monotonic time since which a change is on its way
    - `last_event`, `last_event_at`: the last Event, and its monotonic time
    - `refused`, `refusal_at`: the fields that the API server refused last, and the monotonic time
    - `module_status_refused`: those of the Module Manager that do not fit
    - `left_alone_at`: the monotonic time at which an operator in the SKR was found to write these fields
    """

    uid: str = ""
    written: Fields | None = None
    unsettled_since: float | None = None
    last_event: ModuleCrEvent | None = None
    last_event_at: float = 0.0
    refused: Fields | None = None
    refusal_at: float = 0.0
    module_status_refused: Fields | None = None
    left_alone_at: float | None = None

    def refused_at(self, seconds: float) -> Fields | None:
        """Return the fields that need not be sent again at a monotonic time."""
        return self.refused if seconds - self.refusal_at < REFUSED_SECONDS else None

    def note(self, verdict: Verdict, seconds: float) -> None:
        """Note since when a change is on its way."""
        if is_settled(verdict):
            self.unsettled_since = None
        elif self.unsettled_since is None:
            self.unsettled_since = seconds


@dataclass(eq=False, slots=True)
class ModuleCrState:
    """What is remembered of a Module CR, and its ModuleConfig as it was read last, without the text."""

    memory: StatusMemory = field(default_factory=StatusMemory)
    config: ModuleConfig | None = None

    def remembered(self, uid: str, causes: Causes) -> StatusMemory:
        """Return what still counts for the Module CR with a uid."""
        if uid != self.memory.uid or causes.of(ClusterReplaced):
            self.memory = StatusMemory(uid)
        if causes.of(ClusterReachable):
            self.memory.unsettled_since = None
        return self.memory


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleCrSnapshot:
    """One Module CR, and the ModuleConfig that it was copied to; `is_released`: that is gone, or is being deleted."""

    config: ModuleConfig
    verdict: Verdict
    memory: StatusMemory
    now: datetime
    seconds: float
    is_released: bool = False


def is_settled(verdict: Verdict) -> bool:
    """Tell whether a verdict is worth writing at once; that of an outage is outdated by the time it can be written."""
    return verdict.is_settled and verdict.reason != NOT_ACCESSIBLE
