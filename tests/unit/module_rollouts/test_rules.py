"""The rules of rollouts, on a fleet without servers."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from types import MappingProxyType

import pytest
from msgspec.structs import replace as with_fields

from kyma_fleet.rollouts import change_of
from lifecycle_manager.contract.resources import DatedReleaseMeta
from lifecycle_manager.module_rollouts.rules import RolloutDone, decide
from lifecycle_manager.rollout.maintenance import Span
from lifecycle_manager.rollout.releases import version_for_new
from lifecycle_manager_api import ModuleRollout, State, WaveApproval, WaveStatus, names
from tests import builders
from tests.unit.module_rollouts.fleet import MODULE, WAVE_LABEL, Fleet, released, strategy

TWO_WAVES = strategy({"name": "canary", "soak": "5m"}, soak="0s", maxConcurrent="2", maxFailures="1")


def fleet(canaries: int = 2, others: int = 6, annotations: Mapping[str, str] = MappingProxyType({})) -> Fleet:
    """Return a fleet in which 1.0.0 is rolled out, with the release of 2.0.0."""
    found = Fleet(TWO_WAVES, released("1.0.0", annotations))
    found.add(*["canary"] * canaries, *["other"] * others)
    found.run(3)
    assert phase_of(found) == "Completed"
    found.release = released("2.0.0", annotations)
    return found


def phase_of(fleet: Fleet) -> str:
    return fleet.latest.status.phase


def canary(fleet: Fleet) -> WaveStatus:
    return next(each for each in fleet.latest.status.waves if each.name == "canary")


def wave(rollout: ModuleRollout, name: str) -> str:
    found = next(each for each in rollout.status.waves if each.name == name)
    return "completed" if found.completed_at else "begun" if found.started_at else "waiting"


def failing(found: Fleet, count: int) -> tuple[str, int]:
    """Let the first clusters fail with what is released to them; return what that makes of the rollout."""
    found.settle()
    for name in sorted(found.manifests)[:count]:
        found.install(name)
        found.report(name, State.ERROR)
    found.settle()
    return phase_of(found), found.latest.status.failed


def test_fleet_that_has_the_version_already_is_completed_at_once() -> None:
    found = fleet()

    assert found.latest.spec.revision == 1
    assert found.latest.status.started_at == found.latest.status.completed_at == builders.NOW


def test_first_wave_is_completed_and_soaked_before_the_next_begins() -> None:
    found = fleet()

    found.run(1)
    assert found.on("2.0.0") == 1  # 10 % of two clusters is one
    found.run(1)
    assert found.on("2.0.0") == 2
    assert phase_of(found) == "Soaking"
    found.run(3)
    assert found.on("2.0.0") == 2
    assert wave(found.latest, "remaining") == "waiting"
    found.run(2)
    assert wave(found.latest, "canary") == "completed"
    assert found.on("2.0.0") == 4
    found.run(4)
    assert phase_of(found) == "Completed"
    assert found.on("2.0.0") == 8


def test_cluster_that_turns_bad_soaks_anew_and_the_others_do_not() -> None:
    found = fleet(canaries=2)
    found.strategy = strategy({"name": "canary", "soak": "10m", "maxConcurrent": "2"}, soak="0s")
    found.run(1)
    assert (canary(found).soaking, canary(found).healthy, phase_of(found)) == (2, 0, "Soaking")

    found.now += timedelta(minutes=5)
    found.report("kyma-000", State.PROCESSING)
    found.settle()
    assert (canary(found).under_way, canary(found).soaking, phase_of(found)) == (1, 1, "Progressing")
    found.report("kyma-000", State.READY)
    found.settle()
    ready_again = found.now

    found.now = ready_again + timedelta(minutes=9)
    found.settle()
    assert (canary(found).soaking, canary(found).healthy) == (1, 1)
    assert wave(found.latest, "remaining") == "waiting"
    found.now = ready_again + timedelta(minutes=10)
    found.settle()
    assert canary(found).healthy == 2
    assert (wave(found.latest, "canary"), wave(found.latest, "remaining")) == ("completed", "begun")


def test_installation_that_is_ready_at_once_soaks_from_its_version_on() -> None:
    found = fleet(canaries=1, others=0)
    found.settle()
    found.now += timedelta(minutes=4)
    found.install("kyma-000")
    found.report("kyma-000", State.READY)  # it was Ready with the version before, and its condition never changed
    found.settle()
    assert phase_of(found) == "Soaking"

    found.now += timedelta(minutes=4)
    found.settle()
    assert phase_of(found) == "Soaking"
    found.now += timedelta(minutes=1)
    found.settle()
    assert phase_of(found) == "Completed"


def test_soaking_clusters_leave_their_places_to_the_next() -> None:
    found = fleet(canaries=2)
    found.strategy = strategy({"name": "canary", "soak": "1h", "maxConcurrent": "1"}, soak="0s")
    found.run(2)
    assert (found.on("2.0.0"), canary(found).soaking) == (2, 2)


def test_wave_does_not_wait_for_the_soak_of_a_cluster_that_was_late() -> None:
    found = fleet(canaries=2)
    found.strategy = strategy({"name": "canary", "maxConcurrent": "2", "maxFailures": "1", "soak": "30m"}, soak="0s")
    found.settle()
    found.install("kyma-000")
    found.report("kyma-000", State.READY)
    found.now += timedelta(minutes=31)
    found.settle()
    assert wave(found.latest, "canary") == "completed", "one may fail, and the other has soaked"
    found.install("kyma-001")
    found.report("kyma-001", State.READY)
    found.settle()
    assert (canary(found).soaking, canary(found).healthy, canary(found).failed) == (1, 1, 0)
    assert wave(found.latest, "remaining") == "begun"


def test_failures_halt_the_rollout_until_somebody_accepts_them() -> None:
    found = fleet(canaries=0)
    assert failing(found, 2) == ("Halted", 2)
    status = found.latest.status
    assert [each.kyma for each in status.failed_clusters] == ["kyma-000", "kyma-001"]
    found.run(5)
    assert found.on("2.0.0") == 2, "clusters that were not updated stay, also when the others recover"
    assert phase_of(found) == "Halted"
    found.steer(accepted_failures=2)
    found.run(5)
    assert phase_of(found) == "Completed"


def accepted_by_resuming(found: Fleet) -> int:
    change = change_of(found.latest, "resume", wave="", by="me", at=found.now)
    found.steer(paused=change["paused"], accepted_failures=change["acceptedFailures"])
    return found.latest.spec.accepted_failures


def test_failures_that_were_accepted_are_no_limit_of_later_waves() -> None:
    found = fleet(canaries=3)
    first = {"name": "canary", "maxConcurrent": "3", "maxFailures": "0", "soak": "0s"}
    found.strategy = strategy(first, maxConcurrent="2", maxFailures="0")
    assert failing(found, 3) == ("Halted", 3)
    assert accepted_by_resuming(found) == 3
    assert failing(found, 4) == ("Halted", 4)
    assert accepted_by_resuming(found) == 4
    found.settle()
    assert phase_of(found) == "Progressing"


def test_resuming_after_a_pause_accepts_no_failures() -> None:
    found = fleet(canaries=0)
    assert failing(found, 1) == ("Progressing", 1)
    found.steer(paused=True)
    assert accepted_by_resuming(found) == 0


def test_wave_that_failed_is_not_completed_and_gives_its_version_to_no_new_cluster() -> None:
    found = fleet(canaries=1)
    failing(found, 1)

    def waves() -> tuple[str, str, str]:
        latest = found.latest
        new = version_for_new(tuple(found.channel), {WAVE_LABEL: "canary"})
        return wave(latest, "canary"), wave(latest, "remaining"), new

    assert (phase_of(found), *waves()) == ("Halted", "begun", "waiting", "1.0.0")
    found.report("kyma-000", State.READY)
    found.now += timedelta(hours=1)
    found.settle()
    assert (phase_of(found), *waves()) == ("Halted", "begun", "waiting", "1.0.0"), "until somebody accepts that"
    found.steer(accepted_failures=1)
    found.settle()
    assert (phase_of(found), *waves()) == ("Progressing", "completed", "begun", "2.0.0")


def test_next_wave_does_not_begin_where_clusters_fail_after_their_wave() -> None:
    found = fleet(canaries=1)
    trial = {"name": "canary", "maxFailures": "0", "soak": "0s"}
    found.strategy = strategy(trial, soak="0s", pauseBefore="1h")
    found.run(1)
    assert (wave(found.latest, "canary"), wave(found.latest, "remaining")) == ("completed", "waiting")
    found.report("kyma-000", State.ERROR)
    found.now += timedelta(hours=2)
    found.settle()
    assert (phase_of(found), wave(found.latest, "remaining")) == ("Halted", "waiting")


@pytest.mark.parametrize(
    ("max_failures", "reasons", "phase"),
    [
        ("5%", ["NotReady"], "Progressing"),
        ("5%", ["NotReady", "ApplyFailed"], "Progressing"),
        ("5%", ["NotReady", "NotReady"], "Halted"),
        ("20%", ["NotReady", "NotReady", "ApplyFailed"], "Progressing"),
        ("20%", ["NotReady", "NotReady", "NotReady"], "Halted"),
        ("0", ["NotReady"], "Halted"),
        ("1", ["NotReady", "ApplyFailed"], "Halted"),
    ],
)
def test_share_counts_failures_of_several_clusters_for_one_reason(
    max_failures: str, reasons: list[str], phase: str
) -> None:
    found = fleet(canaries=10)
    trial = {"name": "canary", "maxConcurrent": "10", "maxFailures": max_failures, "soak": "0s"}
    found.strategy = strategy(trial, soak="0s", progressDeadline="1h")
    found.settle()
    failed = dict(zip(sorted(found.manifests), reasons, strict=False))
    for name, reason in failed.items():
        found.install(name)
        found.report(name, State.ERROR, reason)
    found.settle()
    assert phase_of(found) == phase
    for name in found.manifests.keys() - failed:
        found.install(name)
        if found.manifests[name].spec.version == "2.0.0":
            found.report(name, State.READY)
    for _ in range(3):
        found.settle()
    assert phase == "Halted" or wave(found.latest, "canary") == "completed", "the rollout goes on without them"
    assert (phase_of(found) == "Halted") is (phase == "Halted")


@pytest.mark.parametrize(
    ("canaries", "reasons", "phase"),
    [
        (1, ["NotReady"], "Halted"),
        (2, ["NotReady"], "Halted"),
        (3, ["NotReady"], "Progressing"),
        (4, ["NotReady", "ApplyFailed"], "Halted"),
    ],
)
def test_share_counts_every_failure_once_half_of_the_wave_failed(canaries: int, reasons: list[str], phase: str) -> None:
    found = fleet(canaries=canaries)
    found.strategy = strategy({"name": "canary", "maxConcurrent": "10"})
    found.settle()
    for name, reason in zip(sorted(found.manifests), reasons, strict=False):
        found.install(name)
        found.report(name, State.ERROR, reason)
    found.settle()
    assert phase_of(found) == phase


def test_rollout_whose_last_clusters_fail_is_halted_until_that_is_accepted() -> None:
    found = fleet(canaries=1, others=0)
    found.strategy = strategy({"name": "canary"})
    assert failing(found, 1) == ("Halted", 1)
    found.steer(accepted_failures=1)
    found.settle()
    assert phase_of(found) == "Completed"


def test_rollout_that_is_completed_stays_so_when_clusters_fail_later() -> None:
    found = fleet(canaries=1, others=0)
    found.run(5)
    assert phase_of(found) == "Completed"
    found.report("kyma-000", State.ERROR)
    found.settle()
    assert phase_of(found) == "Completed"


def test_cluster_that_failed_first_is_the_first_in_the_status() -> None:
    found = fleet(canaries=0)
    found.settle()
    for name in ("kyma-001", "kyma-000"):
        found.install(name)
        found.report(name, State.ERROR)
        found.settle()

    assert [each.kyma for each in found.latest.status.failed_clusters] == ["kyma-001", "kyma-000"]


def test_wave_with_approval_begins_when_somebody_approved_it() -> None:
    found = fleet()
    found.strategy = strategy({"name": "canary", "approval": "required"}, maxConcurrent="100%", soak="0s")
    found.run(2)
    assert phase_of(found) == "AwaitingApproval"
    assert found.on("2.0.0") == 0

    found.steer(approvals=(WaveApproval(wave="canary"),))
    found.run(20)
    assert found.on("2.0.0") == 8


def test_paused_and_halted_rollouts_release_nothing_more() -> None:
    for how, phase in (({"paused": True}, "Paused"), ({"halted": True}, "Halted")):
        found = fleet(canaries=0)
        found.settle()
        found.steer(**how)
        found.run(5)
        assert found.on("2.0.0") == 2, "those under way finish"
        assert phase_of(found) == phase


def test_unreachable_cluster_does_not_hold_a_wave_longer_than_its_deadline() -> None:
    found = fleet(canaries=2)
    condition = {"type": "SKRReachable", "status": "False", "reason": "Unreachable", "message": "no answer"}
    status = {"state": "Error", "conditions": [condition]}
    found.kymas["kyma-000"] = builders.kyma("kyma-000", labels={"wave": "canary"}, status=status)

    found.run(29)
    assert wave(found.latest, "canary") == "begun"
    found.run(10)
    assert wave(found.latest, "canary") == "completed"
    assert found.latest.status.failed == 0
    found.kymas["kyma-000"] = builders.kyma("kyma-000", labels={"wave": "canary"})
    found.run(10)
    assert found.on("2.0.0") == 8, "it gets the version when it is back"


def test_cluster_whose_users_choose_the_time_holds_no_place() -> None:
    found = fleet(canaries=0)
    module = builders.module_status(MODULE, "1.0.0", availableVersion="2.0.0")
    for name in ("kyma-000", "kyma-001"):
        found.kymas[name] = builders.kyma(name, labels={"wave": "other"}, status={"modules": [module]})
    found.settle()
    assert {each.kyma for each in found.latest.status.under_way} == {"kyma-002", "kyma-003"}
    assert found.latest.status.waves[-1].held == 2


def test_wave_does_not_wait_for_clusters_that_join_it() -> None:
    found = fleet()
    for _ in range(10):
        found.add("canary")
        found.run(2)  # while each soaks for five minutes
    assert wave(found.latest, "canary") == "completed"
    found.run(20)
    assert (phase_of(found), found.on("2.0.0")) == ("Completed", 18)


def test_newer_version_supersedes_a_rollout_under_way() -> None:
    found = fleet(canaries=0)
    found.run(1)
    assert found.on("2.0.0") == 2
    found.release = released("3.0.0")
    found.run(6)

    assert found.on("3.0.0") == 6
    assert [each.status.phase for each in sorted(found.rollouts, key=lambda each: each.spec.revision)] == [
        "Completed",
        "Superseded",
        "Completed",
    ]
    assert found.latest.spec.former_version == "1.0.0"


def test_strategy_that_comes_with_a_new_version_knows_what_the_clusters_had() -> None:
    found = Fleet(TWO_WAVES, released("1.0.0", {names.ALLOW_DOWNGRADE: "true"}))
    found.add(*["other"] * 6)
    found.step()
    assert found.latest.status.phase != "Completed"
    found.release = released("2.0.0", {names.ALLOW_DOWNGRADE: "true"})
    found.run(1)
    assert (found.latest.spec.former_version, found.on("2.0.0")) == ("1.0.0", 2)

    found.undo()
    found.run(4)
    assert found.on("1.0.0") == 6


def test_version_that_no_cluster_has_is_none_to_go_back_to() -> None:
    found = Fleet(TWO_WAVES, released("1.0.0"))
    found.step()
    found.release = released("2.0.0")
    found.run(1)
    assert found.latest.spec.former_version == ""


def test_channel_that_points_back_during_a_rollout_takes_it_back() -> None:
    found = fleet(canaries=0, annotations={names.ALLOW_DOWNGRADE: "true"})
    found.run(1)
    assert found.on("2.0.0") == 2
    found.release = released("1.0.0", {names.ALLOW_DOWNGRADE: "true"})
    found.run(3)

    assert found.on("1.0.0") == 6
    assert (found.latest.spec.former_version, phase_of(found)) == ("2.0.0", "Completed")


def braked(version: str) -> DatedReleaseMeta:
    found = released(version)
    return with_fields(found, metadata=with_fields(found.metadata, annotations={}))


def test_large_change_without_a_strategy_is_a_rollout_from_the_most_common_version() -> None:
    found = Fleet(TWO_WAVES, braked("2.0.0"))
    found.add(*["other"] * 6)
    found.add("other", version="0.9.0")
    found.add("other", version="2.1.0")
    found.run(1)
    assert found.on("2.0.0") == 2
    assert found.latest.spec.former_version == "1.0.0"

    found.run(40)
    assert (found.on("2.0.0"), found.on("2.1.0"), phase_of(found)) == (7, 1, "Completed")
    assert found.latest.status.failed == 0, "a higher version is kept, and is no failure"


def test_channel_that_changes_no_cluster_has_no_rollout_without_a_strategy() -> None:
    found = Fleet(TWO_WAVES, braked("1.0.0"))
    found.add("other", "other", version="1.0.0")
    found.settle()
    assert found.rollouts == []


def test_undo_returns_wave_by_wave_in_reverse() -> None:
    found = fleet(annotations={names.ALLOW_DOWNGRADE: "true"})
    found.run(20)
    assert found.on("2.0.0") == 8
    found.undo()
    found.run(2)
    assert [found.versions()[f"kyma-00{number}"] for number in (0, 1)] == ["2.0.0", "2.0.0"]
    assert found.on("1.0.0") == 4
    found.run(20)
    assert found.on("1.0.0") == 8
    found.run(5)
    assert found.on("1.0.0") == 8, "the channel's version is not rolled out again"


def test_version_after_one_that_is_being_taken_back_follows_the_one_before() -> None:
    found = fleet(annotations={names.ALLOW_DOWNGRADE: "true"})
    found.run(20)
    found.undo()
    found.run(1)
    assert phase_of(found) == "Progressing"
    found.release = released("3.0.0")
    found.settle()
    assert (found.latest.spec.version, found.latest.spec.former_version) == ("3.0.0", "1.0.0")


def test_undo_at_once_knows_no_waves() -> None:
    found = fleet(annotations={names.ALLOW_DOWNGRADE: "true"})
    found.run(20)
    found.undo(at_once=True)
    opens = found.now + timedelta(hours=1)
    found.windows = dict.fromkeys(found.kymas, Span(opens, opens + timedelta(hours=1)))
    found.run(1)
    assert (found.on("1.0.0"), phase_of(found)) == (0, "Progressing")
    assert found.latest.status.message == "waiting for the first maintenance window of wave remaining"
    found.now = opens
    found.run(1)
    assert (found.on("1.0.0"), phase_of(found)) == (8, "Completed")
    ended = found.latest.status
    found.run(2)
    assert found.latest.status == ended, "nothing is written any more"


def test_without_permission_no_cluster_gets_a_lower_version() -> None:
    found = fleet()
    found.run(20)
    found.undo()
    found.run(5)
    assert found.on("2.0.0") == 8
    assert phase_of(found) == "Halted"
    assert "allow-downgrade" in found.latest.status.message


def test_missing_strategy_is_a_problem_and_changes_nothing() -> None:
    found = fleet()
    seen = found.seen()
    step = found.step()
    assert not isinstance(step, RolloutDone)
    done = decide(replace(seen, strategy=None))
    assert isinstance(done, RolloutDone)
    assert "careful" in done.problem


def test_replica_that_dies_between_status_and_releases_leaves_no_cluster_behind() -> None:
    found = fleet(canaries=0)
    found.settle()
    found.run(1)
    found.step(dies_after=0)
    assert len(found.latest.status.under_way) == 2
    found.run(6)
    assert found.on("2.0.0") == 6


def test_only_the_last_rollouts_are_kept() -> None:
    found = fleet()
    for number in range(2, 12):
        found.release = released(f"{number}.0.0")
        found.run(12)
    assert len(found.rollouts) == 6
