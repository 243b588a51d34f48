"""The rules of a channel's rollout: when one begins, which clusters get the version next, and what halts it.

The clusters that are under way are recorded in the status of the ModuleRollout before the version is released to any of
them, by a write that is refused unless the ModuleRollout is as it was read. So no two replicas ever let more clusters
go than the strategy allows, and one that takes over knows which clusters to finish.

May delete: ModuleRollouts of earlier versions, all but the last MAX_KEPT, and those that say that they take another one
back and do not. Nothing else.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from msgspec.structs import replace as with_fields

from lifecycle_manager.contract.resources import DatedReleaseMeta
from lifecycle_manager.module_rollouts.snapshot import RolloutSnapshot
from lifecycle_manager.module_rollouts.status import Blocker, Progress, status_of, superseded
from lifecycle_manager.rollout.releases import is_changed_since, is_open, is_way_back, taken_back
from lifecycle_manager.rollout.waves import Cluster, WaveProgress, is_downgrade, progress_of, too_many_failures
from lifecycle_manager_api import (
    ModuleRelease,
    ModuleRollout,
    ModuleRolloutSpec,
    ModuleRolloutStatus,
    ModuleTemplate,
    ObjectMeta,
    OwnerReference,
    RolloutStrategySpec,
    UnderWay,
    boolean,
    joined_name,
    names,
)
from lifecycle_manager_api.module_rollout import MAX_UNDER_WAY

MAX_KEPT = 5
INTERVAL_SECONDS = 60.0
ACTIVE_SECONDS = 10.0
"""How often a rollout that is not completed is reconciled without a change of its clusters."""


@dataclass(frozen=True, slots=True)
class StartRollout:
    """Create a ModuleRollout."""

    rollout: ModuleRollout


@dataclass(frozen=True, slots=True)
class ReleaseVersion:
    """Record the clusters that are under way, then write into the Manifests of these that they may have the version."""

    rollout: ModuleRollout
    status: ModuleRolloutStatus
    manifests: tuple[tuple[str, ModuleRelease], ...]


@dataclass(frozen=True, slots=True)
class CloseRollouts:
    """Mark rollouts as superseded, and delete those that are too old to be kept, or take back what is not in force."""

    superseded: tuple[ModuleRollout, ...]
    deleted: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutDone:
    """Nothing but the status is left to write. `problem` says why no rollout can begin."""

    requeue_after: float | None = None
    rollout: ModuleRollout | None = None
    status: ModuleRolloutStatus | None = None
    problem: str = ""


def decide(seen: RolloutSnapshot) -> StartRollout | ReleaseVersion | CloseRollouts | RolloutDone:
    """Return the one thing to do next; what it writes is read before the next decision."""
    if seen.ignored:
        return CloseRollouts((), seen.ignored)
    if seen.release is not None and is_new_version(seen):
        return _begin(seen, seen.release)
    if closing := _closing(seen):
        return closing
    latest = seen.latest
    if latest is None or seen.is_awaited:
        return RolloutDone()
    if seen.release is None or seen.target is None:  # no strategy or no channel any more
        return RolloutDone(rollout=latest, status=superseded(latest, seen.now))
    return _advance(seen, latest)


def _begin(seen: RolloutSnapshot, release: DatedReleaseMeta | ModuleTemplate) -> StartRollout | RolloutDone:
    if seen.strategy is None:
        problem = f"RolloutStrategy {seen.strategy_name!r} does not exist: no cluster gets {seen.version}"
        return RolloutDone(problem=problem, requeue_after=INTERVAL_SECONDS)
    return StartRollout(new_rollout(seen, release, seen.strategy))


def is_new_version(seen: RolloutSnapshot) -> bool:
    """Tell whether the channel has a version, or its ModuleTemplate a content, that no rollout is for.

    A version that was taken back is none. That to which an undo returned is, so that others count as new after it.
    """
    if not seen.version:
        return False
    latest = seen.latest
    if latest is not None and latest.spec.undoes and is_completed(latest) and latest.spec.version == seen.version:
        return True
    if not seen.strategy_name and not seen.is_changed and (latest is None or not is_open(seen.rollouts, seen.version)):
        return False
    if latest is None:
        return True
    if seen.target is not None and is_changed_since(latest, seen.target):
        return seen.is_changed
    return latest.spec.version != seen.version and seen.version not in taken_back(seen.rollouts)


def new_rollout(
    seen: RolloutSnapshot, release: DatedReleaseMeta | ModuleTemplate, strategy: RolloutStrategySpec
) -> ModuleRollout:
    """Return the rollout of the channel's version; it goes on with an undo whose ModuleTemplate is known by now."""
    latest, revision, owner = seen.latest, _next_revision(seen), release.metadata
    content = seen.target.content if seen.target is not None else ""
    spec = ModuleRolloutSpec(
        module_name=seen.key.module,
        channel=seen.key.channel,
        version=seen.version,
        content=content,
        former_version=former_version(seen),
        revision=revision,
        strategy=strategy,
    )
    if latest is not None and latest.spec.undoes and latest.spec.version == seen.version and not is_completed(latest):
        spec = with_fields(latest.spec, content=content, revision=revision)
    return ModuleRollout(
        metadata=ObjectMeta(
            name=joined_name(seen.key.module, f"{seen.key.channel}-{revision}"),
            namespace=names.KCP_NAMESPACE,
            labels={names.MODULE_NAME: seen.key.module, names.CHANNEL: seen.key.channel},
            owner_references=(
                OwnerReference(
                    api_version=release.api_version, kind=release.kind, name=owner.name, uid=owner.uid, controller=True
                ),
            ),
        ),
        spec=spec,
    )


def _next_revision(seen: RolloutSnapshot) -> int:
    """Return the number of the next rollout, which has no name that the release of an earlier one has.

    The rollouts are deleted with their ModuleReleaseMeta; where it is created again, clusters still name what they got.
    """
    if seen.latest is not None:
        return seen.latest.spec.revision + 1
    releases = (each.status.release for each in seen.manifests.values())
    numbers = (each.rollout.rpartition("-")[2] for each in releases if each is not None)
    return 1 + max((int(each) for each in numbers if each.isdecimal()), default=0)


def former_version(seen: RolloutSnapshot) -> str:
    """Return the version that new clusters have until their wave is completed: that of the last completed rollout.

    Where the channel has it again, it is the version of the rollout that was not completed; new clusters get none that
    a rollout takes back. Where no rollout names one (there was no strategy, or it came with the version), it is the
    version of most clusters, or that of the channel where its ModuleTemplate changed in place.
    """
    latest = seen.latest
    if latest is not None and is_completed(latest) and latest.spec.version == seen.version:
        return seen.version
    if latest is None or (not seen.strategy_name and is_completed(latest)):
        return seen.most_common_version or (seen.version if seen.is_changed else "")
    spec = latest.spec
    goes_back = spec.version != seen.version and (spec.former_version == seen.version or is_way_back(spec))
    if goes_back or is_completed(latest):
        return spec.version
    return spec.former_version or seen.most_common_version


def is_completed(rollout: ModuleRollout) -> bool:
    return rollout.status.phase == "Completed"


def _closing(seen: RolloutSnapshot) -> CloseRollouts | None:
    former = seen.rollouts[1:]
    open_ones = tuple(each for each in former if each.status.phase not in {"Completed", "Superseded"})
    old = tuple(each.metadata.name for each in former[MAX_KEPT:])
    closed = tuple(with_fields(each, status=superseded(each, seen.now)) for each in open_ones)
    return CloseRollouts(closed, old) if closed or old else None


def _advance(seen: RolloutSnapshot, rollout: ModuleRollout) -> ReleaseVersion | RolloutDone:
    known, clusters = rollout.status.under_way, seen.clusters
    if rollout.status.phase == "Superseded":  # the channel has the version again
        anew = seen.now.replace(microsecond=0)
        clusters = tuple(_begun_anew(each, anew) for each in clusters)
        known = tuple(UnderWay(kyma=each.kyma, since=anew) for each in clusters if each.since == anew)
    waves = progress_of(rollout, clusters, seen.now)
    blocker = _blocker(seen, rollout, waves)
    chosen = () if blocker is not None else _chosen(rollout, waves)
    under_way = _under_way(known, waves, chosen, seen.now)
    status = status_of(rollout, Progress(waves, clusters, under_way, blocker, seen.now))
    releases = tuple(_releases(seen, rollout, under_way))
    if releases:
        return ReleaseVersion(rollout, status, releases)
    return RolloutDone(rollout=rollout, status=status, requeue_after=_requeue_after(waves, status, seen.now))


def _begun_anew(cluster: Cluster, now: datetime) -> Cluster:
    """Return a cluster with all its time, unless it is Ready: its channel did not have the version meanwhile."""
    is_settled = cluster.since is None or (cluster.has_version and cluster.is_ready)
    return cluster if is_settled else replace(cluster, since=now)


def _blocker(seen: RolloutSnapshot, rollout: ModuleRollout, waves: Sequence[WaveProgress]) -> Blocker | None:
    """Return what keeps the version from further clusters. Too many failures do until somebody accepts them.

    Not those after its end: it stays completed, and the clusters that it did not wait for get the version.
    """
    spec, at_halt = rollout.spec, rollout.status.failures_at_halt
    if is_downgrade(spec) and (refusal := _refused_downgrade(seen, spec)) is not None:
        return refusal
    failing = too_many_failures(rollout, waves)
    if is_completed(rollout):
        failing, at_halt = None, 0
    if failing is not None:
        what = f"{failing.status.failed} of {failing.status.clusters} clusters of wave {failing.plan.name} failed"
        return Blocker("Halted", "TooManyFailures", what, max(at_halt, sum(each.status.failed for each in waves)))
    if at_halt > spec.accepted_failures:
        return Blocker("Halted", "TooManyFailures", f"{at_halt} clusters had failed; `klm rollout resume`", at_halt)
    if spec.halted:
        return Blocker("Halted", "HaltedByOperator", "halted by an operator")
    if spec.paused:
        return Blocker("Paused", "PausedByOperator", "paused by an operator")
    return None


def _refused_downgrade(seen: RolloutSnapshot, spec: ModuleRolloutSpec) -> Blocker | None:
    release, template = seen.release, seen.template
    if release is None or not boolean(release.metadata.annotations, names.ALLOW_DOWNGRADE):
        what = f"{spec.version} is lower than {spec.former_version}, and the ModuleReleaseMeta does not allow that"
        return Blocker("Halted", "DowngradeNotAllowed", f"{what}: annotation {names.ALLOW_DOWNGRADE}")
    if template is not None and boolean(template.metadata.annotations, names.NO_DOWNGRADE):
        what = f"ModuleTemplate {template.metadata.name} can't go back: annotation {names.NO_DOWNGRADE}"
        return Blocker("Halted", "ModuleCannotGoBack", what)
    return None


def _chosen(rollout: ModuleRollout, waves: Sequence[WaveProgress]) -> tuple[str, ...]:
    room = MAX_UNDER_WAY - sum(each.status.under_way for each in waves)
    return tuple(kyma for each in waves for kyma in each.releasable)[: max(0, room)]


def _under_way(
    known: Sequence[UnderWay], waves: Sequence[WaveProgress], chosen: Sequence[str], now: datetime
) -> tuple[UnderWay, ...]:
    """Return the clusters that may have the version and are not settled, with those that get it now."""
    going = {kyma for each in waves for kyma, standing in each.standings.items() if standing == "under_way"}
    begun = (UnderWay(kyma=kyma, since=now.replace(microsecond=0)) for kyma in chosen)
    return (*(each for each in known if each.kyma in going), *begun)[:MAX_UNDER_WAY]


def _releases(
    seen: RolloutSnapshot, rollout: ModuleRollout, under_way: Sequence[UnderWay]
) -> Iterator[tuple[str, ModuleRelease]]:
    """Yield the Manifests, by name, that do not say yet that the version is released to their clusters."""
    for each in under_way:
        manifest = seen.manifests.get(each.kyma)
        if manifest is None:
            continue
        release = ModuleRelease(
            version=rollout.spec.version,
            rollout=rollout.metadata.name,
            at=each.since,
            allow_downgrade=is_downgrade(rollout.spec),
        )
        if manifest.status.release != release:
            yield manifest.metadata.name, release


def _requeue_after(waves: Sequence[WaveProgress], status: ModuleRolloutStatus, now: datetime) -> float:
    interval = INTERVAL_SECONDS if status.phase == "Completed" else ACTIVE_SECONDS
    waits = ((each.again - now) / timedelta(seconds=1) for each in waves if each.again is not None and each.again > now)
    return max(0.1, min([interval, *waits]))
