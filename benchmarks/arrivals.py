"""Measures the CPU that a cluster takes which arrives in a fleet at rest, and what it takes more with several replicas.

Kymas arrive one after another, and not all at once as in `benchmarks.scaling`: no replica waits for a core, and what
they take while nothing arrives is subtracted. A replica with less to do takes more for each Kyma, as it finds less of
its code in the caches and reads fewer changes at once. So several replicas are compared with one that has as much to do
as each of them, and one with all of the arrivals is shown beside them. The three run by turns.

Run by `python -m benchmarks.arrivals [--kymas 50] [--arriving 240] [--rate 5] [--replicas 3] [--rounds 2]`.
"""

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass

import uvloop

from benchmarks.figures import Figure, print_all
from benchmarks.fleet import _wait_until_in_sync, _wait_until_settled
from benchmarks.processes.fleet import cpu_of, open_fleet, run_replicas

RATIO_BAR = 1.15


@dataclass(frozen=True)
class Load:
    """So many Kymas arrive in a second, for so many replicas together."""

    name: str
    replicas: int
    rate: float


def main() -> int:
    """Measure and print the figures; return 1 if a bar was missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kymas", type=int, default=50, help="Kymas that are there before")
    parser.add_argument("--arriving", type=int, default=240, help="Kymas that arrive")
    parser.add_argument("--rate", type=float, default=5.0, help="Kymas that arrive in a second")
    parser.add_argument("--modules", type=int, default=5)
    parser.add_argument("--replicas", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--quiet-seconds", type=float, default=20.0)
    options = parser.parse_args()
    several = Load(f"arrival_cpu_with_{options.replicas}_replicas", options.replicas, options.rate)
    share = Load("arrival_cpu_with_the_share_of_one", 1, options.rate / options.replicas)
    alone = Load("arrival_cpu_with_1_replica", 1, options.rate)
    found: dict[Load, list[float]] = {several: [], share: [], alone: []}
    for _ in range(options.rounds):
        for load, milliseconds in found.items():
            milliseconds.append(uvloop.run(_measure(options, load)))
            print(f"{load.name}: {milliseconds[-1]:.1f} ms", file=sys.stderr, flush=True)
    medians = {load: statistics.median(each) for load, each in found.items()}
    figures = [
        _figure(several.name, medians[several], medians, share, bar=RATIO_BAR),
        _figure(f"{several.name}_beside_all_of_one", medians[several], medians, alone),
    ]
    return print_all(figures)


async def _measure(options: argparse.Namespace, load: Load) -> float:
    """Return the milliseconds of CPU that all replicas take for one Kyma that arrives."""
    arriving = round(options.arriving * load.rate / options.rate)
    async with AsyncExitStack() as stack:
        given = argparse.Namespace(kymas=options.kymas + arriving, modules=options.modules)
        opening = open_fleet(given, f"--arriving={arriving}")
        fleet, kubeconfig, folder = await stack.enter_async_context(opening)
        managers = await stack.enter_async_context(run_replicas(kubeconfig, folder, load.replicas))

        async def rest() -> None:
            await _wait_until_in_sync(fleet, managers[0])
            await _wait_until_settled(fleet)
            for manager in managers:
                await manager.wait_until_idle()

        await rest()
        cpu = cpu_of(managers)
        await asyncio.sleep(options.quiet_seconds)
        quiet = (cpu_of(managers) - cpu) / options.quiet_seconds
        cpu, began = cpu_of(managers), time.monotonic()
        for number in range(arriving):
            await asyncio.sleep(began + number / load.rate - time.monotonic())
            await fleet.do("arrive")
        await rest()
        taken = cpu_of(managers) - cpu - quiet * (time.monotonic() - began)
        return float(1000 * taken / arriving)


def _figure(name: str, value: float, medians: Mapping[Load, float], peer: Load, *, bar: float | None = None) -> Figure:
    return Figure(
        name=name,
        unit="ms",
        value=round(value, 1),
        peer=peer.name,
        peer_value=round(medians[peer], 1),
        bar="none given" if bar is None else f"{bar} times or less",
        met=bar is None or value <= bar * medians[peer],
    )


if __name__ == "__main__":
    sys.exit(main())
