"""The waves of a rollout: which wave a cluster belongs to, how a cluster counts, and how far each wave is.

Pure functions. A cluster counts as one of

- `healthy`: the module has been Ready with the version for the soak time
- `soaking`: it is Ready with the version, but not for so long yet. One that turns bad meanwhile begins anew
- `failed`: the module is in Error with the version, or was not Ready by the deadline
- `under_way`: the version was released to it, and it is neither Ready with it nor failed yet
- `unreachable`: it can't be reached, and is not under way, or longer than the deadline
- `held`: it is paused, waits for a maintenance window, or its users upgrade by themselves
- `waiting`: for the version

A wave begins when the wave before it is completed, the pause before it is over and, where that is required, somebody
approved it. It settles when no cluster of it is waiting or under way any more, and is completed when none is soaking
that was Ready by the deadline. Clusters that got the module since it began do not delay that: where some come all the
time it would never end. Those that are held or unreachable do for no longer than the deadline, unless nothing but
maintenance windows kept all from the version: it would pass all waves before any cluster has it. Since when a cluster
is Ready is in its Manifest, so that any replica comes to the same. With too many failures no wave begins or is
completed before an operator accepts them: new clusters get the version of a wave that is completed.

Where `maxFailures` is a share, failures count whose reason several clusters of the wave have: a version that is broken
fails for the same reason in many, and a cluster that is broken is the matter of its users. Where half of the wave has
failed, such as a canary alone, all count; so does each where it is a number.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Literal, get_args

import msgspec

from lifecycle_manager.contract.durations import parse_duration
from lifecycle_manager_api import (
    InvalidVersion,
    LabelSelector,
    LabelSelectorRequirement,
    ModuleRollout,
    ModuleRolloutSpec,
    RolloutStrategySpec,
    Version,
    Wave,
    WaveRules,
    WaveStatus,
    names,
)
from lifecycle_manager_api.rollout_strategy import REMAINING

DEADLINE_EXCEEDED = "DeadlineExceeded"
DEFAULT_STRATEGY = "default"
"""The RolloutStrategy of large changes where none is named; where it does not exist, DEFAULT_WAVES are."""
DEFAULT_WAVES = RolloutStrategySpec(
    waves=(
        Wave(
            name="trial",
            kyma_selector=LabelSelector(
                match_expressions=(
                    LabelSelectorRequirement(key=names.BROKER_PLAN_NAME, operator="In", values=("trial", "free")),
                )
            ),
        ),
    )
)
FAILURES = "an operator to accept the failures"
Standing = Literal["waiting", "held", "under_way", "soaking", "healthy", "failed", "unreachable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A cluster with the module of a rollout's channel.

    - `since`: when the version was released to it; None where it was not
    - `ready_since`: since when it has been Ready with the version that it has; None where nothing says that
    - `joined_at`: since when it has the module
    - `turned_at`: when it last answered again, stopped to be Ready with its version, or could be interrupted for it
    - `is_new`: the version that it has was not reconciled yet
    - `waits_for_user`: it was, and the users of the cluster have not chosen it yet
    - `waits_for_window`: it is held for nothing but a maintenance window that is to come
    - `reason`, `message`: why the module is not Ready
    """

    kyma: str
    wave: str
    has_version: bool
    is_ready: bool
    is_error: bool = False
    is_unreachable: bool = False
    is_held: bool = False
    waits_for_user: bool = False
    waits_for_window: bool = False
    since: datetime | None = None
    joined_at: datetime | None = None
    turned_at: datetime | None = None
    is_new: bool = False
    ready_since: datetime | None = None
    reason: str = ""
    message: str = ""

    def standing(self, now: datetime, *, deadline: timedelta, soak: timedelta) -> Standing:
        """Return how the cluster counts."""
        if self.has_version and self.is_ready:
            return "healthy" if self.ready_since is None or now >= self.ready_since + soak else "soaking"
        due_at = self.due_at(deadline)
        is_overdue = due_at is not None and now >= due_at
        is_waited_for = self.since is not None and now < (due_at or self.since + deadline)
        if self.is_unreachable:
            return "under_way" if is_waited_for else "unreachable"
        if self.waits_for_user and not self.has_version:
            return "held"
        if self.is_held and not is_waited_for:
            return "held"
        if self.since is None:
            return "waiting"
        return "failed" if is_overdue or (self.has_version and self.is_error) else "under_way"

    def due_at(self, deadline: timedelta) -> datetime | None:
        """Return when it has to be Ready; None where it has no deadline yet.

        That counts anew where it could not be reached, was not to be interrupted, or was Ready, at its first deadline:
        its users may install the version hours later, or change the Module CR. Before that it does not: what comes and
        goes is not Ready.
        """
        if self.since is None or self.is_new:
            return None
        first = self.since + deadline
        return self.turned_at + deadline if self.turned_at is not None and self.turned_at > first else first

    @property
    def failure(self) -> str:
        """Return the reason why it counts as failed."""
        return self.reason if self.is_error else DEADLINE_EXCEEDED

    def is_late(self, deadline: timedelta) -> bool:
        """Tell whether the cluster is Ready only since its deadline is over, so that no wave waits for it."""
        return self.since is not None and self.ready_since is not None and self.ready_since > self.since + deadline


@dataclass(frozen=True, slots=True)
class WavePlan:
    """A wave with its rules as numbers."""

    name: str
    rules: WaveRules
    deadline: timedelta
    soak: timedelta
    pause_before: timedelta

    def max_concurrent(self, clusters: int) -> int:
        return _amount(self.rules.max_concurrent, clusters, rounding=math.ceil)

    def max_failures(self, clusters: int) -> int:
        return _amount(self.rules.max_failures, clusters, rounding=math.floor)

    def failures_among(self, failed: Sequence[Cluster], clusters: int) -> int:
        """Return how many of the failed clusters count: with a share those whose reason another one has, too."""
        is_number = not str(self.rules.max_failures).endswith("%")
        if is_number or 2 * len(failed) >= clusters:
            return len(failed)
        return sum(count for count in Counter(each.failure for each in failed).values() if count > 1)


@dataclass(frozen=True, slots=True)
class WaveProgress:
    """A wave at one moment.

    - `failures`: how many failed clusters count
    - `is_open`: clusters that it waits for are waiting for the version or getting it
    - `awaits_window`: no cluster has tried the version, and some wait for nothing but a maintenance window
    - `soaked_at`: when the last cluster that the wave waits for has been Ready for the soak time; None where none soaks
    - `releasable`: the clusters that may get the version now
    - `again`: when time alone changes it
    """

    plan: WavePlan
    status: WaveStatus
    standings: Mapping[str, Standing] = field(default_factory=dict)
    failures: int = 0
    is_open: bool = False
    awaits_window: bool = False
    waits_for: str = ""
    needs_approval: bool = False
    soaked_at: datetime | None = None
    releasable: tuple[str, ...] = ()
    again: datetime | None = None

    @property
    def is_completed(self) -> bool:
        return self.status.completed_at is not None

    @property
    def is_begun(self) -> bool:
        return self.status.started_at is not None


def wave_of(strategy: RolloutStrategySpec, labels: Mapping[str, str]) -> str:
    """Return the name of the wave of a Kyma with these labels: the first that selects it."""
    return next((each.name for each in strategy.waves if each.kyma_selector.matches(labels)), REMAINING)


def is_downgrade(spec: ModuleRolloutSpec) -> bool:
    """Tell whether a rollout gives clusters a lower version than the one before."""
    try:
        return Version.parse(spec.version) < Version.parse(spec.former_version)
    except InvalidVersion:
        return False


def waves_in_order(spec: ModuleRolloutSpec) -> tuple[WavePlan, ...]:
    """Return the waves in the order in which they get the version: a lower one goes back the way it came."""
    waves = [*((each.name, each) for each in spec.strategy.waves), (REMAINING, spec.strategy.remaining)]
    plans = tuple(
        WavePlan(
            name,
            rules,
            deadline=parse_duration(rules.progress_deadline),
            soak=parse_duration(rules.soak),
            pause_before=parse_duration(rules.pause_before),
        )
        for name, rules in waves
    )
    return plans[::-1] if is_downgrade(spec) else plans


def progress_of(rollout: ModuleRollout, clusters: Iterable[Cluster], now: datetime) -> tuple[WaveProgress, ...]:
    """Return how far each wave is, in their order."""
    members: dict[str, list[Cluster]] = {}
    for each in clusters:
        members.setdefault(each.wave, []).append(each)
    before = {each.name: each for each in rollout.status.waves}
    approved = {each.wave for each in rollout.spec.approvals}
    found: list[WaveProgress] = []
    is_failing = rollout.status.failures_at_halt > rollout.spec.accepted_failures
    for plan in waves_in_order(rollout.spec):
        counted = _counted(plan, members.get(plan.name, []), before.get(plan.name), now)
        is_failing = is_failing or too_many_failures(rollout, [*found, counted]) is not None
        if rollout.spec.at_once:
            progress = _at_once(counted, now)
        else:
            previous = found[-1] if found else None
            progress = _advanced(counted, previous, now, is_approved=plan.name in approved, is_failing=is_failing)
        found.append(progress)
    return tuple(found)


def too_many_failures(rollout: ModuleRollout, waves: Sequence[WaveProgress]) -> WaveProgress | None:
    """Return the last wave with more failures than its strategy accepts, unless operators accept those of all such."""
    failing = [each for each in waves if each.failures > each.plan.max_failures(each.status.clusters)]
    is_accepted = sum(each.failures for each in failing) <= rollout.spec.accepted_failures
    return None if is_accepted else failing[-1]


def _counted(plan: WavePlan, clusters: Sequence[Cluster], before: WaveStatus | None, now: datetime) -> WaveProgress:
    standings: dict[str, Standing] = {
        each.kyma: each.standing(now, deadline=plan.deadline, soak=plan.soak) for each in clusters
    }
    counts: dict[str, int] = dict.fromkeys(get_args(Standing), 0)
    for standing in standings.values():
        counts[standing] += 1
    known = before or WaveStatus(name=plan.name)
    deadlines = (
        due_at
        for each in clusters
        if standings[each.kyma] == "under_way" and (due_at := each.due_at(plan.deadline)) is not None
    )
    begun = known.started_at
    early = [it for it in clusters if begun is None or it.joined_at is None or it.joined_at <= begun] or clusters
    soaks = (
        each.ready_since + plan.soak
        for each in early
        if standings[each.kyma] == "soaking" and each.ready_since is not None and not each.is_late(plan.deadline)
    )
    status = msgspec.structs.replace(known, clusters=len(clusters), **counts)
    return WaveProgress(
        plan,
        status,
        standings,
        failures=plan.failures_among([it for it in clusters if standings[it.kyma] == "failed"], len(clusters)),
        is_open=any(standings[each.kyma] in {"waiting", "under_way"} for each in early),
        awaits_window=not any(counts[each] for each in ("soaking", "healthy", "failed"))
        and any(each.waits_for_window and standings[each.kyma] == "held" for each in clusters),
        soaked_at=max(soaks, default=None),
        again=min(deadlines, default=None),
    )


def _at_once(wave: WaveProgress, now: datetime) -> WaveProgress:
    """All clusters get the version, and the wave is completed when none is waiting or under way."""
    is_done = not (wave.is_open or wave.awaits_window)
    ended = wave.status.completed_at or now if is_done else None
    status = msgspec.structs.replace(
        wave.status, started_at=wave.status.started_at or now, settled_at=ended, completed_at=ended
    )
    return replace(wave, status=status, waits_for=_unsettled(wave), releasable=_waiting(wave))


def _advanced(
    wave: WaveProgress, previous: WaveProgress | None, now: datetime, *, is_approved: bool, is_failing: bool
) -> WaveProgress:
    if wave.is_completed:
        return replace(wave, releasable=_slots(wave))
    if previous is not None and not previous.is_completed:
        return replace(wave, waits_for=f"wave {previous.plan.name} to be completed")
    if not wave.is_begun:
        waiting = _waiting_to_begin(wave, previous, now, is_approved=is_approved, is_failing=is_failing)
        if waiting is not None:
            return waiting
        wave = replace(wave, status=msgspec.structs.replace(wave.status, started_at=now))
    return _settled(wave, now, is_failing=is_failing)


def _waiting_to_begin(
    wave: WaveProgress, previous: WaveProgress | None, now: datetime, *, is_approved: bool, is_failing: bool
) -> WaveProgress | None:
    if is_failing:
        return replace(wave, waits_for=FAILURES)
    if wave.status.healthy + wave.status.soaking == wave.status.clusters:
        return None
    if wave.plan.rules.approval == "required" and not is_approved:
        return replace(wave, waits_for=f"approval of wave {wave.plan.name}", needs_approval=True)
    completed_at = previous.status.completed_at if previous is not None else None
    if completed_at is not None and now < (begins := completed_at + wave.plan.pause_before):
        return replace(wave, waits_for=f"the pause before wave {wave.plan.name}", again=begins)
    return None


def _settled(wave: WaveProgress, now: datetime, *, is_failing: bool) -> WaveProgress:
    wave = replace(wave, releasable=_slots(wave))
    status, plan = wave.status, wave.plan
    started = status.started_at or now
    is_delayed = bool(status.held or status.unreachable) and now < started + plan.deadline
    if wave.is_open or is_delayed or wave.awaits_window:
        status = msgspec.structs.replace(status, settled_at=None)
        again = min(filter(None, (wave.again, started + plan.deadline if is_delayed else None)), default=None)
        return replace(wave, status=status, waits_for=_unsettled(wave), again=again)
    status = msgspec.structs.replace(status, settled_at=status.settled_at or now)
    if wave.soaked_at is not None:
        waits_for = f"the soak time of wave {plan.name}"
        return replace(wave, status=status, waits_for=waits_for, again=wave.soaked_at)
    if is_failing:
        return replace(wave, status=status, waits_for=FAILURES)
    return replace(wave, status=msgspec.structs.replace(status, completed_at=now))


def _unsettled(wave: WaveProgress) -> str:
    is_closed = wave.awaits_window and not wave.is_open
    return f"{'the first maintenance window of ' if is_closed else ''}wave {wave.plan.name}"


def _slots(wave: WaveProgress) -> tuple[str, ...]:
    free = wave.plan.max_concurrent(wave.status.clusters) - wave.status.under_way
    return _waiting(wave)[: max(0, free)]


def _waiting(wave: WaveProgress) -> tuple[str, ...]:
    return tuple(sorted(kyma for kyma, standing in wave.standings.items() if standing == "waiting"))


def _amount(amount: int | str, clusters: int, *, rounding: Callable[[float], int]) -> int:
    text = str(amount)
    return rounding(clusters * int(text[:-1]) / 100) if text.endswith("%") else int(text)
