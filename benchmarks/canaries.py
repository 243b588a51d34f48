"""Measures the CPU of one canary: its request to a cluster, and the signed event of the Watcher there that answers it.

Some hundred simulated clusters, over TLS, get canaries in short succession; what the same fleet takes without canaries
is subtracted. `--klm` names a program to compare, such as that of an older commit; the two run by turns.

Run by `python -m benchmarks.canaries [--kymas 300] [--replicas 1] [--klm PATH]`.
"""

import argparse
import asyncio
import statistics
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path

import uvloop

from benchmarks.figures import Figure, print_all
from benchmarks.fleet import _wait_until_in_sync, _wait_until_settled
from benchmarks.processes.fleet import (
    TIMEOUT_SECONDS,
    FleetProcess,
    LifecycleManagerProcess,
    cpu_of,
    open_fleet,
    run_replicas,
)
from benchmarks.profiling.flame_graph import record
from kyma_local.ports import free_port
from lifecycle_manager.skr_webhook import CanaryTimes
from tests.klm import KLM

CANARY = "skr apply serviceaccounts/ by lifecycle-manager-canary"
CLUSTERS, INTERVAL_SECONDS = 100_000, CanaryTimes().interval
CORES_BAR = 1.0
OURS = str(KLM)


@dataclass(frozen=True)
class Window:
    """What happened in one measurement."""

    cpu: float
    canaries: int
    events: int
    others: int


def main() -> int:
    """Measure and print the figures; return 1 if a bar was missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kymas", type=int, default=300)
    parser.add_argument("--modules", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=15.0, help="length of each measurement")
    parser.add_argument("--interval", type=float, default=1.0, help="seconds between the canaries of a cluster")
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--klm", help="program to compare")
    parser.add_argument("--profile", type=Path, help="folder for flame graphs of our program")
    return print_all(uvloop.run(_measure(parser.parse_args())))


async def _measure(options: argparse.Namespace) -> list[Figure]:
    programs = [OURS, options.klm] if options.klm else [OURS]
    quiet: dict[str, float] = {}
    found: dict[str, list[float]] = {program: [] for program in programs}
    async with open_fleet(options, "--tls") as (fleet, kubeconfig, folder):
        port = free_port()

        def running(program: str, *more: str) -> AbstractAsyncContextManager[list[LifecycleManagerProcess]]:
            """Run the replicas of a program. The events of all Watchers arrive at the first."""
            return run_replicas(kubeconfig, folder, options.replicas, first_port=port, klm=program, more=more)

        async with running(OURS) as managers:
            await _wait_until_in_sync(fleet, managers[0])
            await fleet.do("watch", port=port)
            await _wait_until_settled(fleet)
        for program in programs:
            async with running(program) as managers:
                quiet[program] = (await _window(fleet, managers, options, canaries=False)).cpu
        for number in range(options.rounds):
            for program in programs:
                more = (f"--watcher-canary-interval={options.interval}s", "--watcher-canary-timeout=60s")
                async with running(program, *more) as managers:
                    is_profiled = bool(options.profile) and not number and program == OURS
                    seen = await _window(fleet, managers, options, canaries=True, is_profiled=is_profiled)
                found[program].append(1000 * (seen.cpu - quiet[program]) / seen.canaries)
                print(program, seen, f"quiet {quiet[program]:.2f} s, {found[program][-1]:.3f} ms", file=sys.stderr)
    return _figures(found, options.klm)


async def _window(
    fleet: FleetProcess,
    managers: Sequence[LifecycleManagerProcess],
    options: argparse.Namespace,
    *,
    canaries: bool,
    is_profiled: bool = False,
) -> Window:
    """Measure once the process is at rest and, with canaries, every cluster has answered some."""
    for manager in managers:
        await manager.wait_until_ready()
    first = (await fleet.do("answered"))["events"] + 2 * options.kymas
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while True:
            if not canaries or (await fleet.do("answered"))["events"] >= first:
                break
            await asyncio.sleep(0.5)
    await asyncio.sleep(5)
    await fleet.do("detail")
    cpu, events = cpu_of(managers), (await fleet.do("answered"))["events"]
    if is_profiled:
        options.profile.mkdir(parents=True, exist_ok=True)
        recording = await record("canaries", managers[0].child.pid, options.profile)
    await asyncio.sleep(options.seconds)
    cpu, detail = cpu_of(managers) - cpu, await fleet.do("detail")
    answered = (await fleet.do("answered"))["events"] - events
    if is_profiled:
        await recording.stop()
    others = sum(count for request, count in detail.items() if request != CANARY)
    return Window(cpu, detail.get(CANARY, 0), answered, others)


def _figures(found: dict[str, list[float]], klm: str | None) -> list[Figure]:
    def cores(each: Sequence[float]) -> float:
        return statistics.median(each) / 1000 * CLUSTERS / INTERVAL_SECONDS

    def figure(name: str, unit: str, of: Callable[[Sequence[float]], float]) -> Figure:
        peer = found.get(klm or "")
        return Figure(
            name=name,
            unit=unit,
            value=round(of(found[OURS]), 3),
            peer=klm or "",
            peer_value=round(of(peer), 3) if peer else 0,
            bar=f"{CORES_BAR} cores or less for {CLUSTERS} clusters",
            met=cores(found[OURS]) <= CORES_BAR,
        )

    return [figure("canary_cpu", "ms", statistics.median), figure("canaries", "cores", cores)]


if __name__ == "__main__":
    sys.exit(main())
