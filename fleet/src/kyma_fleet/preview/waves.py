"""In which waves the clusters would get a release, by the functions that decide it in Lifecycle Manager."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

from kyma_fleet.preview.plan import EXAMPLES, KymaPreview, Release
from kyma_fleet.problems import Problem
from lifecycle_manager.contract.resources import DatedReleaseMeta
from lifecycle_manager.rollout.waves import DEFAULT_STRATEGY, DEFAULT_WAVES, WavePlan, wave_of, waves_in_order
from lifecycle_manager_api import Kyma, ModuleRolloutSpec, RolloutStrategy, RolloutStrategySpec, names


@dataclass(slots=True)
class WaveForecast:
    """A wave: how many clusters would get the version in it, some of them, and when it begins at the earliest."""

    plan: WavePlan
    begins: datetime
    count: int = 0
    examples: list[str] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class WavesForecast:
    """The waves of a release, in their order."""

    strategy: RolloutStrategySpec
    waves: dict[str, WaveForecast]

    @classmethod
    def of(cls, strategy: RolloutStrategySpec, release: Release, now: datetime) -> "WavesForecast":
        """Return the waves without clusters. That they are updated takes no time here, soaks and pauses do."""
        spec = ModuleRolloutSpec(
            module_name=release.module, channel=release.channel, version=release.version, strategy=strategy
        )
        return cls(strategy, {each.plan.name: each for each in _forecasts(spec, now)})

    def add(self, kyma: Kyma, outcome: KymaPreview | None) -> None:
        """Count a Kyma that would get the version."""
        if outcome is None or not outcome.gets_it:
            return
        wave = self.waves[wave_of(self.strategy, kyma.metadata.labels)]
        wave.count += 1
        if len(wave.examples) < EXAMPLES:
            wave.examples.append(kyma.metadata.name)


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


def _forecasts(spec: ModuleRolloutSpec, now: datetime) -> Iterator[WaveForecast]:
    begins = now
    for plan in waves_in_order(spec):
        begins += plan.pause_before
        yield WaveForecast(plan, begins)
        begins += plan.soak
