"""Measures the reviews per second of the Watcher beside a bare FastAPI echo of the same bodies, and their latency.

Both servers run on one core, in turns; the load runs on another. The control plane answers at once, late, or never,
which must not affect admission.
"""

import argparse
import asyncio
import os
import ssl
import statistics
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import uvloop

from benchmarks.figures import Figure
from benchmarks.http_load.control_plane import start_control_plane
from benchmarks.http_load.load import Load, run_load
from benchmarks.http_load.reviews import review
from kyma_local.ports import free_port
from kyma_local.processes import ChildProcess, start_child
from tests.watcher_process import CA, WATCHER, ControlPlane, cpu_seconds, serving, start_watcher, write_leaf

OBJECTS = 1000
PATH = "/validate/lifecycle-manager"
BARS = {"without a change": 0.8, "with a change": 0.6}
P99_BAR = 1.5
SERVER_CORE, LOAD_CORE = 0, 1


@dataclass(frozen=True, slots=True)
class Pace:
    """Reviews at a rate."""

    context: ssl.SSLContext
    bodies: Sequence[bytes]
    seconds: float
    per_second: float

    async def run(self, port: int) -> Load:
        """Send them."""
        return await run_load(port, self.context, self.bodies, PATH, seconds=self.seconds, per_second=self.per_second)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0, help="length of each round")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each server, in turns")
    parser.add_argument(
        "--per-second", type=float, default=0.0, help="reviews per second instead of half the throughput"
    )
    parser.add_argument("--former", type=Path, help="the program skr-watcher of another version, to measure as well")
    arguments = parser.parse_args()
    os.sched_setaffinity(0, {LOAD_CORE})
    uvloop.run(measure(arguments.seconds, arguments.rounds, arguments.per_second, arguments.former))
    return 0


async def measure(seconds: float, rounds: int, per_second: float, former: Path | None) -> None:
    """Measure the throughput beside the echo, then the latency at half of the throughput."""
    context = ssl.create_default_context(cadata=CA.certificate_pem.decode())
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    bodies = {
        "without a change": [review(f"object-{number}", changed=False) for number in range(OBJECTS)],
        "with a change": [review(f"object-{number}", changed=True) for number in range(OBJECTS)],
    }
    with tempfile.TemporaryDirectory(prefix="watcher-bench-") as directory:
        folder = Path(directory)
        rates = await _throughput(folder, context, bodies, seconds, rounds)
        pace = Pace(context, bodies["with a change"], seconds, per_second or rates["with a change"] / 2)
        await _latency(folder, pace, rounds, former)


async def _throughput(
    folder: Path, context: ssl.SSLContext, bodies: dict[str, list[bytes]], seconds: float, rounds: int
) -> dict[str, float]:
    control_plane = ControlPlane()
    rates: dict[str, list[float]] = {name: [] for name in ("echo", *bodies)}
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(serving(control_plane, folder))
        watcher = await start_watcher(stack, folder, control_plane.port, {})
        echo, echo_port = await _start_echo(stack, folder)
        for process in (watcher.process, echo):
            _pin(process)
        for _ in range(rounds):
            rates["echo"].append(await _rate(echo, echo_port, context, bodies["with a change"], seconds))
            for name, some in bodies.items():
                rates[name].append(await _rate(watcher.process, watcher.admission_port, context, some, seconds))
        counted = await watcher.metrics()
        print(
            f"shed {counted['watcher_admission_request_shed_total']:.0f}, {watcher.peak_megabytes()} MB",
            file=sys.stderr,
        )
    medians = {name: statistics.median(some) for name, some in rates.items()}
    for name, bar in BARS.items():
        Figure(
            name=f"watcher_reviews_{name.replace(' ', '_')}",
            unit="1/s of one core",
            value=round(medians[name]),
            peer="bare FastAPI echo",
            peer_value=round(medians["echo"]),
            bar=f"at least {bar} of the peer",
            met=medians[name] >= bar * medians["echo"],
        ).print()
    return medians


async def _rate(
    process: ChildProcess, port: int, context: ssl.SSLContext, bodies: Sequence[bytes], seconds: float
) -> float:
    """Return the answers per second of the server's CPU time, which does not depend on other processes."""
    before = cpu_seconds(process.pid)
    load = await run_load(port, context, bodies, PATH, seconds=seconds)
    assert not load.failures
    return len(load.latencies) / (cpu_seconds(process.pid) - before)


async def _latency(folder: Path, pace: Pace, rounds: int, former: Path | None) -> None:
    """Measure echo and Watcher in turns, since what else runs on the machine changes within seconds."""
    for name, delay in (("in 0 ms", 0.0), ("in 100 ms", 0.1), ("in 5000 ms", 5.0), ("never", None)):
        loads: dict[str, list[Load]] = {"echo": [], "watcher": [], "former": []}
        for _ in range(rounds):
            loads["echo"].append(await _paced_echo(folder, pace))
            loads["watcher"].append(await _paced(folder, pace, delay, WATCHER))
            if former is not None:
                loads["former"].append(await _paced(folder, pace, delay, former))
        p99 = {who: _p99(some) for who, some in loads.items() if some}
        if former is not None:
            print(f"{name}: {p99}, rounds {_all_p99(loads)}", file=sys.stderr)
        Figure(
            name=f"watcher_admission_p99_kcp_answers_{name.replace(' ', '_')}",
            unit="ms",
            value=p99["watcher"],
            peer=f"bare FastAPI echo, also at {pace.per_second:.0f}/s, in turns",
            peer_value=p99["echo"],
            bar=f"at most {P99_BAR:g} of the peer",
            met=p99["watcher"] <= P99_BAR * p99["echo"] and not any(load.failures for load in loads["watcher"]),
        ).print()


def _p99(loads: Sequence[Load]) -> float:
    return round(statistics.median(load.quantile_ms(0.99) for load in loads), 2)


def _all_p99(loads: dict[str, list[Load]]) -> dict[str, list[float]]:
    return {who: [round(load.quantile_ms(0.99), 2) for load in some] for who, some in loads.items()}


async def _paced_echo(folder: Path, pace: Pace) -> Load:
    async with AsyncExitStack() as stack:
        echo, port = await _start_echo(stack, folder)
        _pin(echo)
        return await pace.run(port)


async def _paced(folder: Path, pace: Pace, delay: float | None, program: Path) -> Load:
    async with AsyncExitStack() as stack:
        port = await start_control_plane(stack, folder, delay)
        watcher = await start_watcher(stack, folder, port, {"DRAIN_SECONDS": "0.1"}, program=(str(program),))
        _pin(watcher.process)
        return await pace.run(watcher.admission_port)


@asynccontextmanager
async def _stopping(process: ChildProcess) -> AsyncIterator[ChildProcess]:
    try:
        yield process
    finally:
        await process.kill()


async def _start_echo(stack: AsyncExitStack, folder: Path) -> tuple[ChildProcess, int]:
    cert, key = write_leaf(folder, "echo")
    port = free_port()
    command = (sys.executable, "-m", "benchmarks.http_load.echo", str(port), str(cert), str(key))
    process = await start_child("echo", command, folder / "echo.log", dict(os.environ))
    await stack.enter_async_context(_stopping(process))
    async with asyncio.timeout(20):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.05)
            else:
                writer.close()
                return process, port


def _pin(process: ChildProcess) -> None:
    os.sched_setaffinity(process.pid, {SERVER_CORE})


if __name__ == "__main__":
    sys.exit(main())
