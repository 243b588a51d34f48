"""What a rollout has come to, as all commands and pages say it."""

import pytest

from lifecycle_manager.rollout.standing import RolloutStanding, channel_of, standing_of, taking_back, version_of
from lifecycle_manager_api import ModuleRollout
from tests.unit.fleet_page.rollouts import rollout

FIRST = rollout("keda", revision=1, phase="Completed", spec={"formerVersion": ""})
SECOND = rollout("keda", phase="Completed")
OTHER = rollout("nats", revision=7, phase="Completed")
DONE = "keda-regular-3 took 1.2.0 of keda-regular-2 back: 1.1.0 is in force"


def undo(phase: str) -> ModuleRollout:
    spec = {"undoes": "keda-regular-2", "version": "1.1.0", "formerVersion": "1.2.0"}
    return rollout("keda", revision=3, phase=phase, spec=spec)


def test_rollouts_of_a_channel_come_the_latest_first() -> None:
    assert channel_of([FIRST, OTHER, SECOND], FIRST) == [SECOND, FIRST]


def test_latest_rollout_is_what_its_phase_says() -> None:
    assert standing_of(SECOND, [SECOND, FIRST]) == RolloutStanding("Completed")
    assert standing_of(FIRST, [SECOND, FIRST]) == RolloutStanding(
        "Completed", "keda-regular-2", "keda-regular-2 came after it, with 1.2.0"
    )


def test_rollout_that_an_undo_takes_back_names_it() -> None:
    channel = [undo("Progressing"), SECOND, FIRST]
    text = "1.2.0 is being taken back by keda-regular-3, which returns to 1.1.0"
    assert standing_of(SECOND, channel) == RolloutStanding("TakingBack", "keda-regular-3", text)
    text = "keda-regular-3 takes 1.2.0 of keda-regular-2 back: 1.1.0 is in force"
    assert standing_of(channel[0], channel) == RolloutStanding("Progressing", text=text)


def test_rollout_that_was_taken_back_is_not_completed() -> None:
    channel = [undo("Completed"), SECOND, FIRST]
    text = "1.2.0 was taken back by keda-regular-3, which returns to 1.1.0"
    assert standing_of(SECOND, channel) == RolloutStanding("TakenBack", "keda-regular-3", text)
    assert standing_of(channel[0], channel) == RolloutStanding("Completed", text=DONE)


@pytest.mark.parametrize(
    ("offered", "version", "why"),
    [("1.2.0", "1.1.0", DONE), ("1.1.0", "1.1.0", ""), ("1.3.0", "1.3.0", "")],
)
def test_clusters_shall_have_what_an_undo_returns_to(offered: str, version: str, why: str) -> None:
    channel = [undo("Completed"), SECOND, FIRST]
    assert (version_of(offered, channel), taking_back(offered, channel)) == (version, why)


def test_channel_without_an_undo_gives_what_it_offers() -> None:
    assert version_of("1.3.0", [SECOND, FIRST]) == version_of("1.3.0", []) == "1.3.0"
    assert taking_back("1.3.0", [SECOND, FIRST]) == taking_back("1.3.0", []) == ""
