"""Judges by all that was written into a control plane, in its order, whether its rollouts kept their limits."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import msgspec

from kube_simulation.store import StoredChange
from lifecycle_manager.rollout.waves import wave_of, waves_in_order
from lifecycle_manager_api import Kyma, Manifest, ModuleRollout, names


@dataclass(eq=False)
class Rollout:
    """A rollout, with what it has released to clusters so far: when, which of them are settled, how often updated.

    `had` are the clusters that had its version, also without a release, and also those that have a later one by now.
    """

    spec: ModuleRollout
    released: dict[str, set[object]] = field(default_factory=dict)
    settled: set[str] = field(default_factory=set)
    had: set[str] = field(default_factory=set)
    updates: Counter[str] = field(default_factory=Counter)


@dataclass(eq=False)
class History:
    """What is known after some writes. A cluster is settled once it was Ready or in Error with the version."""

    kymas: dict[str, Kyma] = field(default_factory=dict)
    manifests: dict[str, Manifest] = field(default_factory=dict)
    rollouts: dict[str, Rollout] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def note(self, change: StoredChange) -> None:
        """Take a write, and find out what is wrong after it."""
        match change.after.document()["kind"]:
            case "Kyma":
                kyma = msgspec.json.decode(change.after.body, type=Kyma)
                self.kymas[kyma.metadata.name] = kyma
            case "ModuleRollout":
                spec = msgspec.json.decode(change.after.body, type=ModuleRollout)
                self.rollouts.setdefault(spec.metadata.name, Rollout(spec))
                self._note_versions()
            case "Manifest":
                self._note_manifest(msgspec.json.decode(change.after.body, type=Manifest))

    def _note_manifest(self, manifest: Manifest) -> None:
        cluster = manifest.metadata.labels[names.KYMA_NAME]
        before, self.manifests[cluster] = self.manifests.get(cluster), manifest
        self._note_versions()
        release = manifest.status.release
        rollout = self.rollouts[release.rollout] if release is not None else None
        if before is not None and before.spec.version != manifest.spec.version:
            if rollout is None or release is None or release.version != manifest.spec.version:
                self.wrong.append(f"{cluster} got {manifest.spec.version} before its release")
            else:
                rollout.updates[cluster] += 1
        if rollout is None or release is None:
            return
        rollout.released.setdefault(cluster, set()).add(release.at)
        is_observed = manifest.status.observed_generation == manifest.metadata.generation
        if release.version == manifest.spec.version and is_observed and manifest.status.state in {"Ready", "Error"}:
            rollout.settled.add(cluster)
        self.wrong += self._excess_of(rollout)

    def _excess_of(self, rollout: Rollout) -> Iterator[str]:
        spec = rollout.spec.spec
        waves: dict[str, set[str]] = {plan.name: set() for plan in waves_in_order(spec)}
        for name in self.manifests:
            waves[wave_of(spec.strategy, self.kymas[name].metadata.labels)].add(name)
        earlier: set[str] = set()
        for plan in waves_in_order(spec):
            members, released = waves[plan.name], waves[plan.name] & rollout.released.keys()
            going = len(released - rollout.settled)
            if going > plan.max_concurrent(len(members)):
                yield f"{going} of {len(members)} clusters of wave {plan.name} at a time"
            if released and not earlier <= rollout.settled | rollout.had:
                yield f"wave {plan.name} began before the one before it was completed"
            earlier |= members

    def _note_versions(self) -> None:
        for rollout in self.rollouts.values():
            version = rollout.spec.spec.version
            rollout.had |= {name for name, each in self.manifests.items() if each.spec.version == version}


def wrong_in(changes: Iterable[StoredChange]) -> list[str]:
    """Return what must never have been, in the order in which it was written."""
    history = History()
    for change in changes:
        history.note(change)
    found = list(history.wrong)
    for name, rollout in history.rollouts.items():
        found += [f"{name} updated {each} {count} times" for each, count in rollout.updates.items() if count != 1]
        found += [f"{name}: {each} got {len(at)} releases" for each, at in rollout.released.items() if len(at) != 1]
    return found
