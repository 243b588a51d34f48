"""`klm status`: how the fleet is, from one pass over its Kymas.

First what is shown, from what was counted; then how it is printed; then the command, which reads page by page.
"""

import asyncio
import io
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Literal

from msgspec.structs import replace as with_fields

from kube_runtime import Client
from kube_runtime.ages import age
from kube_runtime.leases.rendezvous import rendezvous
from kyma_fleet.control_plane import require_control_plane
from kyma_fleet.documents import Document, Part, print_document, reference
from kyma_fleet.replicas import Replica, read_replicas
from kyma_fleet.running import once_answered
from kyma_fleet.screen import LeftOut, LiveTable, Screen
from kyma_fleet.text import plain
from lifecycle_manager.contract.fleet import (
    BROKEN,
    WORST_FIRST,
    CauseCount,
    ClusterSummary,
    Fault,
    FaultCount,
    FleetCounts,
    ModuleSummary,
    counts_of,
)
from lifecycle_manager.contract.resources import (
    DATED_RELEASE_METAS,
    KYMAS,
    MODULE_ROLLOUTS,
    WATCHERS,
    DatedReleaseMeta,
)
from lifecycle_manager.rollout.releases import by_channel, is_open
from lifecycle_manager.rollout.standing import StandingWord, standing_of, taking_back, version_of
from lifecycle_manager_api import Kyma, ModuleRollout, State, Watcher, names
from lifecycle_manager_api.conditions import counted

BEST_FIRST = tuple(reversed(WORST_FIRST))
NO_VERSION = "-"
NOT_IN_CATALOG = "(not in the catalog)"
FAULT_TITLES: Mapping[Fault, str] = {
    "broken": "WORST CLUSTERS",
    "withoutEvents": "NO EVENTS FROM",
    "withoutCertificate": "NO WATCHER CERTIFICATE",
    "certificateNotRenewed": "CERTIFICATE NOT RENEWED",
}
"""The faults of which the worst clusters are listed; those that can't be reached are broken, too."""
MAX_CAUSES = 8
MAX_MODULE_ROWS = 60


@dataclass(frozen=True, slots=True)
class FleetReading:
    """What was read of the fleet. `of_replicas`: how many Kymas each replica has."""

    counts: FleetCounts = field(default_factory=FleetCounts)
    replicas: tuple[Replica, ...] = ()
    of_replicas: Mapping[str, int] = field(default_factory=dict)
    releases: tuple[DatedReleaseMeta, ...] = ()
    rollouts: tuple[ModuleRollout, ...] = ()
    watchers: tuple[Watcher, ...] = ()

    def wrong(self, now: datetime) -> tuple[str, ...]:
        """Return what is wrong, each as the part of a sentence; empty where nothing is."""
        parts = self.counts.wrong()
        late = [each for each in self.replicas if each.is_silent(now)]
        if late:
            parts.append(f"{counted(len(late), 'replica')} of Lifecycle Manager did not renew the Lease")
        if not self.replicas and self.counts.clusters:
            parts.append("no replica of Lifecycle Manager has a Lease")
        halted = [each.metadata.name for each in self.rollouts if each.status.phase == "Halted"]
        if halted:
            parts.append(f"rollout {', '.join(sorted(halted))} halted")
        bad = [each.metadata.name for each in self.watchers if each.status.state in BROKEN]
        return (*parts, *([f"Watcher {', '.join(bad)} not ready"] if bad else []))


class ModuleVersion(Part, frozen=True):
    """A module in a version: how many clusters have it in each state."""

    module: str
    version: str
    states: Mapping[State, int]


class RolloutProgress(Part, frozen=True):
    """How far a version of a channel has come.

    `word`: what its rollout has come to; empty where it has none. `taking_back`: by which rollout this is not the
    version that the channel offers.
    """

    module: str
    channel: str
    version: str
    word: StandingWord | Literal[""]
    updated: int
    clusters: int
    waiting_for_window: int
    since: datetime | None
    taking_back: str


class ReplicaStatus(Part, frozen=True):
    """A replica of Lifecycle Manager."""

    name: str
    kymas: int
    renewed: datetime | None
    silent: bool


class FleetStatus(Document, frozen=True):
    """How the fleet is."""

    at: datetime
    kymas: int
    states: Mapping[State, int]
    paused: int
    modules: tuple[ModuleVersion, ...]
    rollouts: tuple[RolloutProgress, ...]
    causes: tuple[CauseCount, ...]
    faults: Mapping[Fault, FaultCount]
    replicas: tuple[ReplicaStatus, ...]
    wrong: tuple[str, ...]
    next_command: str

    def print_table(self, screen: Screen) -> None:
        """Print it for people."""
        screen.print(_headline(self, screen))
        _print_modules(self, screen)
        _print_rollouts(self, screen)
        for fault, title in FAULT_TITLES.items():
            _print_fault(screen, title, self.faults.get(fault, FaultCount()), self.at)
        if len(self.causes) > 1:
            clusters: Counter[str] = Counter()
            for each in self.causes:
                clusters[each.cause] += each.clusters
            causes = ", ".join(f"{plain(cause)} {count:,}" for cause, count in clusters.most_common(MAX_CAUSES))
            screen.print(f"\nnot ready: {causes}")
        _print_replicas(self, screen)
        screen.print()
        if not self.wrong:
            screen.print(screen.painted("nothing is wrong", fg="green"))
            return
        screen.print(f"{screen.painted('wrong:', fg='red', bold=True)} {plain('; '.join(self.wrong))}")
        if self.next_command:
            screen.print(f"next:  {plain(self.next_command)}")

    def names(self) -> Iterator[str]:
        """Return the clusters that are listed."""
        return (reference(Kyma.KIND, each) for each in _listed(self.faults))


def status_of(reading: FleetReading, now: datetime) -> FleetStatus:
    """Return how the fleet is."""
    counts = reading.counts
    modules: dict[tuple[str, str], Counter[State]] = {}
    for each, count in counts.modules.items():
        key = (each.name, each.version or NO_VERSION) if each.name else (NOT_IN_CATALOG, NO_VERSION)
        modules.setdefault(key, Counter())[each.state] += count
    replicas = (
        ReplicaStatus(each.name, reading.of_replicas.get(each.name, 0), each.renewed, each.is_silent(now))
        for each in reading.replicas
    )
    return FleetStatus(
        at=now,
        kymas=counts.clusters,
        states=counts.states,
        paused=counts.paused,
        modules=tuple(ModuleVersion(*key, states) for key, states in sorted(modules.items())),
        rollouts=unfinished(counts, reading.releases, reading.rollouts),
        causes=tuple(counts.causes),
        faults=counts.faults,
        replicas=tuple(replicas),
        wrong=reading.wrong(now),
        next_command=next((f"klm explain {name}" for name in _listed(counts.faults)), ""),
    )


def _listed(faults: Mapping[Fault, FaultCount]) -> Iterator[str]:
    found = (faults.get(fault, FaultCount()) for fault in FAULT_TITLES)
    return (trouble.kyma for each in found for trouble in each.worst)


def unfinished(
    counts: FleetCounts, releases: Iterable[DatedReleaseMeta], rollouts: Iterable[ModuleRollout] = ()
) -> tuple[RolloutProgress, ...]:
    """Return the versions of channels that some Kymas do not have yet, or that take another back.

    Those that most Kymas lack come first.
    """
    known, found = by_channel(rollouts), []
    for release in releases:
        for each in () if release.metadata.being_deleted else release.spec.channels:
            its = known.get(release.spec.module_name, {}).get(each.channel, ())
            begun = its[0].metadata.creation_timestamp if its and its[0].spec.undoes else release.metadata.written_at
            latest = its[0] if its and is_open(its, each.version) else None
            key = (release.spec.module_name, each.channel)
            progress = _progress(counts, key, version_of(each.version, its), begun)
            if latest is not None:
                progress = _of_rollout(progress, latest, taking_back(each.version, its))
            found.append(progress)
    shown = [each for each in found if each.updated < each.clusters or each.taking_back]
    return tuple(sorted(shown, key=lambda each: (each.updated - each.clusters, each.module, each.channel)))


def _of_rollout(progress: RolloutProgress, rollout: ModuleRollout, back: str) -> RolloutProgress:
    """Return it as the rollout counts, for which a cluster that has the version and failed with it does not have it."""
    status = rollout.status
    word = standing_of(rollout, (rollout,)).word
    return with_fields(progress, word=word, updated=status.updated, clusters=status.clusters, taking_back=back)


def _progress(counts: FleetCounts, key: tuple[str, str], version: str, begun: datetime | None) -> RolloutProgress:
    def is_meant(each: ModuleSummary) -> bool:
        is_managed = each.state not in {State.UNMANAGED, State.DELETING}
        return (each.name, each.channel) == key and bool(each.version) and is_managed

    its = [(each.version == version, count) for each, count in counts.modules.items() if is_meant(each)]
    waiting = (count for each, count in counts.waiting.items() if is_meant(each) and each.version != version)
    updated = sum(count for has_it, count in its if has_it)
    return RolloutProgress(*key, version, "", updated, sum(count for _, count in its), sum(waiting), begun, "")


def _headline(status: FleetStatus, screen: Screen) -> str:
    parts = [
        screen.painted(f"{status.states[state]:,} {state.value or 'new'}", **screen.style_of(state.value))
        for state in BEST_FIRST
        if status.states.get(state)
    ]
    total = counted(status.kymas, "Kyma")
    unreachable = status.faults.get("unreachable", FaultCount()).count
    more = [f"{status.paused:,} paused"] if status.paused else []
    more += [f"{unreachable:,} unreachable"] if unreachable else []
    return " · ".join([screen.painted(total, bold=True), ", ".join(parts), *more]) if parts else total


def _print_modules(status: FleetStatus, screen: Screen) -> None:
    if not status.modules:
        return
    shown = [state for state in BEST_FIRST if any(state in each.states for each in status.modules)]
    screen.print()
    table = LiveTable(screen, ("MODULE", "VERSION", *((state.value or "new").upper() for state in shown)))
    rows = [
        (each.module, each.version, *(f"{each.states[state]:,}" if state in each.states else "." for state in shown))
        for each in status.modules
    ]
    table.print(rows[:MAX_MODULE_ROWS])
    if len(rows) > MAX_MODULE_ROWS:
        screen.print(f"and {len(rows) - MAX_MODULE_ROWS} more versions: klm get modules")


def _print_rollouts(status: FleetStatus, screen: Screen) -> None:
    rows = []
    for each in status.rollouts:
        windows = f"{each.waiting_for_window:,}" if each.waiting_for_window else "."
        have = f"{each.updated:,}/{each.clusters:,}"
        since = age(each.since, status.at)
        rows.append((each.module, each.channel, each.version, each.word or "-", have, windows, since))
    if rows:
        screen.print()
        LiveTable(screen, ("ROLLOUT", "CHANNEL", "TO", "PHASE", "HAVE IT", "WAIT FOR WINDOW", "SINCE")).print(rows)
    for each in status.rollouts:
        if each.taking_back:
            screen.print(plain(f"{each.module} in channel {each.channel}: {each.taking_back}"))


def _print_fault(screen: Screen, title: str, fault: FaultCount, now: datetime) -> None:
    if not fault.count:
        return
    screen.print()
    table = LiveTable(screen, (title, "STATE", "SINCE", "CAUSE"), state=1)
    table.print(
        (each.kyma, each.state.value or "-", age(each.since, now), f"{each.reason}: {each.message}")
        for each in fault.worst
    )
    if fault.count > len(fault.worst):
        screen.print(f"and {fault.count - len(fault.worst):,} more")


def _print_replicas(status: FleetStatus, screen: Screen) -> None:
    if not status.replicas:
        return
    screen.print()
    table = LiveTable(screen, ("REPLICA", "KYMAS", "RENEWED"))
    table.print(
        (
            each.name,
            f"{each.kymas:,}",
            f"{age(each.renewed, status.at)} ago{', too long ago' if each.silent else ''}",
        )
        for each in status.replicas
    )


MIN_INTERVAL_SECONDS = 2.0
PAUSE_PER_PASS = 5
"""With --watch, a new pass begins after so many times the duration of the last one, so a large fleet costs no more."""
_HOME_AND_CLEAR = "\x1b[H\x1b[J"


async def status(kcp: Client, screen: Screen, lease_namespace: str, *, watch: bool) -> int:
    """Print how the fleet is, once or until Ctrl-C. Returns 1 where something is wrong."""
    left_out = LeftOut()

    async def read() -> tuple[FleetReading, float]:
        began = time.monotonic()
        return await read_fleet(kcp, lease_namespace, left_out), time.monotonic() - began

    reading, seconds = await read()
    if not reading.counts.clusters:
        await require_control_plane(kcp)
    while True:
        page = io.StringIO()
        found = status_of(reading, datetime.now(UTC))
        print_document(found, replace(screen, stream=page), is_one_of_many=watch)
        if watch and screen.width is not None and screen.form == "table":
            screen.stream.write(_HOME_AND_CLEAR)
        screen.stream.write(page.getvalue())
        screen.flush()
        if not watch:
            return 1 if found.wrong else left_out.code
        await asyncio.sleep(max(MIN_INTERVAL_SECONDS, PAUSE_PER_PASS * seconds))
        reading, seconds = await once_answered(read)


async def read_fleet(kcp: Client, lease_namespace: str, left_out: LeftOut) -> FleetReading:
    """Read and count the fleet. Raises KubeError."""
    replicas, releases, rollouts, watchers = await asyncio.gather(
        read_replicas(kcp, lease_namespace),
        kcp.list(DATED_RELEASE_METAS, names.KCP_NAMESPACE, unreadable=left_out),
        kcp.list(MODULE_ROLLOUTS, names.KCP_NAMESPACE, unreadable=left_out),
        kcp.list(WATCHERS, names.KCP_NAMESPACE, unreadable=left_out),
    )
    counts, of_replicas = await count_kymas(kcp, left_out, tuple(each.name for each in replicas))
    return FleetReading(counts, replicas, of_replicas, releases.items, rollouts.items, watchers.items)


async def count_kymas(
    kcp: Client, left_out: LeftOut, replicas: tuple[str, ...] = ()
) -> tuple[FleetCounts, Mapping[str, int]]:
    """Count all Kymas, and those of each replica. Raises KubeError."""
    counts, of_replicas = FleetCounts(), Counter[str]()
    async for page in kcp.pages(KYMAS, names.KCP_NAMESPACE, unreadable=left_out):
        counts = counts_of(map(ClusterSummary.of, page.items), counts)
        of_replicas.update(rendezvous(each.metadata.name, replicas) or "" for each in page.items)
    return counts, of_replicas
