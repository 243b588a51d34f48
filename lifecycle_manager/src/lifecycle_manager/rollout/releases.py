"""Which version of a channel a Kyma gets while rollouts decide on it. Pure functions of ModuleRollouts.

A cluster that has the module keeps its version, and its objects where the ModuleTemplate changes, until a rollout
releases the change to it; that is recorded in its Manifest. A new cluster gets the version of the last rollout that has
completed the cluster's wave. One that takes a version back counts as that from its beginning: no new cluster gets what
is being taken back.

An undo takes back the rollout in force, which may be an earlier one than the latest where that is an undo itself. What
undos took back does not come again until the channel gives another version, be it the one that is in force.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile

from lifecycle_manager.rollout.target import RolloutTarget
from lifecycle_manager.rollout.waves import is_downgrade, wave_of
from lifecycle_manager_api import ModuleRelease, ModuleRollout, ModuleRolloutSpec, ObjectMeta, names

ChannelRollouts = tuple[ModuleRollout, ...]
"""The rollouts of a channel, at least one, the latest first: that is the one that counts."""
Rollouts = Mapping[str, Mapping[str, ChannelRollouts]]
"""The rollouts of each channel, by the names of module and channel. A module that no rollout governs is not in it; one
whose first rollout has not begun has no channels."""


def by_channel(rollouts: Iterable[ModuleRollout]) -> Rollouts:
    """Return the rollouts of each channel."""
    found: dict[str, dict[str, list[ModuleRollout]]] = {}
    for rollout in rollouts:
        found.setdefault(rollout.spec.module_name, {}).setdefault(rollout.spec.channel, []).append(rollout)
    return {
        module: {channel: counting for channel, its in channels.items() if (counting := in_effect(its))}
        for module, channels in found.items()
    }


def in_effect(rollouts: Iterable[ModuleRollout]) -> ChannelRollouts:
    """Return the rollouts of a channel, the latest first, without those that only say that they take one back.

    Operators may create what takes a rollout back, and nothing else: by it no version comes that was not there before.
    """
    found: ChannelRollouts = ()
    for each in sorted(rollouts, key=lambda it: it.spec.revision):
        if each.status.phase != "Pending" or not each.spec.undoes or _takes_back(each.spec, found):
            found = (each, *found)
    return found


def _takes_back(spec: ModuleRolloutSpec, before: ChannelRollouts) -> bool:
    """Tell whether a rollout takes back what is in force, or goes on with one that does."""
    undone = next((each for each in before if each.metadata.name == spec.undoes), None)
    if undone is None or spec.revision != before[0].spec.revision + 1:
        return False
    is_back = (spec.version, spec.former_version) == (undone.spec.former_version, undone.spec.version)
    return is_back and (undone is in_force(before) or before[0].spec.undoes == spec.undoes)


def is_governed(
    source: ObjectMeta, targets: Mapping[str, RolloutTarget], channels: Mapping[str, ChannelRollouts]
) -> bool:
    """Tell whether rollouts decide on a module because of its strategy, or of a rollout that is not at its end.

    `source` is its ModuleReleaseMeta, or the ModuleTemplate that makes it mandatory.
    """
    if names.ROLLOUT_STRATEGY in source.annotations:
        return True
    present = ((channels.get(channel), target.version) for channel, target in targets.items())
    return any(rollouts is not None and is_open(rollouts, version) for rollouts, version in present)


def is_open(rollouts: Sequence[ModuleRollout], version: str) -> bool:
    """Tell whether the rollouts of a channel decide about it with this version, whether a strategy is named or not."""
    spec, phase = rollouts[0].spec, rollouts[0].status.phase
    is_end = phase == "Completed" and not (spec.undoes and version in {spec.version, *taken_back(rollouts)})
    return phase != "Superseded" and not is_end


def taken_back(rollouts: Iterable[ModuleRollout]) -> frozenset[str]:
    """Return the versions that the undos took back which no other rollout followed."""
    return frozenset(each.spec.former_version for each in takewhile(lambda it: it.spec.undoes, rollouts))


def in_force(rollouts: Sequence[ModuleRollout]) -> ModuleRollout | None:
    """Return the rollout that brought the version in force, which is the one that can be undone; None where none is.

    That is none that was taken back, was superseded before its end, or changed the ModuleTemplate alone.
    """
    revisions = {each.metadata.name: each.spec.revision for each in rollouts}
    before = rollouts[0].spec.revision + 1
    for each in rollouts:
        spec = each.spec
        if spec.revision >= before:
            continue
        if spec.undoes:
            before = revisions.get(spec.undoes, 0)
        elif spec.version != spec.former_version and (each is rollouts[0] or each.status.phase == "Completed"):
            return None if is_way_back(spec) else each
    return None


def is_changed_since(rollout: ModuleRollout, target: RolloutTarget) -> bool:
    """Tell whether the ModuleTemplate of a channel's version was changed since its latest rollout began."""
    spec = rollout.spec
    return bool(target.content) and spec.version == target.version and spec.content != target.content


def version_for_new(rollouts: ChannelRollouts, labels: Mapping[str, str]) -> str:
    """Return the version of a Kyma that does not have the module of this channel yet."""
    for each in rollouts:
        wave = wave_of(each.spec.strategy, labels)
        is_completed = any(known.name == wave and known.completed_at is not None for known in each.status.waves)
        if is_completed or is_way_back(each.spec) or not each.spec.former_version:
            return each.spec.version
    return rollouts[-1].spec.former_version


def is_way_back(spec: ModuleRolloutSpec) -> bool:
    """Tell whether a rollout takes the version before it back."""
    return bool(spec.undoes) or is_downgrade(spec)


def released_by(rollout: ModuleRollout, release: ModuleRelease | None) -> ModuleRelease | None:
    """Return the release of a Manifest if it is by this rollout; what a former one released is in force or obsolete."""
    return release if release is not None and release.rollout == rollout.metadata.name else None
