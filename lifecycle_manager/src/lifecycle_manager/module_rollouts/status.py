"""The status of a ModuleRollout: phase, conditions, waves, the clusters that failed, and the expected end."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

from msgspec.structs import replace as with_fields

from lifecycle_manager.rollout.waves import Cluster, WaveProgress
from lifecycle_manager_api import (
    FailedCluster,
    ModuleRollout,
    ModuleRolloutStatus,
    RolloutPhase,
    UnderWay,
    names,
)
from lifecycle_manager_api.conditions import NewCondition, set_conditions, shortened
from lifecycle_manager_api.module_rollout import MAX_FAILED

MAX_MESSAGE_LENGTH = 256
PROGRESSING, HALTED, COMPLETED = "Progressing", "Halted", "Completed"


class Blocker(NamedTuple):
    """Why no further clusters get the version. `failures`: how many had failed when that halted the rollout."""

    phase: Literal["Halted", "Paused"]
    reason: str
    message: str
    failures: int = 0


@dataclass(frozen=True, slots=True)
class Progress:
    """A rollout at one moment, with the clusters that are under way after the next step."""

    waves: Sequence[WaveProgress]
    clusters: Sequence[Cluster]
    under_way: tuple[UnderWay, ...]
    blocker: Blocker | None
    now: datetime

    @property
    def current(self) -> WaveProgress | None:
        """The first wave that is not completed."""
        return next((each for each in self.waves if not each.is_completed), None)


def status_of(rollout: ModuleRollout, progress: Progress) -> ModuleRolloutStatus:
    before, blocker, current = rollout.status, progress.blocker, progress.current
    phase, reason, message = _summary(progress, before.phase)
    clusters = sum(each.status.clusters for each in progress.waves)
    updated = sum(each.status.healthy + each.status.soaking for each in progress.waves)
    is_completed = phase == "Completed"
    completed_at = (before.completed_at or progress.now) if is_completed else None
    halted: NewCondition = (HALTED, "False", "NotHalted", "nothing stops the rollout")
    if phase == "Halted":
        halted = (HALTED, "True", reason, message)
    conditions: list[NewCondition] = [
        (PROGRESSING, "True" if phase in {"Progressing", "Soaking"} else "False", reason, message),
        halted,
        (COMPLETED, "True" if is_completed else "False", reason, message),
        (names.READY_CONDITION, "True" if is_completed else "False", reason, message),
    ]
    return ModuleRolloutStatus(
        phase=phase,
        wave=current.plan.name if current is not None else "",
        message=message,
        clusters=clusters,
        updated=updated,
        failed=sum(each.status.failed for each in progress.waves),
        conditions=set_conditions(before.conditions, conditions, rollout.metadata.generation, progress.now),
        waves=tuple(each.status for each in progress.waves),
        under_way=progress.under_way,
        failed_clusters=_failed(progress, before.failed_clusters)[:MAX_FAILED],
        failures_at_halt=blocker.failures if blocker is not None else 0,
        started_at=before.started_at or progress.now,
        expected_end=None if blocker is not None or is_completed else _expected_end(rollout, progress, updated),
        completed_at=completed_at,
        observed_generation=rollout.metadata.generation,
    )


def superseded(rollout: ModuleRollout, now: datetime) -> ModuleRolloutStatus:
    """Return the status of a rollout that decides nothing any more: it is Ready, as nothing is left to be done."""
    if rollout.status.phase in {"Completed", "Superseded"}:
        return rollout.status
    message = "its channel has another version, or is gone"
    conditions: list[NewCondition] = [
        (PROGRESSING, "False", "Superseded", message),
        (HALTED, "False", "Superseded", message),
        (COMPLETED, "False", "Superseded", message),
        (names.READY_CONDITION, "True", "Superseded", message),
    ]
    return with_fields(
        rollout.status,
        phase="Superseded",
        message=message,
        conditions=set_conditions(rollout.status.conditions, conditions, rollout.metadata.generation, now),
        completed_at=now,
        expected_end=None,
        under_way=(),
    )


def _summary(progress: Progress, before: RolloutPhase) -> tuple[RolloutPhase, str, str]:
    """Return the phase, its reason and a message. With too many failures at the end a rollout is not completed."""
    blocker, current = progress.blocker, progress.current
    if blocker is not None and (current is not None or (blocker.failures and before != "Completed")):
        return blocker.phase, blocker.reason, shortened(blocker.message, MAX_MESSAGE_LENGTH)
    if current is None:
        return "Completed", "AllWavesCompleted", "all waves are completed"
    message = f"waiting for {current.waits_for}"
    if current.needs_approval:
        return "AwaitingApproval", "ApprovalRequired", message
    if current.is_begun and current.status.settled_at is not None:
        return "Soaking", "Soaking", message
    return "Progressing", "Progressing", message


def _failed(progress: Progress, before: Sequence[FailedCluster]) -> tuple[FailedCluster, ...]:
    """Return the clusters that failed, in the order in which they did."""
    failed = {kyma for wave in progress.waves for kyma, standing in wave.standings.items() if standing == "failed"}
    place = {each.kyma: index for index, each in enumerate(before)}
    ordered = sorted(progress.clusters, key=lambda each: (place.get(each.kyma, len(place)), each.kyma))
    shown = ((each, shortened(each.message, MAX_MESSAGE_LENGTH)) for each in ordered if each.kyma in failed)
    return tuple(FailedCluster(kyma=it.kyma, wave=it.wave, reason=it.failure, message=why) for it, why in shown)


def _expected_end(rollout: ModuleRollout, progress: Progress, updated: int) -> datetime | None:
    """Return when the rollout ends if it goes on as before, to the minute; None as long as that says nothing."""
    started, left = rollout.status.started_at, sum(each.status.waiting for each in progress.waves)
    if started is None or not updated or progress.now <= started or any(each.awaits_window for each in progress.waves):
        return None
    soaks = sum((each.plan.soak for each in progress.waves if not each.is_completed), timedelta())
    end = progress.now + (progress.now - started) * (left / updated) + soaks
    return end.replace(second=0, microsecond=0) + timedelta(minutes=1)
