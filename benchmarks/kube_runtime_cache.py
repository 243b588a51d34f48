"""A cache of 20,000 objects of 4 kB: how soon it is filled, what it costs in memory, and what it costs while idle.

Every library has a process of its own and the same objects on the same API server. They are started in turns, the best
start of each counts; at the end all are left idle at the same time.

Run by `python -m benchmarks.kube_runtime_cache [--objects 20000] [--starts 3] [--idle-seconds 30]
[--as-dicts] [--no-peers]`.
"""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

import uvloop

from benchmarks.figures import Figure, print_all
from benchmarks.peers.comparing import at_most, compared, under
from benchmarks.peers.programs import CONTROLLER_RUNTIME, KOPF, OURS, Program, Running, prepared, running
from benchmarks.peers.stage import cluster_with_things

NAMESPACE = "cached"
SETTLING_SECONDS = 8.0
TIMES_KOPF = 5.0
TIMES_CONTROLLER_RUNTIME = 3.0
IDLE_PERCENT = 1.0


@dataclass(frozen=True, slots=True)
class Measured:
    """What a library's process took: until its cache was full, at most, and per second while idle."""

    seconds: float
    peak_mib: float
    idle_percent: float


def main() -> int:
    """Measure and print the figures; return 1 where a bar was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--objects", type=int, default=20_000)
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--idle-seconds", type=float, default=30.0)
    parser.add_argument("--as-dicts", action="store_true", help="have ours read dicts, as kopf does")
    parser.add_argument("--peers", action=argparse.BooleanOptionalAction, default=True)
    options = parser.parse_args()
    programs = prepared(peers=options.peers)
    return print_all(_figures(uvloop.run(_measure(programs, options))))


async def _measure(programs: Sequence[Program], options: argparse.Namespace) -> dict[Program, Measured]:
    async with cluster_with_things(**{NAMESPACE: options.objects}) as (_, kubeconfig):
        arguments = (f"--kubeconfig={kubeconfig}", f"--namespace={NAMESPACE}")
        own: dict[Program, tuple[str, ...]] = {
            OURS: ("--as-dicts",) if options.as_dicts else (),
            KOPF: (f"--count={options.objects}",),
            CONTROLLER_RUNTIME: (),
        }
        seconds: dict[Program, list[float]] = {program: [] for program in programs}

        async def filled(program: Program, cache: Running) -> None:
            report = await cache.reported("seconds")
            assert report["objects"] == options.objects, report
            seconds[program].append(report["seconds"])

        for _ in range(options.starts - 1):
            for program in programs:
                async with running(program, "cache", *arguments, *own[program]) as cache:
                    await filled(program, cache)
        async with AsyncExitStack() as stack:
            caches = {}
            for program in programs:
                caches[program] = cache = await stack.enter_async_context(
                    running(program, "cache", *arguments, *own[program])
                )
                await filled(program, cache)
            idle = await _idle_percent(caches, options.idle_seconds)
            return {
                program: Measured(min(seconds[program]), cache.peak_mib(), idle[program])
                for program, cache in caches.items()
            }


async def _idle_percent(caches: dict[Program, Running], seconds: float) -> dict[Program, float]:
    """Return how much of a core each program uses while nothing happens."""
    await asyncio.sleep(min(SETTLING_SECONDS, seconds))
    before = {program: cache.cpu_seconds() for program, cache in caches.items()}
    await asyncio.sleep(seconds)
    return {program: (cache.cpu_seconds() - before[program]) / seconds * 100 for program, cache in caches.items()}


def _figures(measured: dict[Program, Measured]) -> list[Figure]:
    seconds = {program: each.seconds for program, each in measured.items()}
    memory = {program: each.peak_mib for program, each in measured.items()}
    idle = {program: each.idle_percent for program, each in measured.items()}
    bars = {KOPF: at_most(1 / TIMES_KOPF), CONTROLLER_RUNTIME: at_most(TIMES_CONTROLLER_RUNTIME)}
    return [
        *compared("kube_runtime_cache_filled", "s", seconds, bars),
        *compared("kube_runtime_cache_memory", "MiB at most", memory),
        *compared("kube_runtime_cache_idle", "% of a core", idle, default=under(IDLE_PERCENT, "%")),
    ]


if __name__ == "__main__":
    sys.exit(main())
