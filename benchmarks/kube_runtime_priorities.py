"""How much each mechanism contributes by which urgent keys get past a resync of everything.

One process, three controllers, 3,000 keys each that are added again as soon as they are reconciled. A thread writes
into a pipe now and then; the event loop reads that and enqueues a key, as it does with a line of a watch. Measured is
the CPU time that the loop's thread uses from the write, so that it does not matter who
else wants the core, to the end of the reconcile. The 99th percentile of all changes counts.

- `busy`: reconciles compute for 0.2 ms between three awaits that are done at once
- `remote`: reconciles compute for 0.2 ms between three answers that take 5 to 20 ms
- `silent`: reconciles of the resync take 1 s; here, the time by the clock until the reconcile of a change begins

Each variant leaves some mechanisms out; they take turns, and the median of the rounds counts.

Run by `python -m benchmarks.kube_runtime_priorities [--rounds 3] [--changes 100]`.
"""

import argparse
import asyncio
import os
import random
import statistics
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import uvloop

from benchmarks.figures import Figure
from kube_runtime import Causes, Priority, Result
from kube_runtime.controller.options import ControllerOptions
from kube_runtime.controller.shared_limit import MAX_UNDER_WAY, SharedLimit
from kube_runtime.controller.workers import Workers

KEYS = 3_000
CONTROLLERS = 3
CONCURRENCY = 50
COMPUTE_SECONDS = 0.0002
EVERY_SECONDS = 0.01

Options = dict[str, Any]
VARIANTS: dict[str, Options] = {
    "all": {},
    "without limit": {"is_limited": False, "event_workers": 12},
    "without reserved workers": {"reserved_workers": 0},
    "without event workers": {"event_workers": 0},
    "only reserved workers": {"is_limited": False, "event_workers": 0},
    "none": {"is_limited": False, "event_workers": 0, "reserved_workers": 0},
}


def main() -> int:
    """Measure and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--changes", type=int, default=100)
    parser.add_argument("--peers", action=argparse.BooleanOptionalAction, default=True, help="changes nothing here")
    options = parser.parse_args()
    measured: dict[tuple[str, str, Priority], list[float]] = {}
    for _ in range(options.rounds):
        for scenario, priority in [(s, p) for s in SCENARIOS for p in (Priority.EVENT, Priority.CHANGE)]:
            for variant, given in VARIANTS.items():
                run = _Run(scenario, priority, given, options.changes if scenario != "silent" else 10)
                measured.setdefault((scenario, variant, priority), []).append(uvloop.run(run.measure()))
    for (scenario, variant, priority), values in measured.items():
        value = statistics.median(values)
        peer = statistics.median(measured[scenario, "all", priority])
        name = f"kube_runtime_priorities_{scenario}_{priority.name.lower()}"
        Figure(name=name, unit=f"ms, {variant}", value=value, peer="all", peer_value=peer, bar="none", met=True).print()
    return 0


def _compute() -> None:
    end = time.thread_time() + COMPUTE_SECONDS
    while time.thread_time() < end:
        pass


async def _busy(urgent: bool) -> None:
    for _ in range(3):
        _compute()
        await asyncio.sleep(0)


async def _remote(urgent: bool) -> None:
    for _ in range(3):
        _compute()
        await asyncio.sleep(random.uniform(0.005, 0.02))  # noqa: S311 - no secret


async def _silent(urgent: bool) -> None:
    await asyncio.sleep(0.001 if urgent else 1.0)


SCENARIOS: dict[str, Callable[[bool], Awaitable[None]]] = {"busy": _busy, "remote": _remote, "silent": _silent}


class _Run:
    """One variant in one scenario."""

    def __init__(self, scenario: str, priority: Priority, options: Options, changes: int) -> None:
        self._work = SCENARIOS[scenario]
        self._by_clock = scenario == "silent"
        self._priority = priority
        self._changes = changes
        given = ControllerOptions(**{"concurrency": CONCURRENCY, "is_limited": True, **options})
        limit = SharedLimit(MAX_UNDER_WAY)
        self._controllers = [
            Workers(f"controller-{number}", self._reconcile, given, limit=limit) for number in range(CONTROLLERS)
        ]
        self._began: dict[int, float] = {}
        self._sent: dict[int, float] = {}
        self._done = asyncio.Event()

    async def measure(self) -> float:
        """Return the 99th percentile, in ms."""
        loop = asyncio.get_running_loop()
        self._clock_id = time.pthread_getcpuclockid(threading.get_ident())
        read, write = os.pipe()
        loop.add_reader(read, self._arrived, read)
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(each.run()) for each in self._controllers]
            for each in self._controllers:
                for key in range(KEYS):
                    each.queue.add(key, Priority.RESYNC)
            await asyncio.sleep(0.5)
            await asyncio.to_thread(self._send, write)
            await self._done.wait()
            for task in running:
                task.cancel()
        loop.remove_reader(read)
        os.close(read)
        os.close(write)
        return _p99([self._began[number] - self._sent[number] for number in self._sent]) * 1000

    def _now(self) -> float:
        return time.monotonic() if self._by_clock else time.clock_gettime(self._clock_id)

    def _send(self, write: int) -> None:
        for number in range(self._changes):
            time.sleep(random.uniform(0.5, 1.5) * EVERY_SECONDS)  # noqa: S311 - no secret
            self._sent[number] = self._now()
            os.write(write, number.to_bytes(4, "big"))

    def _arrived(self, read: int) -> None:
        arrived = os.read(read, 4096)
        for start in range(0, len(arrived), 4):
            number = int.from_bytes(arrived[start : start + 4], "big")
            self._controllers[number % CONTROLLERS].queue.add(-1 - number, self._priority)

    async def _reconcile(self, key: int, _causes: Causes) -> Result:
        urgent = key < 0
        if urgent and self._by_clock:
            self._began[-1 - key] = self._now()
        await self._work(urgent)
        if urgent:
            self._began.setdefault(-1 - key, self._now())
            if len(self._began) == self._changes:
                self._done.set()
            return Result()
        return Result(requeue_after=0.001)


def _p99(values: list[float]) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[-1]


if __name__ == "__main__":
    sys.exit(main())
