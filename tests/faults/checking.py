"""Runs every fault at every place, and collects the findings."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from kube_simulation.server import Simulation, serve_simulation
from tests.faults.faults import (
    CutAtAwait,
    Fault,
    HideEvent,
    KillAfterWrite,
    StartStale,
    Undisturbed,
)
from tests.faults.oracle import FaultFinding, Outcome, findings_of
from tests.faults.running import Run
from tests.faults.workload import Workload

__all__ = ["FaultReport", "check_under_faults"]

_HISTORY = 100_000
_ENOUGH = 3
"""Of a kind of fault that was not survived at so many places, the rest need not be tried."""


@dataclass(frozen=True)
class FaultReport:
    """The findings of all runs. `runs` counts them by kind of fault."""

    findings: tuple[FaultFinding, ...]
    runs: dict[str, int]

    def raise_findings(self) -> None:
        """Raise AssertionError with everything that was found, if anything was."""
        if self.findings:
            raise AssertionError("\n".join(str(finding) for finding in self.findings))


async def check_under_faults(
    workload: Workload,
    *,
    max_places: int = 60,
    at_once: int = 32,
    timeout_seconds: float = 180.0,
    stale_writes: int = 1,
) -> FaultReport:
    """Run a workload undisturbed, then with each fault at each place, and report what was not the same.

    Of more than `max_places` places for a kind of fault, so many are taken, evenly spread. `at_once` runs go side by
    side, each on clusters of its own. A process that starts on the past does so from before its last `stale_writes`.
    """
    async with serve_simulation(history=_HISTORY) as simulation:
        counting = Undisturbed()
        reference = await Run(simulation, workload, counting, "reference", timeout_seconds).outcome()
        undisturbed = [FaultFinding(str(counting), complaint) for complaint in reference.complaints]
        if undisturbed:
            return FaultReport(tuple(undisturbed), {str(counting): 1})
        kinds: list[tuple[Callable[[int], Fault], int]] = [
            (KillAfterWrite, counting.writes),
            (partial(StartStale, back=stale_writes), counting.writes),
            (HideEvent, len(counting.events)),
            (CutAtAwait, counting.awaits_before_last_write),
        ]
        faults = [made(place) for made, places in kinds for place in _spread(places, max_places)]
        findings = await _try_all(simulation, workload, faults, reference, at_once, timeout_seconds)
    runs = {str(counting): 1}
    for fault in faults:
        runs[type(fault).__name__] = runs.get(type(fault).__name__, 0) + 1
    return FaultReport(tuple(findings), runs)


async def _try_all(
    simulation: Simulation,
    workload: Workload,
    faults: Sequence[Fault],
    reference: Outcome,
    at_once: int,
    timeout_seconds: float,
) -> list[FaultFinding]:
    places = asyncio.Semaphore(at_once)
    guilty: Counter[type[Fault]] = Counter()

    async def tried(number: int, fault: Fault) -> list[FaultFinding]:
        async with places:
            if guilty[type(fault)] >= _ENOUGH:
                return []
            outcome = await Run(simulation, workload, fault, f"run-{number}", timeout_seconds).outcome()
        found = findings_of(str(fault), reference, outcome, may_be_fewer=fault.may_be_fewer)
        guilty[type(fault)] += bool(found)
        return found

    async with asyncio.TaskGroup() as tasks:
        started = [tasks.create_task(tried(number, fault)) for number, fault in enumerate(faults)]
    return [finding for task in started for finding in task.result()]


def _spread(places: int, most: int) -> Iterable[int]:
    if places <= most:
        return range(1, places + 1)
    return sorted({1 + round(number * (places - 1) / (most - 1)) for number in range(most)})
