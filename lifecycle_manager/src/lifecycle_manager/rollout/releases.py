"""Which version of a channel a Kyma gets while rollouts decide on it. Pure functions of ModuleRollouts.

A cluster that has the module keeps its version until a rollout releases another one to it; that is recorded in its
Manifest. A new cluster gets the version once its wave is completed, and until then the version before.
"""

from collections.abc import Iterable, Mapping

from lifecycle_manager.rollout.change_brake import is_open
from lifecycle_manager.rollout.waves import wave_of
from lifecycle_manager_api import ModuleRelease, ModuleReleaseMeta, ModuleRollout, names

Rollouts = Mapping[str, Mapping[str, ModuleRollout]]
"""The latest rollout of each channel, by the names of module and channel. A module that no rollout governs is not in
it; one whose first rollout has not begun has no channels."""


def latest_rollouts(rollouts: Iterable[ModuleRollout]) -> Rollouts:
    """Return the rollout of each channel that counts."""
    found: dict[str, dict[str, ModuleRollout]] = {}
    for rollout in rollouts:
        channels = found.setdefault(rollout.spec.module_name, {})
        known = channels.get(rollout.spec.channel)
        if known is None or known.spec.revision < rollout.spec.revision:
            channels[rollout.spec.channel] = rollout
    return found


def is_governed(release: ModuleReleaseMeta, channels: Mapping[str, ModuleRollout]) -> bool:
    """Tell whether rollouts decide on a module because of its strategy, or of a rollout that is not at its end."""
    if names.ROLLOUT_STRATEGY in release.metadata.annotations:
        return True
    present = ((channels.get(each.channel), each.version) for each in release.spec.channels)
    return any(rollout is not None and is_open(rollout, version) for rollout, version in present)


def version_for_new(rollout: ModuleRollout, labels: Mapping[str, str]) -> str:
    """Return the version of a Kyma that does not have the module of this channel yet."""
    spec = rollout.spec
    wave = wave_of(spec.strategy, labels)
    completed = {each.name for each in rollout.status.waves if each.completed_at is not None}
    return spec.version if wave in completed or not spec.former_version else spec.former_version


def released_by(rollout: ModuleRollout, release: ModuleRelease | None) -> ModuleRelease | None:
    """Return the release of a Manifest if it is by this rollout; what a former one released is in force or obsolete."""
    return release if release is not None and release.rollout == rollout.metadata.name else None
