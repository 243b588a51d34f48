"""A fleet without servers: what is decided of a rollout is carried out on Manifests in memory."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec.structs import replace as with_fields

from kyma_fleet.rollouts import chosen, undoing, undone_by
from lifecycle_manager.contract.resources import DatedReleaseMeta
from lifecycle_manager.module_installation import status as statuses
from lifecycle_manager.module_installation.snapshot import ManifestSnapshot
from lifecycle_manager.module_rollouts.rules import CloseRollouts, ReleaseVersion, RolloutDone, StartRollout, decide
from lifecycle_manager.module_rollouts.snapshot import ReleaseChannel, RolloutSnapshot, cluster_of
from lifecycle_manager.rollout.maintenance import ALWAYS, Span
from lifecycle_manager.rollout.releases import released_by
from lifecycle_manager.rollout.target import RolloutTarget
from lifecycle_manager_api import (
    Kyma,
    Manifest,
    ModuleRelease,
    ModuleRollout,
    RolloutStrategy,
    State,
    Version,
    names,
)
from tests import builders

MODULE, CHANNEL = "cloud-resources", "regular"
KEY = ReleaseChannel(MODULE, CHANNEL)
WAVE_LABEL = "wave"


def strategy(*waves: dict[str, Any], **remaining: Any) -> RolloutStrategy:
    """Return a strategy whose waves select by a label with their name."""
    spec = {
        "waves": [{"kymaSelector": {"matchLabels": {WAVE_LABEL: each["name"]}}, **each} for each in waves],
        "remaining": remaining,
    }
    return msgspec.convert({"metadata": {"name": "careful", "namespace": "kcp-system"}, "spec": spec}, RolloutStrategy)


def released(version: str, annotations: Mapping[str, str] = MappingProxyType({})) -> DatedReleaseMeta:
    marks = {names.ROLLOUT_STRATEGY: "careful", **annotations}
    found = builders.release(MODULE, metadata={"annotations": marks}, regular=version)
    return msgspec.convert(msgspec.to_builtins(found), DatedReleaseMeta)


@dataclass(eq=False)
class Fleet:
    """Clusters by the names of their Kymas. `step` is one reconcile of the channel; others change `manifests`."""

    strategy: RolloutStrategy
    release: DatedReleaseMeta
    manifests: dict[str, Manifest] = field(default_factory=dict)
    kymas: dict[str, Kyma] = field(default_factory=dict)
    rollouts: list[ModuleRollout] = field(default_factory=list)
    windows: dict[str, Span] = field(default_factory=dict)
    now: datetime = builders.NOW
    content: str = ""

    def add(self, *waves: str, version: str = "1.0.0") -> None:
        """Add a cluster for each of these names of waves, which has been Ready for long."""
        installed, self.now = self.now, self.now - timedelta(days=1)
        for wave in waves:
            name = f"kyma-{len(self.kymas):03}"
            self.kymas[name] = builders.kyma(name, labels={WAVE_LABEL: wave})
            self.manifests[name] = builders.manifest(MODULE, version, kyma=name, creationTimestamp=installed)
            self.report(name, State.READY)
        self.now = installed

    def report(self, name: str, state: State, reason: str = "NotReady") -> None:
        """Set the status of a Manifest as the controller of Manifests does."""
        manifest = self.manifests[name]
        seen = ManifestSnapshot(resource=manifest, now=self.now, seconds=0.0)
        if state is State.READY:
            status = statuses.installed(seen).status
        else:
            status = with_fields(statuses.refused(seen, reason, "not ready").status, state=state)
        self.manifests[name] = with_fields(manifest, status=status)

    def install(self, name: str) -> None:
        """Do what the controller of Kymas does: install the version that is released."""
        manifest = self.manifests[name]
        release = released_by(self.latest, manifest.status.release)
        if release is None or release.version == manifest.spec.version:
            return
        if release.allow_downgrade or Version.parse(release.version) > Version.parse(manifest.spec.version):
            metadata = with_fields(manifest.metadata, generation=manifest.metadata.generation + 1)
            spec = with_fields(manifest.spec, version=release.version)
            self.manifests[name] = with_fields(manifest, metadata=metadata, spec=spec)

    @property
    def latest(self) -> ModuleRollout:
        return max(self.rollouts, key=lambda each: each.spec.revision)

    def steer(self, **spec: Any) -> None:
        latest = self.latest
        self.rollouts.remove(latest)
        self.rollouts.append(with_fields(latest, spec=with_fields(latest.spec, **spec)))

    @property
    def channel(self) -> list[ModuleRollout]:
        """The rollouts, the latest first."""
        return sorted(self.rollouts, key=lambda each: each.spec.revision, reverse=True)

    def undo(self, name: str = "", *, at_once: bool = False) -> ModuleRollout:
        """Take back a rollout, by default the latest, as `klm rollout undo` does."""
        rollout = chosen(self.rollouts, name or MODULE, "")
        assert undone_by(self.channel, rollout) is None
        back = undoing(self.channel, rollout, at_once=at_once)
        self.rollouts.append(back)
        return back

    def seen(self) -> RolloutSnapshot:
        rollouts = tuple(self.channel)
        return RolloutSnapshot(
            key=KEY,
            now=self.now,
            release=self.release,
            strategy=self.strategy.spec,
            target=RolloutTarget(self.release.spec.channels[0].version, self.content),
            rollouts=rollouts,
            clusters=tuple(self._cluster(rollouts[0], name) for name in self.kymas) if rollouts else (),
            manifests=dict(self.manifests),
        )

    def step(self, *, dies_after: int | None = None) -> StartRollout | ReleaseVersion | CloseRollouts | RolloutDone:
        """Reconcile once. A replica that dies has written the status and so many releases."""
        step = decide(self.seen())
        match step:
            case StartRollout(rollout):
                self.rollouts.append(rollout)
            case ReleaseVersion(rollout, status, releases):
                self._replace(rollout, with_fields(rollout, status=status))
                for name, release in releases[:dies_after]:
                    self._release(name, release)
            case CloseRollouts(closed, deleted):
                for each in closed:
                    self._replace(next(it for it in self.rollouts if it.metadata.name == each.metadata.name), each)
                self.rollouts = [each for each in self.rollouts if each.metadata.name not in deleted]
            case RolloutDone(rollout=rollout, status=status) if rollout is not None and status is not None:
                self._replace(rollout, with_fields(rollout, status=status))
        return step

    def settle(self) -> None:
        """Reconcile until nothing is written any more."""
        while not isinstance(self.step(), RolloutDone):
            pass

    def run(self, rounds: int, *, seconds: float = 60, healthy: bool = True) -> None:
        """Let time pass: in each round the channel is reconciled, and released versions are installed and Ready."""
        for _ in range(rounds):
            self.settle()
            for name in self.manifests:
                self.install(name)
                if healthy:
                    self.report(name, State.READY)
            self.now += timedelta(seconds=seconds)
        self.settle()

    def versions(self) -> dict[str, str]:
        return {name: each.spec.version for name, each in self.manifests.items()}

    def on(self, version: str) -> int:
        return list(self.versions().values()).count(version)

    def _cluster(self, rollout: ModuleRollout, name: str) -> Any:
        manifest = self.manifests[name]
        release = released_by(rollout, manifest.status.release)
        known = {each.kyma: each.since for each in rollout.status.under_way}
        since = release.at if release is not None else known.get(name)
        target, kyma, window = RolloutTarget(rollout.spec.version), self.kymas[name], self.windows.get(name, ALWAYS)
        return cluster_of(rollout, kyma, manifest, target=target, since=since, now=self.now, window=window)

    def _release(self, manifest_name: str, release: ModuleRelease) -> None:
        name = next(name for name, each in self.manifests.items() if each.metadata.name == manifest_name)
        manifest = self.manifests[name]
        self.manifests[name] = with_fields(manifest, status=with_fields(manifest.status, release=release))

    def _replace(self, old: ModuleRollout, new: ModuleRollout) -> None:
        self.rollouts[self.rollouts.index(old)] = new
