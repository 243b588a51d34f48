"""What the rules of Lifecycle Manager say of a release, for each Kyma and each wave; pure functions."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime

import msgspec

from kyma_fleet.problems import Problem
from lifecycle_manager.contract.resources import DatedReleaseMeta
from lifecycle_manager.kyma.reasons import ROLLOUT_PENDING, WAITS_FOR_MAINTENANCE
from lifecycle_manager.kyma.resolution import Installed, Resolution, resolve
from lifecycle_manager.module_catalog import Offer
from lifecycle_manager.rollout import Timing
from lifecycle_manager.rollout.waves import DEFAULT_STRATEGY, DEFAULT_WAVES, WavePlan, wave_of, waves_in_order
from lifecycle_manager_api import (
    ChannelVersion,
    Kyma,
    KymaModule,
    KymaModuleStatus,
    KymaSpec,
    ModuleRolloutSpec,
    ModuleTemplate,
    RolloutStrategy,
    RolloutStrategySpec,
    State,
    names,
    template_name,
)

PAUSED = "Paused"
EXAMPLES = 3
MAX_REASONS = 50


@dataclass(frozen=True, slots=True)
class Release:
    """A version of a module in a channel, as it would be; an empty channel stands for all that the module has."""

    module: str
    version: str
    channel: str = ""


@dataclass(frozen=True, slots=True)
class KymaPreview:
    """What a release means for one Kyma: when it gets it, or why not."""

    kyma: str
    before: str
    at: datetime | None = None
    reason: str = ""
    message: str = ""

    @property
    def gets_it(self) -> bool:
        """Whether the Kyma gets the version without anybody's doing."""
        return self.at is not None


class Held(msgspec.Struct):
    """Why some Kymas do not get a version: how many, some of them, and the message for the first."""

    count: int = 0
    message: str = ""
    examples: list[str] = msgspec.field(default_factory=list)


class Sums(msgspec.Struct, eq=False, rename="camel"):
    """What a release means for the fleet. `versions` are those that would be replaced; `sample` gets it first."""

    sample_size: int = 0
    have_it: int = 0
    get_it: int = 0
    others: int = 0
    first: datetime | None = None
    last: datetime | None = None
    versions: Counter[str] = msgspec.field(default_factory=Counter)
    held: dict[str, Held] = msgspec.field(default_factory=dict)
    sample: list[str] = msgspec.field(default_factory=list)
    kymas: list[KymaPreview] = msgspec.field(default_factory=list)

    def add(self, release: Release, outcome: KymaPreview | None) -> None:
        """Count one Kyma; None for one that the release does not concern."""
        if outcome is None:
            self.others += 1
            return
        self.kymas.append(outcome)
        if outcome.gets_it:
            self._add_change(outcome)
        elif outcome.before == release.version and not outcome.reason:
            self.have_it += 1
        else:
            reason = outcome.reason if outcome.reason in self.held or len(self.held) < MAX_REASONS else "Other"
            held = self.held.setdefault(reason, Held(message=outcome.message))
            held.count += 1
            if len(held.examples) < EXAMPLES:
                held.examples.append(outcome.kyma)

    def _add_change(self, outcome: KymaPreview) -> None:
        at = outcome.at
        self.get_it += 1
        self.versions[outcome.before or "none"] += 1
        self.first = at if self.first is None or (at is not None and at < self.first) else self.first
        self.last = at if self.last is None or (at is not None and at > self.last) else self.last
        if len(self.sample) < self.sample_size:
            self.sample.append(outcome.kyma)


def released(offer: Offer, release: Release) -> tuple[Offer, ModuleTemplate]:
    """Return the catalog as it would be after a release. Raises Problem where that is not possible."""
    name = template_name(release.module, release.version)
    template = offer.named(release.module, release.version)
    known = offer.releases.get(release.module)
    if template is None and name in offer.disagreeing:
        raise Problem(f"ModuleTemplate {name} {offer.absence(release.module, release.version)}")
    if template is None:
        versions = sorted(each for each in offer.templates if each.startswith(f"{release.module}-"))
        there = ", ".join(versions[:10]) or "none"
        raise Problem(f"ModuleTemplate {name} does not exist; apply it first: it changes no cluster. There is: {there}")
    if known is None:
        raise Problem(f"module {release.module} has no ModuleReleaseMeta; klm get releases lists those that have one")
    if known.spec.mandatory is not None:
        why = "a new version goes to all clusters, in waves where these are many"
        raise Problem(f"module {release.module} is mandatory and has no channel whose change can be previewed: {why}")
    channels = {each.channel: each.version for each in known.spec.channels}
    for channel in [release.channel] if release.channel else list(channels):
        channels[channel] = release.version
    entries = tuple(ChannelVersion(channel=name, version=version) for name, version in channels.items())
    spec = msgspec.structs.replace(known.spec, channels=entries)
    releases = {**offer.releases, release.module: msgspec.structs.replace(known, spec=spec)}
    return replace(offer, releases=releases), template


def outcome_for(kyma: Kyma, release: Release, offer: Offer, timing: Timing) -> KymaPreview | None:
    """Return what a release means for a Kyma; None where the Kyma does not have the module in this channel."""
    known = next((each for each in kyma.status.modules if each.name == release.module), None)
    if known is None or known.state is State.DELETING or (release.channel and known.channel != release.channel):
        return None
    name, before = kyma.metadata.name, known.version
    if kyma.metadata.is_paused:
        return KymaPreview(name, before, reason=PAUSED, message="its Kyma is paused")
    found, at = _resolution(kyma, known, offer, timing), timing.now
    if found.reason == ROLLOUT_PENDING and found.again is not None:
        at = found.again  # its turn; then a maintenance window may still have to be waited for
        found = _resolution(kyma, known, offer, replace(timing, now=at))
    return _outcome(name, before, found, at)


def _outcome(name: str, before: str, found: Resolution, now: datetime) -> KymaPreview:
    if found.reason == WAITS_FOR_MAINTENANCE and found.again is not None:
        return KymaPreview(name, before, at=found.again)
    if found.reason or found.version == before:
        return KymaPreview(name, before, reason=found.reason, message=found.message)
    return KymaPreview(name, before, at=now)


def _resolution(kyma: Kyma, known: KymaModuleStatus, offer: Offer, timing: Timing) -> Resolution:
    module = KymaModule(name=known.name, channel=known.channel or None, managed=known.state is not State.UNMANAGED)
    spec = KymaSpec(
        channel=kyma.status.active_channel or kyma.spec.channel,
        modules=(module,),
        skip_maintenance_windows=kyma.status.skip_maintenance_windows,
    )
    installed = {known.name: Installed(known.version, known.channel)} if known.version else {}
    (found,) = resolve(spec, kyma.metadata, offer=offer, installed=installed, timing=timing)
    return found


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
