"""Rollouts as the pages show them: which ones, and each wave as a bar. Pure functions of ModuleRollouts."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from lifecycle_manager.rollout.releases import by_channel
from lifecycle_manager.rollout.standing import STATES, RolloutStanding, standings, taking_back
from lifecycle_manager_api import FailedCluster, ModuleReleaseMeta, ModuleRollout, RolloutPhase, State, WaveStatus

CLOSED = frozenset({"Completed", "Superseded"})
STANDINGS = (
    ("healthy", "healthy", "ready"),
    ("soaking", "soaking", "soaking"),
    ("under_way", "under way", "processing"),
    ("failed", "failed", "error"),
    ("unreachable", "unreachable", "warning"),
    ("held", "held", "deleting"),
    ("waiting", "waiting", "waiting"),
)
"""How a cluster of a wave counts: field of the status, words, CSS class."""
COMMANDS: Mapping[RolloutPhase, Sequence[str]] = {
    "Halted": ("undo", "resume"),
    "AwaitingApproval": ("approve",),
    "Paused": ("resume",),
}
"""What an operator may do next: subcommands of `klm rollout`."""
MAX_WAVES = 6
"""How many waves of a rollout the overview shows."""


class BarPart(NamedTuple):
    """A part of a bar: how many clusters count so, and its place in percent."""

    words: str
    css: str
    clusters: int
    start: float
    width: float


@dataclass(frozen=True, slots=True)
class WaveBar:
    """A wave. `is_current`: whether it is the first that is not completed."""

    status: WaveStatus
    is_current: bool

    @property
    def parts(self) -> Iterator[BarPart]:
        """How its clusters count, without those that are none."""
        start = 0.0
        for field, words, css in STANDINGS:
            clusters: int = getattr(self.status, field)
            if clusters:
                width = 100 * clusters / max(1, self.status.clusters)
                yield BarPart(words, css, clusters, round(start, 2), round(width, 2))
                start += width


@dataclass(frozen=True, slots=True)
class ShownRollout:
    """A rollout of a page, and what it has come to."""

    rollout: ModuleRollout
    standing: RolloutStanding

    @property
    def name(self) -> str:
        """The name of the ModuleRollout."""
        return self.rollout.metadata.name

    @property
    def revision(self) -> str:
        """Another text whenever its page would look different."""
        return f"{self.rollout.metadata.resource_version} {self.standing.text}"

    @property
    def state(self) -> State:
        """The state in whose colour it is shown."""
        return STATES[self.standing.word]

    @property
    def is_way_back_in_force(self) -> bool:
        """Whether its channel has another version than it offers because this rollout took that back."""
        return bool(self.standing.text) and not self.standing.successor

    @property
    def waves(self) -> Sequence[WaveBar]:
        """All waves, in the order in which they get the version."""
        waves = self.rollout.status.waves
        current = next((index for index, each in enumerate(waves) if each.completed_at is None), -1)
        return [WaveBar(each, index == current) for index, each in enumerate(waves)]

    @property
    def nearest_waves(self) -> Sequence[WaveBar]:
        """The waves around the current one."""
        waves = self.waves
        current = next((index for index, each in enumerate(waves) if each.is_current), len(waves))
        start = max(0, min(current - 1, len(waves) - MAX_WAVES))
        return waves[start : start + MAX_WAVES]

    @property
    def commands(self) -> Sequence[str]:
        """What an operator may do next."""
        offered = COMMANDS.get(self.rollout.status.phase, ())
        may_undo = bool(self.rollout.spec.former_version)
        return [f"klm rollout {each} {self.name}" for each in offered if may_undo or each != "undo"]

    @property
    def first_failed(self) -> FailedCluster | None:
        """The cluster that failed first."""
        return next(iter(self.rollout.status.failed_clusters), None)


def shown_rollouts(rollouts: Iterable[ModuleRollout]) -> Sequence[ShownRollout]:
    """Return all rollouts, each as it stands to the others of its channel."""
    items = tuple(rollouts)
    known = standings(items)
    return [ShownRollout(each, known[each.metadata.name]) for each in items]


def revision_of(rollouts: Iterable[ModuleRollout], name: str) -> str:
    """Return another text whenever the page of a rollout would look different; empty where there is none."""
    return next((each.revision for each in shown_rollouts(rollouts) if each.name == name), "")


def under_way(rollouts: Iterable[ModuleRollout]) -> Sequence[ShownRollout]:
    """Return those that are neither completed nor superseded; those that wait for an operator come first."""
    order = list(STATES)
    found = [each for each in shown_rollouts(rollouts) if each.rollout.status.phase not in CLOSED]
    return sorted(found, key=lambda each: (order.index(each.rollout.status.phase), each.name))


def rollouts_of_module(rollouts: Iterable[ModuleRollout], module: str) -> Sequence[ShownRollout]:
    """Return the rollouts of a module, by channel, the latest first."""
    found = shown_rollouts(each for each in rollouts if each.spec.module_name == module)
    return sorted(found, key=lambda each: (each.rollout.spec.channel, -each.rollout.spec.revision))


def taken_back_in(rollouts: Sequence[ModuleRollout], release: ModuleReleaseMeta | None) -> Mapping[str, str]:
    """Return for each channel that has another version than its release names, by which rollout that is so."""
    if release is None:
        return {}
    its = by_channel(rollouts).get(release.spec.module_name, {})
    found = {each.channel: taking_back(each.version, its.get(each.channel, ())) for each in release.spec.channels}
    return {channel: text for channel, text in found.items() if text}


def last_completed(rollouts: Iterable[ModuleRollout]) -> Sequence[ShownRollout]:
    """Return the last completed rollout of each channel."""
    completed = [each for each in shown_rollouts(rollouts) if each.rollout.status.phase == "Completed"]
    by_revision = sorted(completed, key=lambda each: each.rollout.spec.revision)
    latest = {(each.rollout.spec.module_name, each.rollout.spec.channel): each for each in by_revision}
    return [each for _, each in sorted(latest.items())]


def moment(at: datetime | None) -> str:
    """Return a time as day and time of day."""
    return "" if at is None else f"{at:%d %b %H:%M} UTC"
