"""The harness lets a controller pass that is right, and finds what is wrong with others."""

import asyncio
import re

import pytest

from tests.faults import FaultReport, ReconcileCut, check_under_faults
from tests.faults.stepping import Stepped
from tests.unit.kube_simulation import keepers

TOO_OFTEN = re.compile(r"configmaps default/one-\* in one was created [23] times instead of 1")


def faults_found(report: FaultReport, kind: str) -> list[str]:
    return [finding.what for finding in report.findings if finding.fault.startswith(kind)]


async def test_level_triggered_controller_reaches_the_same_end_whatever_happens() -> None:
    report = await check_under_faults(keepers.workload(keepers.right), max_places=7)

    report.raise_findings()
    assert report.runs["KillAfterWrite"] == report.runs["StartStale"] == report.runs["CutAtAwait"] == 7
    assert report.runs["HideEvent"] >= 5


async def test_controller_that_forgets_what_it_made_makes_it_twice() -> None:
    report = await check_under_faults(keepers.workload(keepers.forgetful))

    assert any(map(TOO_OFTEN.fullmatch, faults_found(report, "killed")))
    with pytest.raises(AssertionError, match="killed after write"):
        report.raise_findings()


async def test_controller_that_takes_an_old_list_for_the_present_makes_things_twice() -> None:
    report = await check_under_faults(keepers.workload(keepers.trusting))

    assert not faults_found(report, "killed")
    assert any(map(TOO_OFTEN.fullmatch, faults_found(report, "restarted")))


async def test_controller_that_counts_on_hearing_of_every_state_misses_one() -> None:
    report = await check_under_faults(keepers.workload(keepers.historian))

    assert not faults_found(report, "killed")
    assert any("'then-bye': 'bye'" in what for what in faults_found(report, "event"))


async def test_controller_that_is_not_tidy_when_interrupted_never_works_again() -> None:
    report = await check_under_faults(keepers.workload(keepers.untidy))

    assert not faults_found(report, "killed")
    assert any("is missing" in what for what in faults_found(report, "cancelled"))


async def test_controller_that_never_rests_is_reported_without_any_fault() -> None:
    report = await check_under_faults(keepers.workload(keepers.restless), timeout_seconds=1.0)

    (finding,) = report.findings
    assert "undisturbed: it did not come to rest within 1 s; its last write: patch" in str(finding)


async def test_reconcile_that_raises_what_no_cluster_does_is_reported() -> None:
    report = await check_under_faults(keepers.workload(keepers.careless), timeout_seconds=1.0)

    assert any("raised AssertionError" in finding.what for finding in report.findings)


async def test_coroutine_is_cancelled_at_each_of_its_awaits_and_cleans_up() -> None:
    async def work(done: list[str]) -> str:
        try:
            for step in "abc":
                await asyncio.sleep(0.001 if step == "b" else 0)
                done.append(step)
        finally:
            await asyncio.sleep(0)
            done.append("cleaned up")
        return "the end"

    for place, expected in enumerate((["cleaned up"], ["a", "cleaned up"], ["a", "b", "cleaned up"]), start=1):
        done: list[str] = []
        awaits = iter(range(1, 10))
        with pytest.raises(ReconcileCut):
            await Stepped(work(done), lambda at=place, awaits=awaits: next(awaits) == at)  # type: ignore[misc]
        assert done == expected
    assert await Stepped(work([]), lambda: False) == "the end"


async def test_task_that_is_cancelled_itself_stays_cancelled() -> None:
    async def work() -> None:
        await asyncio.Event().wait()

    async def stepped() -> None:
        await Stepped(work(), lambda: False)

    task = asyncio.create_task(stepped())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
