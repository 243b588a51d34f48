"""The fleet as the page shows it: one square for each cluster. Pure functions of Kymas."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from itertools import groupby
from typing import Literal, NamedTuple

from lifecycle_manager_api import Kyma, ModuleRollout, State, find, names
from lifecycle_manager_api.kyma_selection import KymaSelection

Grouping = Literal["", "region", "module", "version"]

WORST_FIRST = (State.ERROR, State.WARNING, State.DELETING, State.PROCESSING, State.EMPTY, State.UNMANAGED, State.READY)
MAX_CAUSE = 200
GOOD = frozenset({State.READY, State.UNMANAGED})


class ClusterModule(NamedTuple):
    """A module of a cluster."""

    name: str
    version: str
    channel: str
    state: State


@dataclass(frozen=True, slots=True)
class Square:
    """One cluster. `cause` says why it is not ready."""

    name: str
    state: State
    cause: str
    region: str
    channel: str
    modules: tuple[ClusterModule, ...]
    revision: str
    reason: str = ""
    since: datetime | None = None

    @property
    def cause_key(self) -> str:
        """What clusters with the same cause have in common: the reason, and the modules that are not ready."""
        if self.state in GOOD:
            return ""
        modules = sorted(each.name for each in self.modules if each.state not in GOOD)
        return " ".join((self.reason or "NotReported", *modules))[:MAX_CAUSE]

    @property
    def rank(self) -> tuple[int, str]:
        """The place in a list of the worst clusters."""
        return WORST_FIRST.index(self.state), self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter(KymaSelection):
    """What a page shows; an empty field restricts nothing. It is kept in the address of the page."""

    text: str = ""
    cause: str = ""
    group: Grouping = ""

    def matches(self, square: Square) -> bool:
        """Tell whether a cluster is shown."""
        if self.cause and self.cause != square.cause_key:
            return False
        return self._finds(square) and self.selects(
            state=square.state.value, region=square.region, channel=square.channel, modules=square.modules
        )

    def _finds(self, square: Square) -> bool:
        """Tell whether the text is in the name or in why the cluster is not ready, whatever its case."""
        text = self.text.casefold()
        return any(text in each.casefold() for each in (square.name, square.cause, square.cause_key))


@dataclass(frozen=True, slots=True)
class CauseGroup:
    """Why clusters are not ready: how many, the first since when, and what one of them says."""

    key: str
    state: State
    clusters: int
    since: datetime | None
    example: str


@dataclass(frozen=True, eq=False)
class Fleet:
    """All clusters at one moment, by name, and all rollouts."""

    squares: Mapping[str, Square] = field(default_factory=dict)
    rollouts: tuple[ModuleRollout, ...] = ()

    def updated(self, kymas: Iterable[Kyma], rollouts: Iterable[ModuleRollout] = ()) -> "Fleet":
        """Return the fleet of these Kymas; squares of unchanged ones are used again."""
        known = self.squares
        found: dict[str, Square] = {}
        for kyma in kymas:
            metadata = kyma.metadata
            before = known.get(metadata.name)
            unchanged = before is not None and before.revision == metadata.resource_version
            found[metadata.name] = before if before is not None and unchanged else square_of(kyma)
        return Fleet(found, tuple(rollouts))

    @cached_property
    def worst_first(self) -> Sequence[Square]:
        """All clusters, the worst first."""
        return sorted(self.squares.values(), key=lambda each: each.rank)

    @cached_property
    def counts(self) -> Mapping[str, int]:
        """How many clusters have each state; those with none are left out."""
        found = Counter(each.state for each in self.squares.values())
        return {state.value: found[state] for state in WORST_FIRST if found[state]}

    @cached_property
    def causes(self) -> Sequence[CauseGroup]:
        """Why clusters are not ready, the worst state and the most clusters first."""
        causes = [
            CauseGroup(
                those[0].cause_key,
                those[0].state,
                len(those),
                min(filter(None, (each.since for each in those)), default=None),
                those[0].cause,
            )
            for those in by_cause(each for each in self.squares.values() if each.state not in GOOD)
        ]
        return sorted(causes, key=lambda each: (WORST_FIRST.index(each.state), -each.clusters, each.key))

    def changes_since(self, then: datetime) -> Sequence[Square]:
        """Return the clusters that became ready, or ceased to be, since a moment; the last change first."""
        changed = [each for each in self.squares.values() if each.since is not None and each.since >= then]
        return sorted(changed, key=lambda each: (each.since, each.name), reverse=True)

    @cached_property
    def regions(self) -> Sequence[str]:
        """The regions of the clusters."""
        return sorted({each.region for each in self.squares.values()} - {""})

    @cached_property
    def channels(self) -> Sequence[str]:
        """The channels of the clusters."""
        return sorted({each.channel for each in self.squares.values()} - {""})

    @cached_property
    def versions(self) -> Sequence[str]:
        """The versions of modules that clusters have."""
        return sorted({version for counts in self.modules.values() for version, _, _ in counts} - {""})

    @cached_property
    def modules(self) -> Mapping[str, Counter[tuple[str, str, State]]]:
        """For each module, how many clusters have it, by version, channel and state."""
        found: dict[str, Counter[tuple[str, str, State]]] = {}
        for square in self.squares.values():
            for each in square.modules:
                found.setdefault(each.name, Counter())[(each.version, each.channel, each.state)] += 1
        return dict(sorted(found.items()))

    def shown(self, wanted: Filter) -> Sequence[Square]:
        """Return the clusters that match a filter, the worst first."""
        return [each for each in self.worst_first if wanted.matches(each)]

    def changed_since(self, before: "Fleet") -> Sequence[Square]:
        """Return the clusters that another fleet has in another state, or with another cause."""
        known = before.squares
        return [
            each
            for name, each in self.squares.items()
            if (old := known.get(name)) is not None
            and old is not each
            and (old.state, old.cause) != (each.state, each.cause)
        ]

    def has_others_than(self, before: "Fleet") -> bool:
        """Tell whether clusters came or went."""
        return self.squares.keys() != before.squares.keys()


def by_cause(squares: Iterable[Square]) -> Sequence[Sequence[Square]]:
    """Return the clusters of each state and cause, in the order of the first of each."""
    found: dict[tuple[State, str], list[Square]] = {}
    for each in squares:
        found.setdefault((each.state, each.cause_key), []).append(each)
    return list(found.values())


def square_of(kyma: Kyma) -> Square:
    """Return the square of a Kyma, without modules that the control plane does not offer: their names are anybody's."""
    ready = find(kyma.status.conditions, "Ready")
    cause = "" if kyma.status.state is State.READY or ready is None else ready.message or ready.reason
    return Square(
        name=kyma.metadata.name,
        state=kyma.status.state,
        cause=cause if len(cause) <= MAX_CAUSE else f"{cause[: MAX_CAUSE - 1]}…",
        region=kyma.metadata.labels.get(names.REGION, ""),
        channel=kyma.spec.channel,
        modules=tuple(
            ClusterModule(each.name, each.version, each.channel, each.state)
            for each in kyma.status.modules
            if each.template is not None
        ),
        revision=kyma.metadata.resource_version,
        reason=ready.reason if ready is not None else "",
        since=ready.last_transition_time if ready is not None else None,
    )


def grouped(squares: Iterable[Square], by: Grouping) -> Iterator[tuple[str, Sequence[Square]]]:
    """Give the squares under headings. A cluster is below each of its modules or versions."""
    if not by:
        yield "", list(squares)
        return
    placed = sorted(
        ((heading, square.rank, square) for square in squares for heading in _headings(square, by)),
        key=lambda each: each[:2],
    )
    for heading, members in groupby(placed, key=lambda each: each[0]):
        yield heading or "none", [square for _, _, square in members]


def _headings(square: Square, by: Grouping) -> Iterable[str]:
    if by == "region":
        return (square.region,)
    if by == "module":
        return {each.name for each in square.modules} or ("",)
    return {f"{each.name} {each.version}" for each in square.modules} or ("",)
