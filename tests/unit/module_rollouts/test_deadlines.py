"""A cluster fails that is not Ready in time: counted anew where it could not be reached, or was Ready, meanwhile."""

import json
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from lifecycle_manager import module_rollouts
from lifecycle_manager.contract.resources import ROLLOUT_STRATEGIES
from lifecycle_manager.options.kymas import RolloutSettings
from lifecycle_manager_api import State, names
from tests import builders
from tests.unit.module_rollouts.fleet import MODULE, Fleet, released, strategy
from tests.unit.module_rollouts.test_controller import (
    finished,
    latest,
    offer,
    report,
    turn_without_report,
    versions,
)
from tests.world import KCP, open_world

CANARIES = ("canary", "canary", "other", "other", "other", "other")


def in_mid_rollout(waves: Sequence[str] = CANARIES) -> Fleet:
    """Return a fleet that begins with a version, and halts at the first failure of a canary."""
    canary = {"name": "canary", "soak": "0s", "maxConcurrent": "100%", "maxFailures": "0", "progressDeadline": "30m"}
    fleet = Fleet(strategy(canary, soak="0s", pauseBefore="24h"), released("1.0.0"))
    fleet.add(*waves)
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


async def test_cluster_that_is_not_ready_by_the_deadline_fails_although_its_window_is_over(tmp_path: Path) -> None:
    policy = tmp_path / "policy.json"
    window = {"days": [builders.NOW.strftime("%a")], "begin": "11:30:00+00:00", "end": "12:25:00+00:00"}
    policy.write_text(json.dumps({"default": window, "rules": []}))
    settings = RolloutSettings(max_delay=timedelta(0), policy_file=policy)
    canary = {"name": "canary", "maxConcurrent": "100%", "maxFailures": "0", "progressDeadline": "10m", "soak": "0s"}
    async with open_world(rollout=settings) as found:
        module_rollouts.setup(found.manager, found.offers, settings)
        careful = builders.as_written(strategy(canary, soak="0s"))
        await found.kcp.create(ROLLOUT_STRATEGIES, careful, KCP, field_manager="operator")
        for version in ("0.1.0", "0.2.0"):
            await found.offer(builders.template(MODULE, version, installs=True, requires_downtime=True))
        await offer(found, "0.1.0")
        for name, wave in (("canary", "canary"), ("other", "other")):
            await found.register(name, MODULE, wave=wave)
            await found.introduced(name)
        await finished(found)
        await offer(found, "0.2.0")
        for _ in range(14):
            await turn_without_report(found)
            await report(found, canary="Warning")
            found.clock.advance(60)
        assert await versions(found) == {"canary": "0.2.0", "other": "0.1.0"}
        assert (await latest(found)).status.phase == "Halted"
