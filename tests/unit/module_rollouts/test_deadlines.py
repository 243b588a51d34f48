"""A cluster fails that is not Ready in time: counted anew where it could not get the version, or was Ready, meanwhile.

And how a wave waits for a maintenance window.
"""

from datetime import timedelta
from typing import Any

from lifecycle_manager.rollout.maintenance import Span
from lifecycle_manager_api import State, names
from tests import builders
from tests.unit.module_rollouts.fleet import MODULE, Fleet, released, strategy


def in_mid_rollout() -> Fleet:
    """Return a fleet that begins with a version, and halts at the first failure of a canary."""
    canary = {"name": "canary", "soak": "0s", "maxConcurrent": "100%", "maxFailures": "0", "progressDeadline": "30m"}
    fleet = Fleet(strategy(canary, soak="0s", pauseBefore="24h"), released("1.0.0"))
    fleet.add("canary", "canary", "other", "other", "other", "other")
    fleet.run(3)
    assert fleet.latest.status.phase == "Completed"
    fleet.release = released("2.0.0")
    return fleet


def has_kyma(fleet: Fleet, name: str, **status: Any) -> None:
    fleet.kymas[name] = builders.kyma(name, labels=fleet.kymas[name].metadata.labels, status=status)


def offers(fleet: Fleet, name: str, **available: str) -> None:
    """Have users choose when their cluster gets a version: it is only shown."""
    has_kyma(fleet, name, modules=[builders.module_status(MODULE, "1.0.0", **available)])


def passes(fleet: Fleet, minutes: int) -> None:
    for _ in range(minutes):
        fleet.settle()
        fleet.now += timedelta(minutes=1)


def outcome(fleet: Fleet) -> tuple[str, int]:
    fleet.settle()
    return fleet.latest.status.phase, fleet.latest.status.failed


def test_module_that_was_ready_and_is_not_for_a_moment_is_no_failure() -> None:
    fleet = in_mid_rollout()
    fleet.run(40)
    assert fleet.latest.status.waves[0].healthy == 2
    fleet.report("kyma-000", State.PROCESSING)
    passes(fleet, 2)
    assert outcome(fleet) == ("Progressing", 0)
    fleet.report("kyma-000", State.READY)
    assert outcome(fleet) == ("Progressing", 0)


def test_module_that_comes_and_goes_until_its_deadline_fails() -> None:
    fleet = in_mid_rollout()
    for _ in range(16):
        fleet.settle()
        for name in ("kyma-000", "kyma-001"):
            fleet.install(name)
            fleet.report(name, State.READY)
            fleet.report(name, State.PROCESSING)
        fleet.now += timedelta(minutes=2)
    assert outcome(fleet) == ("Halted", 2)


def test_wave_waits_for_a_paused_cluster_until_the_deadline_alone() -> None:
    fleet = in_mid_rollout()
    fleet.settle()
    fleet.install("kyma-000")
    paused = fleet.kymas["kyma-000"]
    labels = {**paused.metadata.labels, names.SKIP_RECONCILIATION: "true"}
    fleet.kymas["kyma-000"] = builders.kyma("kyma-000", labels=labels)
    fleet.install("kyma-001")
    fleet.report("kyma-001", State.READY)
    passes(fleet, 40)
    assert (fleet.latest.status.waves[0].held, fleet.latest.status.phase) == (1, "Progressing")


def test_module_that_was_ready_and_is_not_for_as_long_as_the_deadline_fails() -> None:
    fleet = in_mid_rollout()
    fleet.run(40)
    fleet.report("kyma-000", State.PROCESSING)
    passes(fleet, 31)
    assert outcome(fleet) == ("Halted", 1)


def test_user_who_installs_the_version_after_the_deadline_is_no_failure() -> None:
    fleet = in_mid_rollout()
    for name in ("kyma-000", "kyma-001"):
        offers(fleet, name, availableVersion="2.0.0")
    passes(fleet, 40)
    assert (fleet.latest.status.waves[0].held, fleet.latest.status.phase) == (2, "Progressing")
    fleet.now += timedelta(hours=2)
    offers(fleet, "kyma-000")
    fleet.install("kyma-000")
    assert outcome(fleet) == ("Progressing", 0)
    fleet.now += timedelta(minutes=2)
    fleet.report("kyma-000", State.PROCESSING)
    assert outcome(fleet) == ("Progressing", 0)
    passes(fleet, 31)
    assert outcome(fleet) == ("Halted", 1)


def test_cluster_that_answers_again_after_the_deadline_has_its_time_anew() -> None:
    fleet = in_mid_rollout()
    fleet.settle()
    reachable = {"type": "SKRReachable", "status": "False", "reason": "Unreachable", "message": "no answer"}
    has_kyma(fleet, "kyma-000", state="Error", conditions=[reachable])
    fleet.install("kyma-001")
    fleet.report("kyma-001", State.READY)
    fleet.now += timedelta(minutes=40)
    fleet.settle()
    assert (fleet.latest.status.phase, fleet.latest.status.waves[0].unreachable) == ("Progressing", 1)
    answers = {**reachable, "status": "True", "reason": "Reachable", "lastTransitionTime": fleet.now}
    has_kyma(fleet, "kyma-000", conditions=[answers])
    assert outcome(fleet) == ("Progressing", 0)
    passes(fleet, 31)
    assert outcome(fleet) == ("Halted", 1)


def test_wave_waits_until_the_version_was_installed_in_the_first_maintenance_window() -> None:
    fleet = in_mid_rollout()
    opens = fleet.now + timedelta(days=2)
    fleet.windows = dict.fromkeys(fleet.kymas, Span(opens, opens + timedelta(days=2)))
    fleet.windows["kyma-000"] = Span(opens - timedelta(hours=1), opens)
    passes(fleet, 40)
    status = fleet.latest.status
    assert (status.waves[0].held, status.waves[0].completed_at, status.waves[1].started_at) == (2, None, None)
    assert status.message == "waiting for the first maintenance window of wave canary"
    fleet.now = opens - timedelta(minutes=30)
    fleet.run(1)
    canary = fleet.latest.status.waves[0]
    assert (canary.healthy, canary.held, canary.completed_at) == (1, 1, fleet.now), "the other one gets it later"
    fleet.now += timedelta(days=1)
    fleet.run(10)
    assert (*outcome(fleet), fleet.on("2.0.0")) == ("Completed", 0, 6)


def test_cluster_whose_window_opens_after_the_deadline_has_its_time_anew() -> None:
    fleet = in_mid_rollout()
    fleet.settle()
    opens = fleet.now + timedelta(days=1)
    fleet.windows = {"kyma-000": Span(opens, opens + timedelta(hours=4))}  # it closed before the version was installed
    fleet.install("kyma-001")
    fleet.report("kyma-001", State.READY)
    passes(fleet, 40)
    assert (fleet.latest.status.phase, fleet.latest.status.waves[0].held) == ("Progressing", 1)
    fleet.now = opens
    assert outcome(fleet) == ("Progressing", 0)
    passes(fleet, 31)
    assert outcome(fleet) == ("Halted", 1)


def test_cluster_that_is_not_ready_by_the_deadline_fails_although_its_window_is_over() -> None:
    fleet = in_mid_rollout()
    fleet.settle()
    for name in ("kyma-000", "kyma-001"):
        fleet.install(name)
        fleet.report(name, State.WARNING)
    closed = fleet.now + timedelta(days=7)
    fleet.windows = dict.fromkeys(fleet.kymas, Span(closed, closed + timedelta(hours=1)))
    passes(fleet, 29)
    assert outcome(fleet) == ("Progressing", 0)
    fleet.now += timedelta(minutes=1)
    assert outcome(fleet) == ("Halted", 2)
    assert {each.reason for each in fleet.latest.status.failed_clusters} == {"DeadlineExceeded"}
