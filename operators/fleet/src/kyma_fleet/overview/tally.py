"""Counts the fleet, Kyma by Kyma. What is kept is bounded by the catalog and by a few examples, not by the fleet."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from kube_runtime.leases import rendezvous
from lifecycle_manager.contract.conditions import CERTIFICATE_OVERDUE, REACHABLE, WEBHOOK, event_path_fault
from lifecycle_manager.contract.resources import DatedReleaseMeta
from lifecycle_manager.rollout.releases import by_channel
from lifecycle_manager.rollout.standing import taking_back, version_of
from lifecycle_manager_api import Kyma, KymaModuleStatus, ModuleRollout, State, Watcher, find

WORST = 10
NO_VERSION = "-"
NOT_IN_CATALOG = "(not in the catalog)"
CERTIFICATE_FAULTS = frozenset(
    {"CertificatePending", "CertificatesRevoked", "CertificateContended", "NameReserved", "NameRefused"}
)
_SEVERITY = {State.ERROR: 0, State.WARNING: 1, State.EMPTY: 2}
_NEVER = datetime.max.replace(tzinfo=UTC)


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
        return _SEVERITY.get(self.state, 3), self.since or _NEVER, self.kyma


@dataclass(frozen=True, slots=True)
class Replica:
    """One process of Lifecycle Manager by its Lease. `is_silent`: it did not renew the Lease in time."""

    name: str
    renewed: datetime | None
    lease: timedelta

    def is_silent(self, now: datetime) -> bool:
        """Tell whether the Lease was not renewed for twice its length; the clocks may differ by one."""
        return self.renewed is None or now - self.renewed > 2 * self.lease


@dataclass(slots=True)
class Rollout:
    """How far a version of a channel has come: who has it, who does not, and who of these waits for a window.

    `taking_back`: by which rollout this is not the version that the channel offers.
    """

    version: str
    changed: datetime | None
    taking_back: str = ""
    done: int = 0
    behind: int = 0
    waiting: int = 0


@dataclass(eq=False)
class Examples:
    """The worst of what was added, and how many there were."""

    count: int = 0
    _kept: list[Trouble] = field(default_factory=list)

    def add(self, trouble: Trouble) -> None:
        """Count one, and keep it if it is among the worst."""
        self.count += 1
        self._kept.append(trouble)
        if len(self._kept) > 4 * WORST:
            self._kept = self.worst()

    def worst(self) -> list[Trouble]:
        """Return the worst, in their order."""
        return sorted(self._kept, key=lambda each: each.rank)[:WORST]


@dataclass(eq=False)
class Tally:
    """What is known of the fleet so far.

    - `modules`: how many Kymas have a module in a version and state; of names that users made up there is one sum
    - `rollouts`: by module and channel
    - `shards`: how many Kymas each replica has
    """

    replicas: tuple[Replica, ...] = ()
    rollouts: Mapping[tuple[str, str], Rollout] = field(default_factory=dict)
    watchers: tuple[Watcher, ...] = ()
    states: Counter[State] = field(default_factory=Counter)
    modules: Counter[tuple[str, str, State]] = field(default_factory=Counter)
    causes: Counter[str] = field(default_factory=Counter)
    shards: Counter[str] = field(default_factory=Counter)
    paused: int = 0
    broken: Examples = field(default_factory=Examples)
    silent: Examples = field(default_factory=Examples)
    unreachable: Examples = field(default_factory=Examples)
    certificates: Examples = field(default_factory=Examples)
    expiring: Examples = field(default_factory=Examples)

    def add(self, kyma: Kyma) -> None:
        """Count one Kyma."""
        status = kyma.status
        self.states[status.state] += 1
        self.paused += kyma.metadata.is_paused
        owner = rendezvous(kyma.metadata.name, tuple(each.name for each in self.replicas))
        self.shards[owner or ""] += 1
        for module in status.modules:
            self._add_module(module)
        if status.state in {State.ERROR, State.WARNING}:
            trouble = _trouble_of(kyma, "Ready")
            self.causes[trouble.reason] += 1
            self.broken.add(trouble)
        if event_path_fault(kyma) is not None:
            self.silent.add(_trouble_of(kyma, WEBHOOK))
        reachable, webhook = find(status.conditions, REACHABLE), find(status.conditions, WEBHOOK)
        if reachable is not None and reachable.status == "False":
            self.unreachable.add(_trouble_of(kyma, REACHABLE))
        if webhook is not None and webhook.reason in CERTIFICATE_FAULTS:
            self.certificates.add(_trouble_of(kyma, WEBHOOK))
        if webhook is not None and webhook.reason == CERTIFICATE_OVERDUE:
            self.expiring.add(_trouble_of(kyma, WEBHOOK))

    def _add_module(self, module: KymaModuleStatus) -> None:
        known = module.template is not None or module.manifest is not None
        name, version = (module.name, module.version or NO_VERSION) if known else (NOT_IN_CATALOG, NO_VERSION)
        self.modules[name, version, module.state] += 1
        rollout = self.rollouts.get((module.name, module.channel))
        if rollout is None or not module.version or module.state in {State.UNMANAGED, State.DELETING}:
            return
        if module.version == rollout.version:
            rollout.done += 1
        else:
            rollout.behind += 1
            rollout.waiting += module.maintenance

    def wrong(self, now: datetime) -> list[str]:
        """Return what is wrong, each as the part of a sentence; empty where nothing is."""
        total = sum(self.states.values())
        found = [
            (self.states[State.ERROR], "{} in state Error"),
            (self.states[State.WARNING], "{} in state Warning"),
            (self.silent.count, "{} without events"),
            (self.certificates.count, "{} without a certificate for the Watcher"),
            (self.expiring.count, "{} with a certificate that was not renewed"),
        ]
        parts = [text.format(counted(count, "Kyma")) for count, text in found if count]
        late = [each for each in self.replicas if each.is_silent(now)]
        if late:
            parts.append(f"{counted(len(late), 'replica')} of Lifecycle Manager did not renew the Lease")
        if not self.replicas and total:
            parts.append("no replica of Lifecycle Manager has a Lease")
        bad = [each.metadata.name for each in self.watchers if each.status.state in {State.ERROR, State.WARNING}]
        return parts + ([f"Watcher {', '.join(bad)} not ready"] if bad else [])


def rollouts_of(
    releases: Iterable[DatedReleaseMeta], rollouts: Iterable[ModuleRollout] = ()
) -> dict[tuple[str, str], Rollout]:
    """Return what is to be rolled out, by module and channel."""
    known = by_channel(rollouts)
    found: dict[tuple[str, str], Rollout] = {}
    for release in releases:
        for each in () if release.metadata.being_deleted else release.spec.channels:
            module = release.spec.module_name
            its = known.get(module, {}).get(each.channel, ())
            begun = its[0].metadata.creation_timestamp if its and its[0].spec.undoes else release.metadata.written_at
            version = version_of(each.version, its)
            found[module, each.channel] = Rollout(version, begun, taking_back(each.version, its))
    return found


def unfinished(rollouts: Mapping[tuple[str, str], Rollout]) -> Collection[tuple[str, str, Rollout]]:
    """Return the rollouts that some Kymas do not have yet, or that take a version back, those with the most first."""
    found = [(*key, each) for key, each in rollouts.items() if each.behind or each.taking_back]
    return sorted(found, key=lambda each: (-each[2].behind, each[:2]))


def counted(count: int, noun: str) -> str:
    """Return a number with its noun."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _trouble_of(kyma: Kyma, kind: str) -> Trouble:
    condition = find(kyma.status.conditions, kind)
    return Trouble(
        kyma.metadata.name,
        kyma.status.state,
        condition.last_transition_time if condition is not None else None,
        condition.reason if condition is not None else "NotReported",
        condition.message if condition is not None else "Lifecycle Manager has not reported a reason",
    )
