"""Measures what open fleet pages cost: the time of events and the CPU beside 20 of them, and the first paint of 10,000.

Users change modules in rounds, in alternation without any page and with 20 that are open and receive updates, so that
whatever else the machine does delays both; the clock means something only where nobody else wants the cores, the CPU
of the process in any case. The first paint is the whole answer of the page, of a made-up fleet.

Run by `python -m benchmarks.fleet_page [--kymas 300] [--rounds 8]`.
"""

import argparse
import asyncio
import statistics
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import uvloop

from benchmarks.figures import Figure, print_all
from benchmarks.fleet import _changes, _p99, _wait_until_in_sync, _wait_until_settled
from benchmarks.processes.fleet import (
    LifecycleManagerProcess,
    create_users,
    open_fleet,
    run_lifecycle_manager,
    wait_for_endpoint,
)
from benchmarks.processes.fleet_pages import load, open_pages
from http_guard import Bounds, server_for
from kyma_fleet_page.app import create_app
from kyma_local.ports import free_port
from lifecycle_manager_api import names
from tests import builders
from tests.page_sources import AnyRight, MadeUp

PAGES = 20
SQUARES = 10_000
PAINTS = 7
MAX_RATIO, MAX_SHARE, MAX_MEGABYTES, MAX_PAINT_SECONDS = 1.05, 5.0, 50.0, 0.5


def main() -> int:
    """Measure and print the figures; return 1 if a bar was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kymas", type=int, default=300)
    parser.add_argument("--modules", type=int, default=1)
    parser.add_argument("--users", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=8)
    return print_all(uvloop.run(_measure(parser.parse_args())))


async def _measure(options: argparse.Namespace) -> list[Figure]:
    paint = await _first_paint()
    async with AsyncExitStack() as stack:
        fleet, kubeconfig, folder = await stack.enter_async_context(open_fleet(options))
        port, page_port = free_port(), free_port()
        more = (f"--ui-bind-address=127.0.0.1:{page_port}",)
        manager = await stack.enter_async_context(run_lifecycle_manager(kubeconfig, port, folder, more=more))
        await _wait_until_in_sync(fleet, manager)
        await _wait_until_settled(fleet)
        await wait_for_endpoint(port)
        users = await create_users(fleet, options, port, stack)
        await _changes(fleet, users, 1)
        alone: list[float] = []
        beside: list[float] = []
        shares: dict[bool, list[float]] = {False: [], True: []}
        memory = _memory(manager)
        for _ in range(options.rounds):
            for milliseconds, number in ((alone, 0), (beside, PAGES)):
                async with open_pages(f"http://127.0.0.1:{page_port}", number):
                    cpu, began = manager.cpu_seconds(), time.perf_counter()
                    milliseconds.extend(await _changes(fleet, users, 1))
                    spent = manager.cpu_seconds() - cpu
                    shares[bool(number)].append(100 * spent / (time.perf_counter() - began))
        grown = _memory(manager) - memory
        idle = [await _idle_share(manager, page_port, number) for number in (0, PAGES)]
    for name, milliseconds in (("without pages", alone), (f"beside {PAGES}", beside)):
        print(
            f"{name}: median {statistics.median(milliseconds):.1f} ms, p99 {_p99(milliseconds):.1f}, "
            f"{len(milliseconds)} events",
            file=sys.stderr,
        )
    share = statistics.median(shares[True]) - statistics.median(shares[False])
    print(
        f"CPU while users change modules: {share:+.1f} % of a core; quiet: {idle[1] - idle[0]:+.1f} %", file=sys.stderr
    )
    ratio = _p99(beside) / _p99(alone)
    middle = statistics.median(beside) / statistics.median(alone)
    return [
        _figure(f"event_median_beside_{PAGES}_pages", "ratio", middle, MAX_RATIO),
        _figure(f"event_p99_beside_{PAGES}_pages", "ratio", ratio, MAX_RATIO),
        _figure(f"cpu_of_{PAGES}_pages", "% of a core", idle[1] - idle[0], MAX_SHARE),
        _figure(f"memory_of_{PAGES}_pages", "MB", grown, MAX_MEGABYTES),
        _figure(f"first_paint_of_{SQUARES}_kymas", "s", paint, MAX_PAINT_SECONDS),
    ]


async def _idle_share(manager: LifecycleManagerProcess, page_port: int, number: int, seconds: float = 15.0) -> float:
    """Return the CPU share of the process while the fleet is quiet and so many pages are open."""
    async with open_pages(f"http://127.0.0.1:{page_port}", number):
        cpu, began = manager.cpu_seconds(), time.perf_counter()
        await asyncio.sleep(seconds)
        return 100 * (manager.cpu_seconds() - cpu) / (time.perf_counter() - began)


def _memory(manager: LifecycleManagerProcess) -> float:
    lines = Path(f"/proc/{manager.child.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


async def _first_paint() -> float:
    """Return the seconds until the page of a large fleet is there: the least of some, since others use the cores."""
    kymas = {}
    for number in range(SQUARES):
        state = {0: "Error", 1: "Warning"}.get(number % 97, "Ready")
        module = {"name": "keda", "version": "1.0.0", "channel": "regular", "state": state}
        name = f"kyma-{number:05}"
        status = {"state": state, "modules": [module]}
        kymas[name] = builders.kyma(name, status=status, labels={names.REGION: f"region-{number % 3}"})
    port = free_port()
    app = create_app(MadeUp(kymas), AnyRight())
    server = server_for(app, "127.0.0.1", port, bounds=Bounds(connections=100))
    serving = asyncio.create_task(server.serve())
    await wait_for_endpoint(port)
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60, trust_env=False) as client:
        seconds = [(await load(client, "/"))[1] for _ in range(PAINTS)]
    server.should_exit = True
    await serving
    print("first paints:", " ".join(f"{each:.2f}" for each in seconds), "s", file=sys.stderr)
    return min(seconds)


def _figure(name: str, unit: str, value: float, most: float) -> Figure:
    return Figure(name=name, unit=unit, value=round(value, 3), bar=f"{most:g} or less", met=value <= most)


if __name__ == "__main__":
    sys.exit(main())
