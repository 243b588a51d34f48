"""What the commands for rollouts leave for those who come later: who did what, when and why."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from lifecycle_manager.rollout.releases import is_way_back
from lifecycle_manager_api import ModuleRollout, names

SteeringVerb = Literal["approve", "pause", "resume", "halt"]
STEERED = f"{names.GROUP}/last-steered"
"""The annotation of a ModuleRollout with the last note."""
DONE: Mapping[SteeringVerb, str] = {
    "approve": "approved",
    "pause": "paused",
    "resume": "resumed",
    "halt": "halted",
}
EVENT_REASONS: Mapping[SteeringVerb, str] = {
    "approve": "RolloutApproved",
    "pause": "RolloutPaused",
    "resume": "RolloutResumed",
    "halt": "RolloutHalted",
}


def note_of(done: str, *, by: str, at: datetime, reason: str) -> str:
    """Return what was done to a rollout."""
    return f"{done} by {by} at {at:%Y-%m-%d %H:%M} UTC{': ' if reason else ''}{reason}"


def forward(first: ModuleRollout) -> str:
    """Say what to do where a rollout has no version to go back to."""
    spec = first.spec
    found = f"{spec.version} is the first version of channel {spec.channel}"
    found += "; give the channel another version, which then replaces it"
    is_under_way = first.status.phase != "Completed" and not spec.halted
    return f"{found}, and until then klm rollout halt {first.metadata.name}" if is_under_way else found


def without_effect(rollout: ModuleRollout, verb: SteeringVerb, change: Mapping[str, Any]) -> str:
    """Return why a verb would change nothing about a rollout; empty where it would."""
    if verb in {"pause", "halt"} and rollout.status.phase == "Completed":
        spec, name = rollout.spec, rollout.metadata.name
        next_step = f"klm rollout undo {name} takes it back" if spec.former_version else forward(rollout)
        if is_way_back(spec):
            next_step = f"to go forward, give channel {spec.channel} another version"
        return f"is completed: every wave has got {spec.version}; {next_step}"
    return "" if change else f"is {DONE[verb]} already"
