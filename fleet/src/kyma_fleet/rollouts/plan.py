"""What each verb of `klm rollout` changes in a ModuleRollout; pure functions."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Literal

import msgspec

from kyma_fleet.problems import Problem
from lifecycle_manager.rollout.releases import in_effect, in_force, is_way_back
from lifecycle_manager.rollout.waves import waves_in_order
from lifecycle_manager_api import ModuleRollout, ModuleRolloutSpec, ObjectMeta, WaveApproval, joined_name, names

SteeringVerb = Literal["approve", "pause", "resume", "halt"]
_ENDED = frozenset({"Superseded"})


def latest_of(rollouts: Iterable[ModuleRollout]) -> list[ModuleRollout]:
    """Return the rollout that counts of each module and channel, by their names."""
    found: dict[tuple[str, str], ModuleRollout] = {}
    for each in rollouts:
        key = (each.spec.module_name, each.spec.channel)
        if key not in found or found[key].spec.revision < each.spec.revision:
            found[key] = each
    return [found[key] for key in sorted(found)]


def chosen(rollouts: Iterable[ModuleRollout], name: str, channel: str) -> ModuleRollout:
    """Return the rollout that is meant: by its name, or the latest of a module. Raises Problem."""
    all_of_them = list(rollouts)
    for each in all_of_them:
        if each.metadata.name == name:
            return each
    of_module = [each for each in latest_of(all_of_them) if each.spec.module_name == name]
    found = [each for each in of_module if channel in ("", each.spec.channel)]
    if len(found) == 1:
        return found[0]
    if not found:
        there = ", ".join(f"{each.metadata.name}" for each in latest_of(all_of_them)) or "none"
        where = f" in channel {channel}" if channel else ""
        raise Problem(f"there is no rollout {name}{where}, and no module of that name has one. There is: {there}")
    channels = ", ".join(each.spec.channel for each in found)
    raise Problem(f"module {name} has rollouts in several channels; choose one with --channel: {channels}")


def change_of(rollout: ModuleRollout, verb: SteeringVerb, *, wave: str, by: str, at: datetime) -> dict[str, Any]:
    """Return the patch of `spec` for a verb; empty where it is so already. Raises Problem where it can't be done."""
    spec, status = rollout.spec, rollout.status
    if status.phase in _ENDED:
        raise Problem(_ended(rollout))
    match verb:
        case "pause":
            return {} if spec.paused else {"paused": True}
        case "halt":
            return {} if spec.halted else {"halted": True}
        case "resume":
            failed = max((each.failed for each in status.waves), default=0)
            accepted = max(failed, status.failures_at_halt, spec.accepted_failures)
            wanted = {"paused": False, "halted": False, "acceptedFailures": accepted}
            has = {"paused": spec.paused, "halted": spec.halted, "acceptedFailures": spec.accepted_failures}
            return {} if wanted == has else wanted
        case "approve":
            return _approval(rollout, wave or status.wave, by, at)


def _approval(rollout: ModuleRollout, wave: str, by: str, at: datetime) -> dict[str, Any]:
    known = [each.name for each in waves_in_order(rollout.spec)]
    if wave not in known:
        given = f"there is no wave {wave}" if wave else "no wave waits"
        raise Problem(f"{given} in rollout {rollout.metadata.name}; its waves are: {', '.join(known)}")
    if any(each.wave == wave for each in rollout.spec.approvals):
        return {}
    approvals = (*rollout.spec.approvals, WaveApproval(wave=wave, by=by, at=at))
    return {"approvals": msgspec.to_builtins(approvals)}


def channel_of(rollouts: Iterable[ModuleRollout], rollout: ModuleRollout) -> list[ModuleRollout]:
    """Return the rollouts of the module and channel of one of them, the latest first."""
    key = (rollout.spec.module_name, rollout.spec.channel)
    return [*in_effect(each for each in rollouts if (each.spec.module_name, each.spec.channel) == key)]


def undone_by(channel: Sequence[ModuleRollout], rollout: ModuleRollout) -> ModuleRollout | None:
    """Return the rollout that takes another one back already, which may be that one itself; None where none does.

    `channel`: the rollouts of its channel, the latest first.
    """
    found = next((each for each in channel if each.spec.undoes == rollout.metadata.name), rollout)
    return found if is_way_back(found.spec) else None


def may_hurry(channel: Sequence[ModuleRollout], back: ModuleRollout) -> bool:
    """Tell whether a rollout is an undo wave by wave that can return the rest of the clusters at once."""
    is_under_way = back is channel[0] and back.status.phase not in {"Completed", *_ENDED}
    return bool(back.spec.undoes) and is_under_way and not back.spec.at_once


def done_by(channel: Sequence[ModuleRollout], back: ModuleRollout) -> str:
    """Say what a rollout takes back, and how to go further back and forward."""
    spec, standing = back.spec, in_force(channel)
    found = f"rollout {back.metadata.name} takes {spec.module_name} back from {spec.former_version} to {spec.version}"
    if standing is not None and standing.spec.former_version:
        found += f". Further back, to {standing.spec.former_version}: klm rollout undo {standing.metadata.name}"
    again = f", for {spec.former_version} again {spec.version} first" if spec.undoes else ""
    return f"{found}. Forward: give channel {spec.channel} another version{again}"


def undoing(channel: Sequence[ModuleRollout], rollout: ModuleRollout, *, at_once: bool) -> ModuleRollout:
    """Return the rollout that takes another one back: the one in force. Raises Problem where that can't be done.

    `channel`: the rollouts of its channel, the latest first.
    """
    spec, metadata, latest, standing = rollout.spec, rollout.metadata, channel[0], in_force(channel)
    if spec.former_version == spec.version:
        before = f", or klm rollout undo {standing.metadata.name}" if standing is not None else ""
        why = "has no other version, at most a change of the ModuleTemplate in place: change the template back"
        raise Problem(f"rollout {metadata.name} {why}{before}")
    if rollout is latest and rollout.status.phase in _ENDED:
        raise Problem(_ended(rollout))
    if rollout is not standing:
        force = standing or latest
        raise Problem(
            f"rollout {metadata.name} is superseded: {force.spec.version} of {force.metadata.name} is in force"
        )
    if not spec.former_version:
        raise Problem(
            f"there is no version to go back to: none was rolled out in channel {spec.channel} before {spec.version}"
        )
    revision = latest.spec.revision + 1
    return ModuleRollout(
        metadata=ObjectMeta(
            name=joined_name(spec.module_name, f"{spec.channel}-{revision}"),
            namespace=metadata.namespace,
            labels={names.MODULE_NAME: spec.module_name, names.CHANNEL: spec.channel},
            owner_references=metadata.owner_references,
        ),
        spec=ModuleRolloutSpec(
            module_name=spec.module_name,
            channel=spec.channel,
            version=spec.former_version,
            former_version=spec.version,
            revision=revision,
            strategy=spec.strategy,
            undoes=metadata.name,
            at_once=at_once,
        ),
    )


def _ended(latest: ModuleRollout) -> str:
    return f"rollout {latest.metadata.name} has ended: rollouts do not decide about {latest.spec.module_name} any more"
