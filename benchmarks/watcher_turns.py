"""Measures how long a turn of the Watcher's event loop takes while it admits changes and delivers their events.

Admission runs beside the loop's turns, so a long turn delays every request that arrives in it. The control plane is a
process of its own, and answers at once, late, or never.
"""

import argparse
import ssl
import sys
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec
import uvloop

from benchmarks.figures import Figure
from benchmarks.http_load.control_plane import start_control_plane
from benchmarks.http_load.load import run_load
from benchmarks.http_load.reviews import review
from benchmarks.http_load.turns import Turns
from benchmarks.watcher_admission import OBJECTS, PATH
from tests.watcher_process import CA, start_watcher

BAR_MS = 3.0
ANSWERS = (("at once", 0.0), ("in 100 ms", 0.1), ("in 5 s", 5.0), ("never", None))


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0, help="length of each measurement")
    parser.add_argument("--per-second", type=float, default=500.0, help="reviews per second")
    parser.add_argument("--table", action="store_true", help="also print what took the longest turns")
    arguments = parser.parse_args()
    uvloop.run(measure(arguments.seconds, arguments.per_second, table=arguments.table))
    return 0


async def measure(seconds: float, per_second: float, *, table: bool) -> None:
    """Measure for each kind of control plane."""
    context = ssl.create_default_context(cadata=CA.certificate_pem.decode())
    bodies = [review(f"object-{number}", changed=True) for number in range(OBJECTS)]
    for name, delay in ANSWERS:
        with tempfile.TemporaryDirectory(prefix="watcher-bench-") as directory:
            turns = await _turns(Path(directory), context, bodies, delay, seconds=seconds, per_second=per_second)
        Figure(
            name=f"watcher_loop_turn_kcp_answers_{name.replace(' ', '_')}",
            unit="ms of CPU",
            value=round(turns.max_ms, 2),
            peer=f"the 99th percentile of {turns.count} turns with work",
            peer_value=turns.p99_ms,
            bar=f"at most {BAR_MS:g}",
            met=turns.max_ms <= BAR_MS,
        ).print()
        if table:
            print("  total ms:", turns.total_ms, file=sys.stderr)
            for turn in turns.longest[:12]:
                print(f"  {turn.milliseconds:7.2f} ms at {turn.at_seconds:5.2f} s: {turn.parts}", file=sys.stderr)


async def _turns(
    folder: Path,
    context: ssl.SSLContext,
    bodies: list[bytes],
    delay: float | None,
    *,
    seconds: float,
    per_second: float,
) -> Turns:
    result = folder / "turns.json"
    async with AsyncExitStack() as stack:
        port = await start_control_plane(stack, folder, delay)
        watcher = await start_watcher(
            stack,
            folder,
            port,
            {"DRAIN_SECONDS": "0.1"},
            program=(sys.executable, "-m", "benchmarks.http_load.turns", str(result)),
        )
        await run_load(watcher.admission_port, context, bodies, PATH, seconds=seconds, per_second=per_second)
        await watcher.process.stop()
    return msgspec.json.decode(result.read_bytes(), type=Turns)


if __name__ == "__main__":
    sys.exit(main())
