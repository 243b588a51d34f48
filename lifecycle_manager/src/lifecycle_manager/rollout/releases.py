"""Which version of a channel a Kyma gets while rollouts decide on it. Pure functions of ModuleRollouts.

A cluster that has the module keeps its version until a rollout releases another one to it; that is recorded in its
Manifest. A new cluster gets the version once its wave is completed, and until then the version before.
"""

from collections.abc import Iterable, Mapping

from lifecycle_manager.rollout.waves import wave_of
from lifecycle_manager_api import ModuleRelease, ModuleReleaseMeta, ModuleRollout, names

Rollouts = Mapping[str, Mapping[str, ModuleRollout]]
"""The latest rollout of each channel, by the names of module and channel. A module that no strategy governs is not in
it; one whose first rollout has not begun has no channels."""


def rollouts_in_force(releases: Iterable[ModuleReleaseMeta], rollouts: Iterable[ModuleRollout]) -> Rollouts:
    """Return the rollouts that decide now."""
    found: dict[str, dict[str, ModuleRollout]] = {
        each.spec.module_name: {} for each in releases if names.ROLLOUT_STRATEGY in each.metadata.annotations
    }
    for rollout in rollouts:
        channels = found.get(rollout.spec.module_name)
        if channels is None:
            continue
        known = channels.get(rollout.spec.channel)
        if known is None or known.spec.revision < rollout.spec.revision:
            channels[rollout.spec.channel] = rollout
    return found


def version_for_new(rollout: ModuleRollout, labels: Mapping[str, str]) -> str:
    """Return the version of a Kyma that does not have the module of this channel yet."""
    spec = rollout.spec
    wave = wave_of(spec.strategy, labels)
    completed = {each.name for each in rollout.status.waves if each.completed_at is not None}
    return spec.version if wave in completed or not spec.former_version else spec.former_version


def released_by(rollout: ModuleRollout, release: ModuleRelease | None) -> ModuleRelease | None:
    """Return the release of a Manifest if it is by this rollout; what a former one released is in force or obsolete."""
    return release if release is not None and release.rollout == rollout.metadata.name else None
