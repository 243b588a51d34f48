"""Measures what a Kyma costs, so that one can say what a fleet of any size needs: `docs/scaling.md` is written from it.

For each size of the fleet and each number of replicas: CPU time and requests at the start, memory of the largest
replica, the objects in the control plane and their size, the CPU and the requests of a quiet minute, and the CPU and
requests of a new version of a module. From two sizes or more follow the slopes, which are what a Kyma costs, and with
`--predict` how far off the slopes of the smaller sizes were for the largest one. All of it is CPU time, bytes and
counts. CPU time depends on what else the machine does all the same: where more processes than cores run, each finds
its caches used by others. So `--apart` measures as many Lifecycle Managers with a fleet of their own beside each other,
of which each has a share of the Kymas: what replicas of one fleet take more is what the division costs.

Run by `python -m benchmarks.scaling [--sizes 500,1000] [--replicas 1,2] [--modules 5] [--predict] [--apart]`.
"""

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass

import uvloop

from benchmarks.figures import Figure
from benchmarks.fleet import _bump, _wait_until_in_sync, _wait_until_settled
from benchmarks.processes.fleet import (
    Answer,
    FleetProcess,
    cpu_of,
    open_fleet,
    run_replicas,
)

OF_A_KYMA = frozenset({"Kyma", "Manifest", "Secret", "ModuleConfig", "SyncResource", "Event", "Lease"})
UNITS = {
    "start_cpu_seconds": "s of CPU",
    "start_kcp_requests": "requests",
    "start_skr_requests": "requests",
    "memory_mb": "MB, all replicas",
    "stored_bytes": "bytes",
    "quiet_cpu_seconds": "s of CPU in a minute",
    "quiet_kcp_requests": "requests in a minute",
    "bump_cpu_seconds": "s of CPU",
    "bump_kcp_requests": "requests",
    "bump_skr_requests": "requests",
}


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What one fleet cost. CPU and memory are those of all replicas together."""

    kymas: int
    replicas: int
    start_seconds: float
    start_cpu_seconds: float
    start_kcp_requests: float
    start_skr_requests: float
    memory_mb: float
    max_replica_mb: float
    stored_bytes: float
    quiet_cpu_seconds: float
    quiet_kcp_requests: float
    bump_seconds: float
    bump_cpu_seconds: float
    bump_kcp_requests: float
    bump_skr_requests: float


def main() -> int:
    """Measure, and print the costs and the slopes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="500,1000", help="numbers of Kymas")
    parser.add_argument("--replicas", default="1,2", help="numbers of replicas; each is combined with each size")
    parser.add_argument("--modules", type=int, default=5)
    parser.add_argument("--quiet-seconds", type=float, default=60.0)
    parser.add_argument("--predict", action="store_true", help="compare the largest size with the slopes of the others")
    parser.add_argument("--apart", action="store_true", help="measure Lifecycle Managers with fleets of their own too")
    options = parser.parse_args()
    sizes = sorted(int(each) for each in options.sizes.split(","))
    if len(sizes) < 2 + options.predict:
        parser.error("a slope needs two sizes, and --predict a third")
    for replicas in (int(each) for each in options.replicas.split(",")):
        for measure in (_measure, _measure_apart) if options.apart and replicas > 1 else (_measure,):
            costs = []
            for size in sizes:
                costs.append(uvloop.run(measure(options, size, replicas)))
                print(json.dumps(asdict(costs[-1])), file=sys.stderr, flush=True)
            with_what = f"{replicas}_replicas" if measure is _measure else f"{replicas}_apart"
            for figure in _slopes(costs, with_what, predict=options.predict):
                figure.print()
    return 0


async def _measure_apart(options: argparse.Namespace, kymas: int, count: int) -> Cost:
    """Measure some Lifecycle Managers beside each other, each with a fleet of its own; return what all cost."""
    costs = await asyncio.gather(*(_measure(options, kymas // count, 1) for _ in range(count)))
    largest = {"start_seconds", "bump_seconds", "max_replica_mb"}
    return Cost(
        **{name: (max if name in largest else sum)(getattr(each, name) for each in costs) for name in asdict(costs[0])}
    )


async def _measure(options: argparse.Namespace, kymas: int, replicas: int) -> Cost:
    async with AsyncExitStack() as stack:
        given = argparse.Namespace(kymas=kymas, modules=options.modules)
        fleet, kubeconfig, folder = await stack.enter_async_context(open_fleet(given))
        before, stored = await fleet.do("counts"), _stored_bytes(await fleet.do("stored"))
        began = time.monotonic()
        managers = await stack.enter_async_context(run_replicas(kubeconfig, folder, replicas))
        await _wait_until_in_sync(fleet, managers[0])
        start_seconds = time.monotonic() - began
        await _wait_until_settled(fleet)
        start = _requests(before, await fleet.do("counts"))
        start_cpu = cpu_of(managers)
        for manager in managers:
            await manager.wait_until_idle()
        cpu, counted = cpu_of(managers), await fleet.do("counts")
        await asyncio.sleep(options.quiet_seconds)
        minutes = options.quiet_seconds / 60
        quiet_cpu = (cpu_of(managers) - cpu) / minutes
        quiet = _requests(counted, await fleet.do("counts"))
        cpu, counted = cpu_of(managers), await fleet.do("counts")
        bump_seconds = await _bump(fleet)
        await _wait_until_settled(fleet)
        for manager in managers:
            await manager.wait_until_idle()
        bump = _requests(counted, await fleet.do("counts"))
        memory = [manager.peak_memory() for manager in managers]
        return Cost(
            kymas=kymas,
            replicas=replicas,
            start_seconds=start_seconds,
            start_cpu_seconds=start_cpu,
            start_kcp_requests=start[0],
            start_skr_requests=start[1],
            memory_mb=sum(memory),
            max_replica_mb=max(memory),
            stored_bytes=_stored_bytes(await _stored(fleet)) - stored,
            quiet_cpu_seconds=quiet_cpu,
            quiet_kcp_requests=quiet[0] / minutes,
            bump_seconds=bump_seconds,
            bump_cpu_seconds=cpu_of(managers) - cpu,
            bump_kcp_requests=bump[0],
            bump_skr_requests=bump[1],
        )


async def _stored(fleet: FleetProcess) -> Answer:
    stored = await fleet.do("stored")
    print(json.dumps(stored), file=sys.stderr)
    return stored


def _stored_bytes(stored: Answer) -> int:
    return sum(each["bytes"] for kind, each in stored.items() if kind in OF_A_KYMA)


def _requests(before: Answer, after: Answer) -> tuple[int, int]:
    """Return the requests between two counts, but watches, to the control plane and to the clusters."""

    def of(side: str) -> int:
        return sum(after.get(f"{side}_{kind}", 0) - before.get(f"{side}_{kind}", 0) for kind in ("reads", "writes"))

    return of("kcp"), of("skr")


def _slopes(costs: Sequence[Cost], with_what: str, *, predict: bool) -> list[Figure]:
    """Return what each thousand Kymas more cost; with `predict`, the largest fleet beside what the others promised."""
    known = costs[:-1] if predict else costs
    figures, largest = [], costs[-1]
    for name, unit in UNITS.items():
        slope, base = statistics.linear_regression(
            [each.kymas for each in known], [float(getattr(each, name)) for each in known]
        )
        label = f"scaling_{name}_with_{with_what}"
        figures.append(_figure(label, f"{unit}, for 1000 Kymas", 1000 * slope))
        if predict:
            promised = base + slope * largest.kymas
            figures.append(_figure(f"{label}_of_{largest.kymas}", unit, float(getattr(largest, name)), promised))
    return figures


def _figure(name: str, unit: str, value: float, promised: float | None = None) -> Figure:
    peer = "what the smaller fleets promised" if promised is not None else ""
    return Figure(
        name=name,
        unit=unit,
        value=round(value, 3),
        peer=peer,
        peer_value=round(promised or 0.0, 3),
        bar="none given",
        met=True,
    )


if __name__ == "__main__":
    sys.exit(main())
