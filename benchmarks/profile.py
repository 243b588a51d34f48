"""Shows where the time goes: `python -m benchmarks.profile end_to_end|sync_resource|fleet`, or `make profile ONLY=...`.

Writes a flame graph (SVG, of the time on a CPU) for each program into .local/profile/<what>/, and prints the packages
that the time was spent in. `end_to_end` also prints the hops of one change, and what their time was spent on.
"""

import argparse
import asyncio
import itertools
import os
import statistics
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks.profiling.flame_graph import Recording, SamplingFailed, record, shares_by_package
from benchmarks.profiling.hops import LAST_HOP, ON_PATH, Changes, measure_changes

FOLDER = Path(".local/profile")
LOADS = {
    "sync_resource": ("sync_resource_throughput", "--clusters=4", "--resources=400"),
    "fleet": ("fleet", "--kymas=300", "--users=5", "--quiet-seconds=10"),
}
PROGRAM = ("klm", "run")  # the end of the path of the program, and its first argument
MIN_SHARE = 0.01
LOOK_SECONDS = 0.2


def main() -> int:
    """Profile, print the tables and write the flame graphs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("end_to_end", *LOADS))
    parser.add_argument("--changes", type=int, default=50, help="number of changes to account for (end_to_end)")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long to sample (end_to_end)")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    options = parser.parse_args()
    folder = options.folder / options.what
    folder.mkdir(parents=True, exist_ok=True)
    for earlier in folder.glob("*.svg"):
        earlier.unlink()
    console = Console()
    try:
        if options.what == "end_to_end":
            with TemporaryDirectory(prefix="profile-") as temporary:
                changes = asyncio.run(measure_changes(options.changes, options.seconds, Path(temporary), folder))
            print_hops(changes, console)
            (folder / "changes.json").write_bytes(msgspec.json.format(msgspec.json.encode(_plain(changes))))
        else:
            asyncio.run(_load(LOADS[options.what], folder))
    except SamplingFailed as error:
        print(error, file=sys.stderr)
        return 1
    for svg in sorted(folder.glob("*.svg")):
        print_packages(svg, console)
    return 0


async def _load(command: tuple[str, ...], folder: Path) -> None:
    """Run a benchmark, and sample each Lifecycle Manager that it starts until that ends."""
    benchmark = await asyncio.create_subprocess_exec(sys.executable, "-m", f"benchmarks.{command[0]}", *command[1:])
    recordings: dict[int, Recording] = {}
    while benchmark.returncode is None:
        for pid in _started_by(benchmark.pid):
            if pid not in recordings:
                recordings[pid] = await record(f"lifecycle-manager-{len(recordings) + 1}", pid, folder)
        await asyncio.wait({asyncio.ensure_future(benchmark.wait())}, timeout=LOOK_SECONDS)
    for recording in recordings.values():
        await recording.stop()


def _started_by(parent: int) -> list[int]:
    """Return the Lifecycle Managers among the children of a process."""
    found = []
    for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split():
        command = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
        if any((Path(a).name, b) == PROGRAM for a, b in itertools.pairwise(command)):
            found.append(int(pid))
    return found


def print_hops(changes: Changes, console: Console) -> None:
    """Print the hops of a change, what the time was spent on, and the requests of a change."""
    total = statistics.median(changes.totals)
    console.print(f"one change: median {total:.1f} ms; the same requests back to back: {changes.floor:.1f} ms")
    console.print(f"load average of this machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    hops = {hop: statistics.median(times) for hop, times in changes.hops.items()}
    _print_shares(f"hop (median of {len(changes.hops[LAST_HOP])} changes)", hops, console)
    _print_shares("spent on (mean)", changes.spent(), console)
    _print_shares("CPU of (mean)", {name: statistics.mean(each) for name, each in changes.cpu.items()}, console)
    table = Table("cluster", "verb", "resource", "requests a change", "ms each", "waited for", box=None)
    for request, handled in sorted(changes.requests.items(), key=lambda item: -item[1].count):
        a_change = handled.count / len(changes.totals)
        if a_change >= 0.1:
            cluster, verb, resource, subresource = request
            name = f"{resource}/{subresource}" if subresource else resource
            waited = "yes" if request in ON_PATH else ""
            table.add_row(
                cluster, verb, name, f"{a_change:.1f}", f"{1000 * handled.seconds / handled.count:.1f}", waited
            )
    console.print(table)


def print_packages(svg: Path, console: Console) -> None:
    """Print the packages that the samples of a flame graph were in."""
    shares = shares_by_package(svg.read_text())
    table = Table(str(svg), "share of the CPU", box=None)
    for package, share in shares.items():
        if share >= MIN_SHARE:
            table.add_row(package, f"{100 * share:.0f} %")
    console.print(table)


def _print_shares(heading: str, milliseconds: dict[str, float], console: Console) -> None:
    table = Table(heading, "ms", "share", box=None)
    whole = sum(milliseconds.values())
    for name, each in milliseconds.items():
        table.add_row(name, f"{each:.1f}", f"{100 * each / whole:.0f} %" if whole else "")
    console.print(table)


def _plain(changes: Changes) -> dict[str, object]:
    return {
        "totals_ms": changes.totals,
        "hops_ms": dict(changes.hops),
        "cpu_ms": dict(changes.cpu),
        "floor_ms": changes.floor,
        "spent_ms": changes.spent(),
    }


if __name__ == "__main__":
    sys.exit(main())
