"""What `klm status` prints."""

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime

from kube_runtime.ages import age
from kyma_fleet.documents import Document, Part, reference
from kyma_fleet.overview.tally import Examples, Tally, Trouble, counted, unfinished
from kyma_fleet.screen import LiveTable, Screen
from kyma_fleet.text import plain
from lifecycle_manager_api import Kyma, State

SHOWN_STATES = (
    State.READY,
    State.PROCESSING,
    State.WARNING,
    State.ERROR,
    State.DELETING,
    State.UNMANAGED,
)
MAX_MODULE_ROWS = 60


class Troubles(Part, frozen=True):
    """How many clusters have a trouble, and the worst of them."""

    count: int
    worst: tuple[Trouble, ...]


class ModuleVersion(Part, frozen=True):
    """A module in a version: how many clusters have it in each state."""

    module: str
    version: str
    states: Mapping[State, int]


class RolloutProgress(Part, frozen=True):
    """How far a version of a channel has come."""

    module: str
    channel: str
    version: str
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
    broken: Troubles
    causes: Mapping[str, int]
    unreachable: Troubles
    without_events: Troubles
    without_certificate: Troubles
    certificate_not_renewed: Troubles
    replicas: tuple[ReplicaStatus, ...]
    wrong: tuple[str, ...]
    next_command: str

    def print_table(self, screen: Screen) -> None:
        """Print it for people."""
        screen.print(_headline(self, screen))
        _modules(self, screen)
        _rollouts(self, screen)
        _troubles(screen, "WORST CLUSTERS", self.broken, self.at)
        if len(self.causes) > 1:
            causes = ", ".join(f"{plain(reason)} {count:,}" for reason, count in Counter(self.causes).most_common(8))
            screen.print(f"causes: {causes}")
        _troubles(screen, "NO EVENTS FROM", self.without_events, self.at)
        _troubles(screen, "NO WATCHER CERTIFICATE", self.without_certificate, self.at)
        _troubles(screen, "CERTIFICATE NOT RENEWED", self.certificate_not_renewed, self.at)
        _replicas(self, screen)
        screen.print()
        for line in _verdict_lines(self, screen):
            screen.print(line)

    def names(self) -> Iterator[str]:
        """Return the clusters that are listed."""
        for troubles in (self.broken, self.without_events, self.without_certificate, self.certificate_not_renewed):
            yield from (reference(Kyma.KIND, each.kyma) for each in troubles.worst)


def status_of(tally: Tally, now: datetime) -> FleetStatus:
    """Return how the fleet is."""
    counts: dict[tuple[str, str], Counter[State]] = {}
    for (module, version, state), count in tally.modules.items():
        counts.setdefault((module, version), Counter())[state] += count
    listed = [*tally.broken.worst(), *tally.silent.worst(), *tally.expiring.worst()]
    return FleetStatus(
        at=now,
        kymas=tally.states.total(),
        states=dict(tally.states),
        paused=tally.paused,
        modules=tuple(ModuleVersion(*key, dict(states)) for key, states in sorted(counts.items())),
        rollouts=tuple(
            RolloutProgress(
                module,
                channel,
                each.version,
                each.done,
                each.done + each.behind,
                each.waiting,
                each.changed,
                each.taking_back,
            )
            for module, channel, each in unfinished(tally.rollouts)
        ),
        broken=_worst_of(tally.broken),
        causes=dict(tally.causes),
        unreachable=_worst_of(tally.unreachable),
        without_events=_worst_of(tally.silent),
        without_certificate=_worst_of(tally.certificates),
        certificate_not_renewed=_worst_of(tally.expiring),
        replicas=tuple(
            ReplicaStatus(each.name, tally.shards[each.name], each.renewed, each.is_silent(now))
            for each in tally.replicas
        ),
        wrong=tuple(tally.wrong(now)),
        next_command=f"klm explain {listed[0].kyma}" if listed else "",
    )


def _worst_of(examples: Examples) -> Troubles:
    return Troubles(examples.count, tuple(examples.worst()))


def _headline(status: FleetStatus, screen: Screen) -> str:
    parts = []
    for state in (*SHOWN_STATES, State.EMPTY):
        if count := status.states.get(state):
            label = f"{count:,} {state.value or 'new'}"
            parts.append(screen.painted(label, fg=_colour(state)) if _colour(state) else label)
    total = counted(status.kymas, "Kyma")
    more = [f"{status.paused:,} paused"] if status.paused else []
    more += [f"{status.unreachable.count:,} unreachable"] if status.unreachable.count else []
    return " · ".join([screen.painted(total, bold=True), ", ".join(parts), *more]) if parts else total


def _colour(state: State) -> str | None:
    return {State.READY: "green", State.WARNING: "yellow", State.ERROR: "red"}.get(state)


def _modules(status: FleetStatus, screen: Screen) -> None:
    if not status.modules:
        return
    shown = [state for state in SHOWN_STATES if any(state in each.states for each in status.modules)]
    screen.print()
    table = LiveTable(screen, ("MODULE", "VERSION", *(state.value.upper() for state in shown)))
    rows = [
        (each.module, each.version, *(f"{each.states[state]:,}" if state in each.states else "." for state in shown))
        for each in status.modules
    ]
    table.print(rows[:MAX_MODULE_ROWS])
    if len(rows) > MAX_MODULE_ROWS:
        screen.print(f"and {len(rows) - MAX_MODULE_ROWS} more versions: klm get modules")


def _rollouts(status: FleetStatus, screen: Screen) -> None:
    rows = []
    for each in status.rollouts:
        windows = f"{each.waiting_for_window:,}" if each.waiting_for_window else "."
        have = f"{each.updated:,}/{each.clusters:,}"
        rows.append((each.module, each.channel, each.version, have, windows, age(each.since, status.at)))
    if rows:
        screen.print()
        LiveTable(screen, ("ROLLOUT", "CHANNEL", "TO", "HAVE IT", "WAIT FOR WINDOW", "SINCE")).print(rows)
    for each in status.rollouts:
        if each.taking_back:
            screen.print(plain(f"{each.module} in channel {each.channel}: {each.taking_back}"))


def _troubles(screen: Screen, title: str, troubles: Troubles, now: datetime) -> None:
    if not troubles.count:
        return
    screen.print()
    table = LiveTable(screen, (title, "STATE", "SINCE", "CAUSE"), state=1)
    table.print(
        (each.kyma, each.state.value or "-", age(each.since, now), f"{each.reason}: {each.message}")
        for each in troubles.worst
    )
    if troubles.count > len(troubles.worst):
        screen.print(f"and {troubles.count - len(troubles.worst):,} more")


def _replicas(status: FleetStatus, screen: Screen) -> None:
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


def _verdict_lines(status: FleetStatus, screen: Screen) -> Iterator[str]:
    if not status.wrong:
        yield screen.painted("nothing is wrong", fg="green")
        return
    yield f"{screen.painted('wrong:', fg='red', bold=True)} {plain('; '.join(status.wrong))}"
    if status.next_command:
        yield f"next:  {plain(status.next_command)}"
