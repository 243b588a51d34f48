"""When the modules of the fleet may change: how releases are spread, and the maintenance policy as its file has it."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import structlog
from prometheus_client import Gauge

from kube_runtime import Clock, Informer, Manager, ObjectKey
from lifecycle_manager.contract.resources import (
    DATED_RELEASE_METAS,
    KYMAS,
    MANIFESTS,
    MODULE_ROLLOUTS,
    DatedReleaseMeta,
)
from lifecycle_manager.module_catalog.audience import is_excluded
from lifecycle_manager.module_catalog.controller import Offers
from lifecycle_manager.module_catalog.manifests import is_mandatory_manifest, kyma_of_manifest
from lifecycle_manager.module_catalog.offer import Offer
from lifecycle_manager.options.kymas import RolloutSettings
from lifecycle_manager.rollout.maintenance import (
    ALWAYS,
    NOT_KNOWN,
    MaintenancePolicy,
    PolicyUnreadable,
    Span,
    find_policy,
    read_policy,
)
from lifecycle_manager.rollout.releases import ChannelRollouts, Rollouts, by_channel, is_changed_since, is_governed
from lifecycle_manager.rollout.target import MANIFESTS_BY_MODULE, RolloutTarget, changed_clusters, targets_of
from lifecycle_manager.skr.brake import RECOUNT_SECONDS
from lifecycle_manager.skr.removals import max_changed, waiting_since
from lifecycle_manager_api import Kyma, Manifest, ModuleReleaseMeta, ModuleRollout, ModuleTemplate, names

log = structlog.get_logger("rollout")

Source = ModuleReleaseMeta | ModuleTemplate
"""What says which versions a module has: the latter makes it mandatory."""


@dataclass(frozen=True, slots=True)
class Timing:
    """When changes may happen.

    - `released_at`: since when a module's channels are as they are, where that is known
    - `max_delay`: over how long a new version is spread over the fleet
    - `rollouts`: the rollouts of modules that have a strategy or a large change, instead of that spread
    - `changed_templates`: the channels, of those modules, whose ModuleTemplate changed since their latest rollout
    - `held_removals`: the modules that a `kymaSelector` removes from too many clusters, and since when
    - `policy`: the maintenance windows; without it, no upgrade waits for one
    - `policy_error`: why they can't be read; then no upgrade that requires downtime happens
    """

    now: datetime
    released_at: Mapping[str, datetime] = field(default_factory=dict)
    max_delay: timedelta = timedelta(0)
    policy: MaintenancePolicy | None = None
    policy_error: str = ""
    min_window: timedelta = timedelta(minutes=20)
    rollouts: Rollouts = field(default_factory=dict)
    changed_templates: frozenset[tuple[str, str]] = frozenset()
    held_removals: Mapping[str, datetime] = field(default_factory=dict)

    def next_window(self, labels: Mapping[str, str]) -> Span | None:
        """Return the maintenance window of a Kyma: the current one, or else the next; None where none is planned."""
        if self.policy is None:
            return NOT_KNOWN if self.policy_error else ALWAYS
        return self.policy.next_window(labels, now=self.now, min_length=self.min_window)


@dataclass(eq=False)
class Schedule:
    """Returns the timing of this moment. The policy's file is read again when it was changed."""

    releases: Informer[DatedReleaseMeta]
    rollouts: Informer[ModuleRollout]
    manifests: Informer[Manifest]
    kymas: Informer[Kyma]
    offers: Offers
    clock: Clock
    settings: RolloutSettings
    readable: Gauge
    _file: Path | None = field(default=None, init=False)
    _policy: MaintenancePolicy | None = field(default=None, init=False)
    _policy_error: str = field(default="", init=False)
    _modified: int | None = field(default=None, init=False)
    _targets: "tuple[Offer | None, dict[str, dict[str, RolloutTarget]]]" = field(default=(None, {}), init=False)
    _in_force: "_InForce | None" = field(default=None, init=False)
    _held: tuple[int, float, dict[str, datetime]] = field(default=(-1, 0.0, {}), init=False)
    _braked: dict[str, "_Braked"] = field(default_factory=dict, init=False)

    @classmethod
    def watched_by(
        cls, manager: Manager, offers: Offers, settings: RolloutSettings, readable: Gauge | None = None
    ) -> "Schedule":
        """Return the schedule on the caches of a manager. One of a process has the metric of the policy."""
        return cls(
            manager.informer(DATED_RELEASE_METAS),
            manager.informer(MODULE_ROLLOUTS),
            manager.informer(MANIFESTS, indexes=[MANIFESTS_BY_MODULE]),
            manager.informer(KYMAS),
            offers,
            manager.clock,
            settings,
            readable or Gauge("policy_readable", "That of the Kyma controller is the metric.", registry=None),
        )

    def __post_init__(self) -> None:
        self._file = find_policy(self.settings.policy_file)
        self.readable.set(self._file is None)  # without a file there is nothing to fail on

    def timing(self) -> Timing:
        """Return what changes may happen now."""
        self._read_policy()
        return Timing(
            now=self.clock.now(),
            released_at=self._decided().released_at,
            max_delay=self.settings.max_delay,
            policy=self._policy,
            policy_error=self._policy_error,
            min_window=self.settings.min_window,
            rollouts=self.in_force(),
            changed_templates=self.changed_templates(),
            held_removals=self._held_removals(),
        )

    def in_force(self) -> Rollouts:
        """Return the rollouts that decide now."""
        return self._decided().rollouts

    def changed_templates(self) -> frozenset[tuple[str, str]]:
        """Return the channels that rollouts decide about and whose ModuleTemplate changed since the latest began."""
        return self._decided().changed_templates

    def targets(self, module: str) -> Mapping[str, RolloutTarget]:
        """Return what each channel of a module gives."""
        return self._all_targets().get(module, {})

    def _all_targets(self) -> Mapping[str, Mapping[str, RolloutTarget]]:
        offer = self.offers.current()
        if self._targets[0] is not offer:
            self._targets = (offer, targets_of(offer))
        return self._targets[1]

    def _decided(self) -> "_InForce":
        offer, changes, before = self.offers.current(), self.rollouts.cache.changes, self._in_force
        if before is not None and before.offer is offer and before.changes == changes:
            return before
        found, changed = deciding(offer, self.rollouts.cache.list(), self._all_targets(), is_braked=self._is_braked)
        self._in_force = _InForce(offer, changes, found, changed, release_times(offer))
        return self._in_force

    def _is_braked(self, module: str, source: Source, channels: Mapping[str, ChannelRollouts]) -> bool:
        """Tell whether a release changes too many clusters; counted once for each state of it and its rollouts."""
        before, targets = self._braked.get(module), self.targets(module)
        if before is None or before.source is not source or (before.targets, before.channels) != (targets, channels):
            manifests = self.manifests.by_index(MANIFESTS_BY_MODULE, module)
            known = {each.metadata.name for its in channels.values() for each in its}
            verdict = changed_clusters(targets, manifests, known) > self.max_changed()
            before = self._braked[module] = _Braked(source, targets, channels, verdict)
        return before.verdict

    def max_changed(self) -> int:
        """Return in how many clusters one change of KCP may take effect at once."""
        return max_changed(self.settings.max_changed, len(self.kymas.cache))

    def _held_removals(self) -> dict[str, datetime]:
        state, counted_at, held = self._held
        now = self.clock.monotonic()
        if state != self.releases.cache.changes or now - counted_at >= RECOUNT_SECONDS:
            held = {}
            for release in self.offers.current().releases.values():  # a restricted module has a selector there
                if release.spec.kyma_selector is not None:
                    module, excluded = release.spec.module_name, self._excluded(release)
                    since = waiting_since(module, written_at(release), excluded, self.max_changed())
                    held |= {module: since} if since is not None else {}
            self._held = (self.releases.cache.changes, now, held)
        return held

    def _excluded(self, release: ModuleReleaseMeta) -> Iterator[Kyma]:
        """Yield the Kymas that have a module and may not have it."""
        for manifest in self.manifests.by_index(MANIFESTS_BY_MODULE, release.spec.module_name):
            kyma = self.kymas.get(ObjectKey(names.KCP_NAMESPACE, kyma_of_manifest(manifest)))
            if kyma is None or manifest.metadata.being_deleted or is_mandatory_manifest(manifest):
                continue
            if is_excluded(kyma.metadata.labels, release):
                yield kyma

    def _read_policy(self) -> None:
        file = self._file
        if file is None:
            return
        try:
            modified = file.stat().st_mtime_ns
        except OSError:
            modified = -1
        if modified == self._modified:
            return
        self._modified = modified
        try:
            self._policy, self._policy_error = read_policy(file), ""
        except PolicyUnreadable as error:
            self._policy, self._policy_error = None, str(error)
            log.error("can't read the maintenance policy; upgrades with downtime wait", error=str(error))  # noqa: TRY400
        self.readable.set(not self._policy_error)


def deciding(
    offer: Offer,
    rollouts: Iterable[ModuleRollout],
    targets: Mapping[str, Mapping[str, RolloutTarget]],
    *,
    is_braked: Callable[[str, Source, Mapping[str, ChannelRollouts]], bool] = lambda *_: False,
) -> tuple[Rollouts, frozenset[tuple[str, str]]]:
    """Return the rollouts that decide now, and the channels of theirs whose ModuleTemplate changed since they began."""
    known = by_channel(rollouts)
    found: dict[str, Mapping[str, ChannelRollouts]] = {}
    changed: set[tuple[str, str]] = set()
    sources: dict[str, Source] = {**offer.mandatory, **offer.releases}
    for module, source in sources.items():
        channels, given = known.get(module, {}), targets.get(module, {})
        if not is_governed(source.metadata, given, channels) and not is_braked(module, source, channels):
            continue
        found[module] = channels
        present = ((channel, channels.get(channel), target) for channel, target in given.items())
        changed |= {(module, channel) for channel, its, to in present if its and is_changed_since(its[0], to)}
    return found, frozenset(changed)


class _InForce(NamedTuple):
    """What rollouts decide about, and what that was found from. Objects in a cache are only replaced."""

    offer: Offer
    changes: int
    rollouts: Rollouts
    changed_templates: frozenset[tuple[str, str]]
    released_at: Mapping[str, datetime]


class _Braked(NamedTuple):
    """Whether a release is braked, and what that was found from."""

    source: Source
    targets: Mapping[str, RolloutTarget]
    channels: Mapping[str, ChannelRollouts]
    verdict: bool


def release_times(offer: Offer) -> dict[str, datetime]:
    """Return since when the channels of each module are as they are, where that is known."""
    times = ((module, written_at(release)) for module, release in offer.releases.items())
    return {module: at for module, at in times if at is not None}


def written_at(release: ModuleReleaseMeta) -> datetime | None:
    return release.metadata.written_at if isinstance(release, DatedReleaseMeta) else None
