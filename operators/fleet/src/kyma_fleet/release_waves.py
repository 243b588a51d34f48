"""How a release would go out: its strategy and waves, and whether its channel has taken the version back.

Pure functions, by the rules of Lifecycle Manager.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from kyma_fleet.documents import Part
from kyma_fleet.problems import Problem
from lifecycle_manager.contract.resources import DatedReleaseMeta
from lifecycle_manager.rollout.releases import by_channel, taken_back
from lifecycle_manager.rollout.standing import taking_back
from lifecycle_manager.rollout.waves import DEFAULT_STRATEGY, DEFAULT_WAVES, waves_in_order
from lifecycle_manager_api import ModuleRollout, ModuleRolloutSpec, RolloutStrategy, RolloutStrategySpec, names

EXAMPLES = 3
WAVE_TITLES = ("WAVE", "KYMAS", "AT A TIME", "MAY FAIL", "NOT BEFORE", "SUCH AS")


@dataclass(frozen=True, slots=True)
class Release:
    """A version of a module in a channel, as it would be; an empty channel stands for all that the module has."""

    module: str
    version: str
    channel: str = ""


def require_not_taken_back(
    release: Release, releases: Iterable[DatedReleaseMeta], rollouts: Iterable[ModuleRollout]
) -> None:
    """Raise Problem where a channel has taken the version back: given once more, it comes to no cluster."""
    known = by_channel(rollouts).get(release.module, {})
    named = (each for meta in releases if meta.spec.module_name == release.module for each in meta.spec.channels)
    for channel in [release.channel] if release.channel else [each.channel for each in named]:
        its = known.get(channel, ())
        if release.version in taken_back(its):
            way = f"no cluster gets {release.version} before the channel gives another version"
            raise Problem(f"in channel {channel} {taking_back(release.version, its)}; {way}")


def strategy_of(
    release: Release, releases: tuple[DatedReleaseMeta, ...], strategies: tuple[RolloutStrategy, ...]
) -> RolloutStrategySpec | None:
    """Return the strategy of a release; None where it names none. Raises Problem where it does not exist."""
    found = next((each for each in releases if each.spec.module_name == release.module), None)
    name = found.metadata.annotations.get(names.ROLLOUT_STRATEGY, "") if found is not None else ""
    if not name:
        return None
    for each in strategies:
        if each.metadata.name == name:
            return each.spec
    raise Problem(f"RolloutStrategy {name} does not exist, so no cluster would get the version; create it first")


def default_of(strategies: tuple[RolloutStrategy, ...]) -> RolloutStrategySpec:
    """Return the waves of a large change whose release names no strategy."""
    return next((each.spec for each in strategies if each.metadata.name == DEFAULT_STRATEGY), DEFAULT_WAVES)


class WavePreview(Part, frozen=True):
    """A wave of a release: how many clusters would get the version in it, some of them, and when at the earliest."""

    name: str
    kymas: int
    max_concurrent: int
    max_failures: int
    begins: datetime
    needs_approval: bool
    examples: tuple[str, ...]


def waves_of(
    strategy: RolloutStrategySpec, release: Release, members: Mapping[str, Sequence[str]], now: datetime
) -> Iterator[WavePreview]:
    """Return the waves of a release in their order, with the Kymas of each.

    That these are updated takes no time here, soaks and pauses do.
    """
    spec = ModuleRolloutSpec(
        module_name=release.module, channel=release.channel, version=release.version, strategy=strategy
    )
    begins = now
    for plan in waves_in_order(spec):
        kymas = members.get(plan.name, ())
        limits = plan.max_concurrent(len(kymas)), plan.max_failures(len(kymas))
        begins += plan.pause_before
        needs_approval = plan.rules.approval == "required"
        yield WavePreview(plan.name, len(kymas), *limits, begins, needs_approval, tuple(kymas[:EXAMPLES]))
        begins += plan.soak


def wave_row(wave: WavePreview) -> tuple[str, ...]:
    """Return a wave by WAVE_TITLES."""
    counts = (f"{each:,}" for each in (wave.kymas, wave.max_concurrent, wave.max_failures))
    begins = f"{wave.begins:%m-%d %H:%M}{' and approval' if wave.needs_approval else ''}"
    return (wave.name, *counts, begins, ", ".join(wave.examples) or "-")
