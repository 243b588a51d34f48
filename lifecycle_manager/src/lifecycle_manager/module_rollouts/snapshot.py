"""What a channel's rollout is decided on: release, strategy, ModuleRollouts, and the clusters with the module."""

import asyncio
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from kube_runtime import Clock, Informer, ObjectKey
from kube_runtime.informer import Index
from lifecycle_manager.contract.conditions import REACHABLE
from lifecycle_manager.contract.resources import DatedReleaseMeta
from lifecycle_manager.module_catalog.controller import Offers
from lifecycle_manager.module_catalog.manifests import kyma_of_manifest, module_of_manifest
from lifecycle_manager.module_catalog.offer import release_of
from lifecycle_manager.rollout.maintenance import ALWAYS, Span
from lifecycle_manager.rollout.releases import in_effect, released_by, taken_back
from lifecycle_manager.rollout.schedule import Schedule
from lifecycle_manager.rollout.target import MANDATORY_CHANNEL, RolloutTarget, changes, channel_of
from lifecycle_manager.rollout.waves import DEFAULT_STRATEGY, DEFAULT_WAVES, Cluster, is_downgrade, wave_of
from lifecycle_manager_api import (
    Condition,
    Kyma,
    Manifest,
    ModuleRollout,
    ModuleTemplate,
    RolloutStrategy,
    RolloutStrategySpec,
    State,
    find,
    names,
)

CLUSTERS_IN_A_TURN = 500
"""How many clusters are read before other tasks have their turn."""


class ReleaseChannel(NamedTuple):
    """A channel of a module; that of mandatory modules is MANDATORY_CHANNEL."""

    module: str
    channel: str

    def __str__(self) -> str:
        return f"{self.module}/{self.channel}"


def key_of(rollout: ModuleRollout) -> ReleaseChannel:
    return ReleaseChannel(rollout.spec.module_name, rollout.spec.channel)


def channels_of_manifest(manifest: Manifest) -> Iterable[ReleaseChannel]:
    if channel := channel_of(manifest):
        yield ReleaseChannel(module_of_manifest(manifest), channel)


MANIFESTS_BY_CHANNEL: Index[Manifest] = Index("module-channel", lambda it: map(str, channels_of_manifest(it)))
"""Manifests by `module/channel`."""
ROLLOUTS_BY_CHANNEL: Index[ModuleRollout] = Index("module-channel", lambda it: (str(key_of(it)),))
"""ModuleRollouts by `module/channel`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutSnapshot:
    """A channel of a module.

    - `release`: None where the module has none, or none that rollouts govern; then nothing is rolled out. The
      ModuleTemplate of a mandatory module without one
    - `target`: what the channel gives, None where there is no such channel
    - `rollouts`: those of the channel that count, the latest first; `ignored` are the names of the others
    - `clusters`: those that have the module of this channel, `manifests` theirs, by the name of the Kyma
    - `template`: that of the version before the latest rollout's
    - `is_awaited`: the mandatory version has no ModuleTemplate, so that what is installed stays as it is
    """

    key: ReleaseChannel
    now: datetime
    release: DatedReleaseMeta | ModuleTemplate | None
    strategy: RolloutStrategySpec | None
    target: RolloutTarget | None
    rollouts: tuple[ModuleRollout, ...]
    clusters: tuple[Cluster, ...]
    manifests: dict[str, Manifest]
    template: ModuleTemplate | None = None
    ignored: tuple[str, ...] = ()
    is_awaited: bool = False

    @property
    def version(self) -> str:
        """The version of the channel, empty where there is no such channel."""
        return self.target.version if self.target is not None else ""

    @property
    def strategy_name(self) -> str:
        """The name of the strategy that the release asks for."""
        return self.release.metadata.annotations.get(names.ROLLOUT_STRATEGY, "") if self.release is not None else ""

    @property
    def is_changed(self) -> bool:
        """Whether what the channel gives changes a cluster."""
        known, target = {each.metadata.name for each in self.rollouts}, self.target
        return target is not None and any(changes(each, target, known) for each in self.manifests.values())

    @property
    def most_common_version(self) -> str:
        """The version that most of the clusters have which do not have the channel's; empty where all have that.

        One that was taken back is none.
        """
        others = {self.version, *taken_back(self.rollouts)}
        versions = Counter(each.spec.version for each in self.manifests.values() if each.spec.version not in others)
        return max(versions, key=lambda each: (versions[each], each), default="")

    @property
    def latest(self) -> ModuleRollout | None:
        """The rollout that counts."""
        return self.rollouts[0] if self.rollouts else None


@dataclass(frozen=True, eq=False, kw_only=True)
class RolloutReader:
    releases: Informer[DatedReleaseMeta]
    strategies: Informer[RolloutStrategy]
    rollouts: Informer[ModuleRollout]
    manifests: Informer[Manifest]
    kymas: Informer[Kyma]
    offers: Offers
    schedule: Schedule
    clock: Clock

    async def read(self, key: ReleaseChannel) -> RolloutSnapshot | None:
        present = self.of_channel(key)
        rollouts = in_effect(present)
        release = self._release(key)
        if release is None and not present:
            return None
        latest = rollouts[0] if rollouts else None
        manifests = {
            kyma_of_manifest(each): each
            for each in self.manifests.by_index(MANIFESTS_BY_CHANNEL, str(key))
            if not each.metadata.being_deleted and names.IS_UNMANAGED not in each.metadata.annotations
        }
        offer = self.offers.current()
        former = latest.spec.former_version if latest is not None else ""
        return RolloutSnapshot(
            key=key,
            now=self.clock.now(),
            release=release,
            strategy=self._strategy(release) if release is not None else None,
            target=self.schedule.targets(key.module).get(key.channel) if release is not None else None,
            rollouts=rollouts,
            clusters=() if latest is None else await self._clusters(latest, manifests),
            manifests=manifests,
            template=offer.template(key.module, former),
            ignored=tuple(each.metadata.name for each in present if each not in rollouts),
            is_awaited=key.channel == MANDATORY_CHANNEL and key.module in offer.awaited,
        )

    def _release(self, key: ReleaseChannel) -> DatedReleaseMeta | ModuleTemplate | None:
        """Return the release of a module that rollouts govern, or the template that makes it mandatory."""
        if key.module not in self.schedule.in_force():
            return None
        found = release_of(key.module, self.releases.cache.list())
        if found is None and key.channel == MANDATORY_CHANNEL:
            return self.offers.current().mandatory.get(key.module)
        return found

    def _strategy(self, release: DatedReleaseMeta | ModuleTemplate) -> RolloutStrategySpec | None:
        """Return the waves that a release names, else the default ones; None where the named ones do not exist."""
        named = release.metadata.annotations.get(names.ROLLOUT_STRATEGY)
        found = self.strategies.get(ObjectKey(names.KCP_NAMESPACE, named or DEFAULT_STRATEGY))
        if found is not None:
            return found.spec
        return None if named else DEFAULT_WAVES

    def of_channel(self, key: ReleaseChannel) -> tuple[ModuleRollout, ...]:
        """Return all rollouts of a channel."""
        return tuple(self.rollouts.by_index(ROLLOUTS_BY_CHANNEL, str(key)))

    async def _clusters(self, rollout: ModuleRollout, manifests: dict[str, Manifest]) -> tuple[Cluster, ...]:
        """Return the clusters with the module of this channel."""
        template = self.offers.current().template(rollout.spec.module_name, rollout.spec.version)
        has_downtime = template is not None and template.spec.requires_downtime
        timing = self.schedule.timing()
        intended = {each.kyma: each.since for each in rollout.status.under_way}
        target = self._target(rollout)
        found: list[Cluster] = []
        for number, (name, manifest) in enumerate(manifests.items()):
            if number % CLUSTERS_IN_A_TURN == 0:
                await asyncio.sleep(0)
            kyma = self.kymas.get(ObjectKey(names.KCP_NAMESPACE, name))
            if kyma is None or kyma.metadata.being_deleted:
                continue
            release = released_by(rollout, manifest.status.release)
            since = release.at if release is not None else intended.get(name)
            # What users want is in the Kyma of their cluster; the status in KCP has what the resolution has read.
            is_free = not has_downtime or kyma.status.skip_maintenance_windows
            window = ALWAYS if is_free else timing.next_window(kyma.metadata.labels)
            cluster = cluster_of(rollout, kyma, manifest, target=target, since=since, now=timing.now, window=window)
            found.append(cluster)
        return tuple(found)

    def _target(self, rollout: ModuleRollout) -> RolloutTarget:
        """Return what a rollout gives clusters: the version alone, unless its ModuleTemplate is as it was."""
        spec = rollout.spec
        known = self.schedule.targets(spec.module_name).get(spec.channel)
        is_known = known is not None and (known.version, known.content) == (spec.version, spec.content)
        return known if known is not None and is_known else RolloutTarget(spec.version)


def cluster_of(
    rollout: ModuleRollout,
    kyma: Kyma,
    manifest: Manifest,
    *,
    target: RolloutTarget,
    since: datetime | None,
    now: datetime,
    window: Span | None = ALWAYS,
) -> Cluster:
    """Return a cluster as a rollout counts it. A Manifest that is not reconciled since its change is not Ready.

    `window`: the maintenance window in which it may get the version, None where none is planned.
    """
    status, metadata = manifest.status, manifest.metadata
    ready = find(status.conditions, "Ready")
    resources, reachable = find(status.conditions, "Resources"), find(kyma.status.conditions, REACHABLE)
    is_observed = status.observed_generation == metadata.generation
    has_version = target.is_in(manifest)
    is_higher = not (has_version or is_downgrade(rollout.spec) or changes(manifest, target, ()))
    is_stopped = kyma.metadata.is_paused or metadata.is_paused or is_higher
    waits_for_user = since is not None and any(
        each.name == rollout.spec.module_name and each.available_version == rollout.spec.version
        for each in kyma.status.modules
    )
    opened = window.begin if window is not None and not has_version and window.holds(now) else None
    return Cluster(
        kyma=kyma.metadata.name,
        wave=wave_of(rollout.spec.strategy, kyma.metadata.labels),
        has_version=has_version,
        is_ready=is_observed and status.state is State.READY,
        ready_since=_ready_since(manifest, since),
        is_error=is_observed and status.state is State.ERROR,
        is_unreachable=(reachable is not None and reachable.status == "False")
        or (resources is not None and resources.status == "Unknown" and status.state is State.ERROR),
        is_held=is_stopped or not (has_version or opened),
        waits_for_window=not (is_stopped or has_version or opened or waits_for_user or window is None),
        waits_for_user=waits_for_user,
        since=since,
        joined_at=metadata.creation_timestamp,
        turned_at=_turned_at(reachable, ready if has_version else None, opened),
        is_new=has_version and not is_observed and ready is not None and ready.status == "True",
        reason=ready.reason if ready is not None else "",
        message=ready.message if ready is not None else "",
    )


def _turned_at(reachable: Condition | None, ready: Condition | None, opened: datetime | None) -> datetime | None:
    """Return when a cluster answered again, stopped to be Ready, or its window opened, whichever was last.

    `ready` is the condition of its version, `opened` when it could get that.
    """
    answers = reachable.last_transition_time if reachable is not None and reachable.status == "True" else None
    stopped = ready.last_transition_time if ready is not None and ready.status != "True" else None
    return max((each for each in (answers, stopped, opened) if each is not None), default=None)


def _ready_since(manifest: Manifest, released: datetime | None) -> datetime | None:
    """Return since when a module is Ready with what a rollout released to it; its condition says so where none did.

    That is not before the release: where a ModuleTemplate changed in place, the module was Ready with what was before.
    """
    known = manifest.status.ready_version
    if known is not None and known.version == manifest.spec.version:
        return known.since if released is None else max(known.since, released)
    ready = find(manifest.status.conditions, "Ready")
    return ready.last_transition_time if ready is not None else None
