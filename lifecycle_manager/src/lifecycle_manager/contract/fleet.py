"""How many clusters of a fleet are in which state, and why: pure functions of Kymas.

`klm status`, the fleet page and the metrics all show these numbers, so that none says something else than another.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from heapq import nsmallest
from typing import Literal, NamedTuple

from lifecycle_manager.contract.conditions import CERTIFICATE_OVERDUE, EVENT_PATH_FAULTS, REACHABLE, WEBHOOK
from lifecycle_manager_api import Condition, Kyma, KymaModuleStatus, State, names
from lifecycle_manager_api.conditions import counted

WORST_FIRST = (State.ERROR, State.WARNING, State.DELETING, State.PROCESSING, State.EMPTY, State.UNMANAGED, State.READY)
GOOD = frozenset({State.READY, State.UNMANAGED})
BROKEN = frozenset({State.ERROR, State.WARNING})
WORST = 10
"""How many clusters with a fault are named."""
MAX_CAUSE = 200
NOT_REPORTED = "NotReported"
CERTIFICATE_FAULTS = (
    "CertificatePending",
    "CertificatesRevoked",
    "CertificateContended",
    "NameReserved",
    "NameRefused",
)
Fault = Literal["broken", "unreachable", "withoutEvents", "withoutCertificate", "certificateNotRenewed"]
WRONG: Mapping[Fault, str] = {
    "withoutEvents": "without events",
    "withoutCertificate": "without a certificate for the Watcher",
    "certificateNotRenewed": "with a certificate that was not renewed",
}
"""Faults that a cluster may have in any state."""
FAULT_REASONS: Mapping[str, Fault] = {
    **dict.fromkeys(EVENT_PATH_FAULTS, "withoutEvents"),
    **dict.fromkeys(CERTIFICATE_FAULTS, "withoutCertificate"),
    CERTIFICATE_OVERDUE: "certificateNotRenewed",
}
"""Which fault a reason of the condition of the Watcher stands for."""
_NEVER = datetime.max.replace(tzinfo=UTC)


class ModuleSummary(NamedTuple):
    """A module of a cluster."""

    name: str
    channel: str
    version: str
    state: State

    @classmethod
    def of(cls, module: KymaModuleStatus) -> "ModuleSummary":
        """Return a module; without its name where it is neither offered nor installed: users make up such names."""
        if module.template is None and module.manifest is None:
            return cls("", "", "", module.state)
        return cls(module.name, module.channel, module.version, module.state)


@dataclass(frozen=True, slots=True)
class Trouble:
    """One cluster that is not as it should be, since when, and the reason and message of its condition."""

    kyma: str
    state: State
    since: datetime | None
    reason: str
    message: str

    @property
    def rank(self) -> tuple[int, datetime, str]:
        """The sort key: errors first, and of those the oldest."""
        return WORST_FIRST.index(self.state), self.since or _NEVER, self.kyma


@dataclass(frozen=True, slots=True)
class ClusterSummary:
    """One cluster.

    - `trouble`: why it is not ready
    - `since`: when it became ready, or ceased to be
    - `waiting`: the modules whose upgrade waits for a maintenance window
    """

    name: str
    resource_version: str
    state: State
    region: str
    channel: str
    modules: tuple[ModuleSummary, ...]
    waiting: tuple[ModuleSummary, ...]
    since: datetime | None
    trouble: Trouble | None
    faults: Mapping[Fault, Trouble]
    is_paused: bool

    @classmethod
    def of(cls, kyma: Kyma) -> "ClusterSummary":
        """Return what counts of a Kyma."""
        metadata, status = kyma.metadata, kyma.status
        conditions = {each.type: each for each in status.conditions}
        ready = conditions.get("Ready")
        trouble = None if status.state in GOOD else _trouble_of(kyma, ready)
        return cls(
            name=metadata.name,
            resource_version=metadata.resource_version,
            state=status.state,
            region=metadata.labels.get(names.REGION, ""),
            channel=kyma.spec.channel,
            modules=tuple(map(ModuleSummary.of, status.modules)),
            waiting=tuple([ModuleSummary.of(each) for each in status.modules if each.maintenance]),
            since=ready.last_transition_time if ready is not None else None,
            trouble=trouble,
            faults=_faults(kyma, trouble, conditions),
            is_paused=metadata.is_paused,
        )

    @property
    def cause(self) -> str:
        """What clusters with the same cause have in common: the reason, and the modules that are not ready."""
        if self.trouble is None:
            return ""
        modules = sorted({each.name for each in self.modules if each.state not in GOOD} - {""})
        return " ".join((self.trouble.reason, *modules))[:MAX_CAUSE]

    @property
    def message(self) -> str:
        """Why it is not ready, in words."""
        return self.trouble.message if self.trouble is not None else ""

    @property
    def rank(self) -> tuple[int, datetime, str]:
        """The place in a list of the worst clusters."""
        return (WORST_FIRST.index(self.state), _NEVER, self.name) if self.trouble is None else self.trouble.rank


@dataclass(frozen=True, slots=True)
class CauseCount:
    """Why clusters are not ready: how many, the first since when, and what one of them says."""

    cause: str
    state: State
    clusters: int
    since: datetime | None
    example: str

    @property
    def rank(self) -> tuple[int, int, str]:
        """The sort key: the worst state first, and of those the most clusters."""
        return WORST_FIRST.index(self.state), -self.clusters, self.cause


@dataclass(frozen=True, slots=True)
class FaultCount:
    """How many clusters have a fault, and the worst of them."""

    count: int = 0
    worst: tuple[Trouble, ...] = ()


@dataclass(frozen=True)
class FleetCounts:
    """How many clusters there are.

    - `states`: in which state
    - `modules`: with a module in which channel, version and state; `waiting`: with one that waits for its window
    - `causes`: not ready for which cause, the worst first
    - `faults`: with which fault
    """

    clusters: int = 0
    paused: int = 0
    states: Counter[State] = field(default_factory=Counter)
    modules: Counter[ModuleSummary] = field(default_factory=Counter)
    waiting: Counter[ModuleSummary] = field(default_factory=Counter)
    causes: Sequence[CauseCount] = ()
    faults: Mapping[Fault, FaultCount] = field(default_factory=dict)

    def fault(self, fault: Fault) -> FaultCount:
        """Return how many clusters have a fault."""
        return self.faults.get(fault, FaultCount())

    def wrong(self) -> list[str]:
        """Return what is wrong, each as the part of a sentence; empty where nothing is."""
        found = [(self.states[state], f"in state {state.value}") for state in WORST_FIRST if state in BROKEN]
        found += [(self.fault(fault).count, text) for fault, text in WRONG.items()]
        return [f"{counted(count, 'Kyma')} {text}" for count, text in found if count]


def counts_of(clusters: Iterable[ClusterSummary], so_far: FleetCounts | None = None) -> FleetCounts:
    """Count clusters, added to those that were counted so far. What is kept is bounded by the modules of a catalog."""
    before = so_far or FleetCounts()
    states, modules, waiting = Counter(before.states), Counter(before.modules), Counter(before.waiting)
    causes = {(each.state, each.cause): each for each in before.causes}
    faults: dict[Fault, list[Trouble]] = {}
    count = paused = 0
    for each in clusters:
        count += 1
        paused += each.is_paused
        states[each.state] += 1
        modules.update(each.modules)
        waiting.update(each.waiting)
        if each.trouble is not None:
            key = (each.state, each.cause)
            causes[key] = _with(causes.get(key), each.trouble, each.cause)
        for fault, trouble in each.faults.items():
            faults.setdefault(fault, []).append(trouble)
    return FleetCounts(
        before.clusters + count,
        before.paused + paused,
        states,
        modules,
        waiting,
        sorted(causes.values(), key=lambda each: each.rank),
        {**before.faults, **{fault: _added(before.fault(fault), found) for fault, found in faults.items()}},
    )


def _with(known: CauseCount | None, trouble: Trouble, cause: str) -> CauseCount:
    if known is None:
        return CauseCount(cause, trouble.state, 1, trouble.since, trouble.message)
    since = min(known.since or _NEVER, trouble.since or _NEVER)
    return CauseCount(cause, trouble.state, known.clusters + 1, since if since is not _NEVER else None, known.example)


def _added(known: FaultCount, found: Sequence[Trouble]) -> FaultCount:
    worst = nsmallest(WORST, (*known.worst, *found), key=lambda each: each.rank)
    return FaultCount(known.count + len(found), tuple(worst))


def _faults(kyma: Kyma, trouble: Trouble | None, conditions: Mapping[str, Condition]) -> Mapping[Fault, Trouble]:
    found: dict[Fault, Trouble] = {}
    if trouble is not None and trouble.state in BROKEN:
        found["broken"] = trouble
    reachable, webhook = conditions.get(REACHABLE), conditions.get(WEBHOOK)
    if reachable is not None and reachable.status == "False":
        found["unreachable"] = _trouble_of(kyma, reachable)
    fault = FAULT_REASONS.get(webhook.reason) if webhook is not None else None
    if fault is not None:
        found[fault] = _trouble_of(kyma, webhook)
    return found


def _trouble_of(kyma: Kyma, condition: Condition | None) -> Trouble:
    name, state = kyma.metadata.name, kyma.status.state
    if condition is None:
        return Trouble(name, state, None, NOT_REPORTED, "Lifecycle Manager has not reported a reason")
    reason, message = condition.reason, condition.message
    return Trouble(name, state, condition.last_transition_time, reason, message or reason)
