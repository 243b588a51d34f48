"""The controller of rollouts: what triggers a reconcile, and what it does.

Each channel of a module is reconciled, by one replica,

- when its ModuleReleaseMeta, one of its ModuleTemplates, its strategy or one of its ModuleRollouts changes
- when a Manifest of the channel gets another version, state or release, at most once a second
- at the times when a wave's pause, soak time or deadline ends, and at intervals

Limits: the strategy's.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import assert_never

from kube_runtime import Causes, Change, Controller, Manager, ObjectKey, Result
from lifecycle_manager.contract.changes import generation_changed, metadata_changed, versions
from lifecycle_manager.contract.resources import (
    DATED_RELEASE_METAS,
    KYMAS,
    MANIFESTS,
    MODULE_ROLLOUTS,
    MODULE_TEMPLATES,
    ROLLOUT_STRATEGIES,
    DatedReleaseMeta,
)
from lifecycle_manager.contract.signals import DescriptorFound
from lifecycle_manager.module_catalog.affected import offer_changed
from lifecycle_manager.module_catalog.controller import Offers
from lifecycle_manager.module_catalog.identity import module_of
from lifecycle_manager.module_rollouts.metrics import RolloutCollector
from lifecycle_manager.module_rollouts.rules import CloseRollouts, ReleaseVersion, RolloutDone, StartRollout, decide
from lifecycle_manager.module_rollouts.snapshot import (
    MANIFESTS_BY_CHANNEL,
    ROLLOUTS_BY_CHANNEL,
    ReleaseChannel,
    RolloutReader,
    channels_of_manifest,
    key_of,
)
from lifecycle_manager.module_rollouts.writes import RolloutWrites
from lifecycle_manager.options.kymas import RolloutSettings
from lifecycle_manager.rollout.schedule import Schedule
from lifecycle_manager.rollout.target import MANDATORY_CHANNEL
from lifecycle_manager_api import Manifest, ModuleTemplate, RolloutStrategy, names

SETTLE_SECONDS = 1.0
"""How long to wait for further clusters: of thousands, several change at a time."""
CONCURRENCY = 4


def setup(manager: Manager, offers: Offers, settings: RolloutSettings) -> Controller[ReleaseChannel, None]:
    releases, rollouts = (
        manager.informer(DATED_RELEASE_METAS),
        manager.informer(MODULE_ROLLOUTS, indexes=[ROLLOUTS_BY_CHANNEL]),
    )
    known = RolloutReader(
        releases=releases,
        strategies=manager.informer(ROLLOUT_STRATEGIES),
        rollouts=rollouts,
        manifests=manager.informer(MANIFESTS, indexes=[MANIFESTS_BY_CHANNEL]),
        kymas=manager.informer(KYMAS),
        offers=offers,
        schedule=Schedule.watched_by(manager, offers, settings),
        clock=manager.clock,
    )
    controller: Controller[ReleaseChannel, None] = manager.controller(
        "module-rollout",
        owner=owner_of,
        exists=lambda key: bool(known.of_channel(key)),
        concurrency=CONCURRENCY,
    )

    def of_strategy(change: Change[RolloutStrategy]) -> Iterable[ReleaseChannel]:
        name = versions(change)[0].metadata.name
        named = (it for it in releases.cache.list() if it.metadata.annotations.get(names.ROLLOUT_STRATEGY) == name)
        return [key for each in named for key in channels_of(each)]

    def of_release(change: Change[DatedReleaseMeta]) -> Iterable[ReleaseChannel]:
        return {key for each in versions(change) for key in channels_of(each)}

    def of_manifest(change: Change[Manifest]) -> Iterable[ReleaseChannel]:
        governed = known.schedule.in_force()
        return {key for each in versions(change) for key in channels_of_manifest(each) if key.module in governed}

    templates = manager.informer(MODULE_TEMPLATES)

    def of_module(template: ModuleTemplate) -> Iterable[ReleaseChannel]:
        module = module_of(template)
        named = (each for each in releases.cache.list() if each.spec.module_name == module)
        return {ReleaseChannel(module, MANDATORY_CHANNEL), *(key for each in named for key in channels_of(each))}

    def of_template(change: Change[ModuleTemplate]) -> Iterable[ReleaseChannel]:
        return {key for each in versions(change) for key in of_module(each)}

    def of_descriptor(found: DescriptorFound) -> Iterable[ReleaseChannel]:
        template = templates.get(ObjectKey(found.namespace, found.template))
        return of_module(template) if template is not None else ()

    controller.watches(releases, to=of_release, when=offer_changed)
    controller.watches(templates, to=of_template, when=offer_changed)
    controller.receives(DescriptorFound, to=of_descriptor)
    controller.watches(known.strategies, to=of_strategy, when=generation_changed)
    controller.watches(rollouts, to=lambda change: (key_of(versions(change)[0]),), when=generation_changed)
    controller.watches(known.manifests, to=of_manifest, when=progress_changed, after=SETTLE_SECONDS)
    controller.starts_with(lambda: {key for each in releases.cache.list() for key in channels_of(each)})
    controller.starts_with(lambda: {key for each in templates.cache.list() for key in of_module(each)})
    owns = manager.sharding.owns
    manager.registry.register(RolloutCollector(rollouts.list, lambda each: owns(owner_of(key_of(each)))))
    controller.reconciles(Rollouts(known, RolloutWrites(manager.client, known, manager.events)).reconcile)
    return controller


@dataclass(frozen=True, eq=False)
class Rollouts:
    known: RolloutReader
    writes: RolloutWrites

    async def reconcile(self, key: ReleaseChannel, _causes: Causes, _state: None) -> Result:
        """Do the one thing that is decided for a channel, and read it before the next decision. Raises KubeError."""
        seen = await self.known.read(key)
        if seen is None:
            return Result()
        match decide(seen):
            case StartRollout(rollout):
                await self.writes.start(rollout)
            case ReleaseVersion(rollout, status, releases):
                await self.writes.write_status(rollout, status)
                await self.writes.release(releases)
            case CloseRollouts(closed, deleted):
                for each in closed:
                    await self.writes.write_status(each, each.status)
                for name in deleted:
                    await self.writes.delete(name)
            case RolloutDone() as done:
                if done.problem and seen.release is not None:
                    self.writes.report(seen.release, done.problem)
                if done.rollout is not None and done.status is not None and done.status != done.rollout.status:
                    await self.writes.write_status(done.rollout, done.status)
                return Result(done.requeue_after)
            case other:
                assert_never(other)
        return Result(requeue_after=0.0)


def channels_of(release: DatedReleaseMeta) -> Iterable[ReleaseChannel]:
    """Return the channels of a release."""
    channels = (
        [MANDATORY_CHANNEL] if release.spec.mandatory is not None else [it.channel for it in release.spec.channels]
    )
    return [ReleaseChannel(release.spec.module_name, each) for each in channels]


def owner_of(key: ReleaseChannel) -> str:
    """Return the name by which the replicas share the channels."""
    return f"ModuleRollout {key}"


def progress_changed(change: Change[Manifest]) -> bool:
    """Tell whether a Manifest has another version, state or release, or is Ready anew."""
    old, new = change.old, change.new
    if old is None or new is None:
        return True
    return _shown_of(old) != _shown_of(new) or metadata_changed(old.metadata, new.metadata)


def _shown_of(manifest: Manifest) -> tuple[object, ...]:
    status = manifest.status
    is_observed = status.observed_generation == manifest.metadata.generation
    return manifest.spec.version, status.state, is_observed, status.release, status.ready_version
