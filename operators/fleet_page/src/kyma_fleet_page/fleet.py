"""The fleet as the page shows it: one square for each cluster. Pure functions of Kymas."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from itertools import groupby
from typing import Literal

from lifecycle_manager.contract.fleet import WORST_FIRST, ClusterSummary, FleetCounts, counts_of
from lifecycle_manager_api import Kyma, ModuleReleaseMeta, ModuleRollout, State
from lifecycle_manager_api.kyma_selection import KymaSelection

Grouping = Literal["", "region", "module", "version"]

NEW = "New"
"""What the filter calls the state of clusters that have none yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter(KymaSelection):
    """What a page shows; an empty field restricts nothing. It is kept in the address of the page."""

    text: str = ""
    cause: str = ""
    group: Grouping = ""

    def matches(self, cluster: ClusterSummary) -> bool:
        """Tell whether a cluster is shown."""
        if self.cause and self.cause != cluster.cause:
            return False
        return self._finds(cluster) and self.selects(
            state=cluster.state.value or NEW, region=cluster.region, channel=cluster.channel, modules=cluster.modules
        )

    def _finds(self, cluster: ClusterSummary) -> bool:
        """Tell whether the text is in the name or in why the cluster is not ready, whatever its case."""
        text = self.text.casefold()
        return any(text in each.casefold() for each in (cluster.name, cluster.message, cluster.cause))


@dataclass(frozen=True, eq=False)
class Fleet:
    """All clusters at one moment, by name, and all rollouts and releases."""

    clusters: Mapping[str, ClusterSummary] = field(default_factory=dict)
    rollouts: tuple[ModuleRollout, ...] = ()
    releases: tuple[ModuleReleaseMeta, ...] = ()

    def updated(
        self,
        kymas: Iterable[Kyma],
        rollouts: Iterable[ModuleRollout] = (),
        releases: Iterable[ModuleReleaseMeta] = (),
    ) -> "Fleet":
        """Return the fleet of these Kymas; what is known of unchanged ones is used again."""
        found: dict[str, ClusterSummary] = {}
        for kyma in kymas:
            metadata = kyma.metadata
            before = self.clusters.get(metadata.name)
            unchanged = before is not None and before.resource_version == metadata.resource_version
            found[metadata.name] = before if before is not None and unchanged else ClusterSummary.of(kyma)
        return Fleet(found, tuple(rollouts), tuple(releases))

    @cached_property
    def worst_first(self) -> Sequence[ClusterSummary]:
        """All clusters, the worst first."""
        return sorted(self.clusters.values(), key=lambda each: each.rank)

    @cached_property
    def counts(self) -> FleetCounts:
        """How many clusters are in which state, and why."""
        return counts_of(self.clusters.values())

    @cached_property
    def states(self) -> Mapping[str, int]:
        """How many clusters have each state, the worst first; those with none are left out."""
        counts = self.counts.states
        return {state.value or NEW: counts[state] for state in WORST_FIRST if counts[state]}

    def changes_since(self, then: datetime) -> Sequence[ClusterSummary]:
        """Return the clusters that became ready, or ceased to be, since a moment; the last change first."""
        changed = [each for each in self.clusters.values() if each.since is not None and each.since >= then]
        return sorted(changed, key=lambda each: (each.since, each.name), reverse=True)

    @cached_property
    def regions(self) -> Sequence[str]:
        """The regions of the clusters."""
        return sorted({each.region for each in self.clusters.values()} - {""})

    @cached_property
    def channels(self) -> Sequence[str]:
        """The channels of the clusters."""
        return sorted({each.channel for each in self.clusters.values()} - {""})

    @cached_property
    def versions(self) -> Sequence[str]:
        """The versions of modules that clusters have."""
        return sorted({each.version for each in self.counts.modules} - {""})

    @cached_property
    def modules(self) -> Mapping[str, Mapping[tuple[str, str, State], int]]:
        """For each module that is offered or installed, how many clusters have it, by version, channel and state."""
        found: dict[str, dict[tuple[str, str, State], int]] = {}
        for each, count in sorted(self.counts.modules.items()):
            if each.name:
                found.setdefault(each.name, {})[each.version, each.channel, each.state] = count
        return found

    def shown(self, wanted: Filter) -> Sequence[ClusterSummary]:
        """Return the clusters that match a filter, the worst first."""
        return [each for each in self.worst_first if wanted.matches(each)]

    def changed_since(self, before: "Fleet") -> Sequence[ClusterSummary]:
        """Return the clusters of which another fleet says something else."""
        known = before.clusters
        return [
            each
            for name, each in self.clusters.items()
            if (old := known.get(name)) is not None
            and old is not each
            and old != replace(each, resource_version=old.resource_version)
        ]

    def has_others_than(self, before: "Fleet") -> bool:
        """Tell whether clusters came or went."""
        return self.clusters.keys() != before.clusters.keys()

    def differs_from(self, before: "Fleet") -> bool:
        """Tell whether a page would look different."""
        catalogs = [(each.rollouts, each.releases) for each in (self, before)]
        return self.has_others_than(before) or bool(self.changed_since(before)) or catalogs[0] != catalogs[1]


def by_cause(clusters: Iterable[ClusterSummary]) -> Sequence[Sequence[ClusterSummary]]:
    """Return the clusters of each state and cause, in the order of the first of each."""
    found: dict[tuple[State, str], list[ClusterSummary]] = {}
    for each in clusters:
        found.setdefault((each.state, each.cause), []).append(each)
    return list(found.values())


def grouped(clusters: Iterable[ClusterSummary], by: Grouping) -> Iterator[tuple[str, Sequence[ClusterSummary]]]:
    """Give clusters under headings. One is below each of its modules or versions."""
    if not by:
        yield "", list(clusters)
        return
    placed = sorted(
        ((heading, cluster.rank, cluster) for cluster in clusters for heading in _headings(cluster, by)),
        key=lambda each: each[:2],
    )
    for heading, members in groupby(placed, key=lambda each: each[0]):
        yield heading or "none", [cluster for _, _, cluster in members]


def _headings(cluster: ClusterSummary, by: Grouping) -> Iterable[str]:
    if by == "region":
        return (cluster.region,)
    modules = [each for each in cluster.modules if each.name]
    return {each.name if by == "module" else f"{each.name} {each.version}" for each in modules} or ("",)
