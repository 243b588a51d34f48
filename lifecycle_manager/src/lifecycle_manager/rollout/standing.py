"""What a rollout has come to, in the words that every command and page uses. Pure functions of ModuleRollouts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from lifecycle_manager.rollout.releases import by_channel, in_effect, is_open
from lifecycle_manager_api import ModuleRollout, RolloutPhase, State

StandingWord = RolloutPhase | Literal["TakenBack", "TakingBack"]
"""The phase, or what became of a rollout since it had that."""

STATES: Mapping[StandingWord, State] = {
    "Halted": State.ERROR,
    "AwaitingApproval": State.WARNING,
    "Paused": State.WARNING,
    "Progressing": State.PROCESSING,
    "Soaking": State.PROCESSING,
    "Pending": State.EMPTY,
    "Completed": State.READY,
    "Superseded": State.EMPTY,
    "TakingBack": State.WARNING,
    "TakenBack": State.EMPTY,
}
"""The state in whose colour a word is shown; what waits for an operator comes first."""


@dataclass(frozen=True, slots=True)
class RolloutStanding:
    """What a rollout has come to.

    - `successor`: the name of the rollout that takes it back, or that came after it; empty for the latest of a channel
    - `text`: what that means for the channel; empty where the status of the rollout says it all
    """

    word: StandingWord
    successor: str = ""
    text: str = ""


def channel_of(rollouts: Iterable[ModuleRollout], rollout: ModuleRollout) -> list[ModuleRollout]:
    """Return the rollouts of the module and channel of one of them, the latest first."""
    key = (rollout.spec.module_name, rollout.spec.channel)
    return [*in_effect(each for each in rollouts if (each.spec.module_name, each.spec.channel) == key)]


def standing_of(rollout: ModuleRollout, channel: Sequence[ModuleRollout]) -> RolloutStanding:
    """Return what a rollout of a channel has come to. `channel`: its rollouts, the latest first."""
    spec, phase = rollout.spec, rollout.status.phase
    back = next((each for each in channel if each.spec.undoes == rollout.metadata.name), None)
    if back is not None:
        is_done = back.status.phase == "Completed"
        how = f"was taken back by {back.metadata.name}" if is_done else f"is being taken back by {back.metadata.name}"
        text = f"{spec.version} {how}, which returns to {back.spec.version}"
        return RolloutStanding("TakenBack" if is_done else "TakingBack", back.metadata.name, text)
    later = [each for each in channel if each.spec.revision > spec.revision]
    if later:
        after = later[-1]
        return RolloutStanding(
            phase, after.metadata.name, f"{after.metadata.name} came after it, with {after.spec.version}"
        )
    return RolloutStanding(phase, text=_taking_back(rollout) if spec.undoes else "")


def standings(rollouts: Iterable[ModuleRollout]) -> dict[str, RolloutStanding]:
    """Return what each of all rollouts has come to, by their names."""
    known = tuple(rollouts)
    channels = by_channel(known)
    return {
        each.metadata.name: standing_of(each, channels.get(each.spec.module_name, {}).get(each.spec.channel, ()))
        for each in known
    }


def version_of(offered: str, channel: Sequence[ModuleRollout]) -> str:
    """Return the version that the clusters of a channel shall have: what it offers, or what an undo returns to."""
    return channel[0].spec.version if channel and channel[0].spec.undoes and is_open(channel, offered) else offered


def taking_back(offered: str, channel: Sequence[ModuleRollout]) -> str:
    """Say by which rollout a channel has another version than it offers; empty where it has that."""
    return "" if version_of(offered, channel) == offered else _taking_back(channel[0])


def _taking_back(rollout: ModuleRollout) -> str:
    spec = rollout.spec
    verb = "took" if rollout.status.phase == "Completed" else "takes"
    return f"{rollout.metadata.name} {verb} {spec.former_version} of {spec.undoes} back: {spec.version} is in force"
