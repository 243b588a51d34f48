"""Edits Module CRs for some time, and fails if memory, open files or the time of a change keep growing.

The clusters are real API servers; Lifecycle Manager, Module Manager and Watcher are processes of their own, started as
in the demo. Users edit Module CRs without a pause, each edit after the previous one of its Module CR is in force. Every
few seconds the resident memory and the open files of each process are read, with the p99 of the edits since then.

A trend is the Theil-Sen slope of the samples after the warm-up: the median of the slopes of all pairs, which neither a
burst of the machine nor a single garbage collection changes. The warm-up is the first third; that of the memory lasts
until there were WARM_UP_EDITS, where the second third has them: what fills, fills by edits. The limits:

- memory: MAX_KB_AN_EDIT, and only if it adds up to MIN_GROWTH_MB, since the allocator takes memory in pieces of 1 MB.
  At this limit a cluster that is edited 10,000 times a day takes 2.5 MB of a process until its next update.
- open files: MAX_FILES more at the end than at the start. Connections come and go; a leak of one in a hundred edits
  shows in five minutes.
- time of a change: p99 at the end at most MAX_P99_GROWTH above that at the start, by the slope.

Run by `python -m benchmarks.soak [--seconds 300] [--module-crs 30] [--users 4]`; an hour is `--seconds 3600`.
"""

import argparse
import asyncio
import itertools
import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import uvloop

from benchmarks.figures import Figure, print_all
from kyma_demo import names
from kyma_demo.environment import infrastructure, open_environment
from kyma_demo.programs import Programs
from kyma_demo.user import INFRASTRUCTURES
from kyma_demo.walkthrough import Walkthrough

PROGRAMS = ("lifecycle-manager", "module-manager", "skr-watcher")
WARM_UP_EDITS = 8_000
MAX_KB_AN_EDIT = 0.25
MIN_GROWTH_MB = 1.0
MAX_FILES = 3.0
MAX_P99_GROWTH = 0.5
WITHIN_SECONDS = 60.0
PAGE_KB = 4


@dataclass(frozen=True, slots=True)
class Sample:
    """One moment: seconds since the start, edits so far, p99 of the latest edits, and of each program RSS and files."""

    seconds: float
    edits: int
    p99_ms: float
    rss_kb: tuple[int, ...]
    files: tuple[int, ...]


@dataclass(slots=True)
class Edits:
    """The edits so far; `recent` has the milliseconds of those since the last sample."""

    total: int = 0
    recent: list[float] = field(default_factory=list)


def main() -> int:
    """Edit for some time, print the samples and the figures; return 1 if something keeps growing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--module-crs", type=int, default=30)
    parser.add_argument("--users", type=int, default=4, help="number of edits at the same time")
    parser.add_argument("--interval", type=float, default=5.0, help="seconds between two samples")
    samples = uvloop.run(_soak(parser.parse_args()))
    return print_all(evaluate(samples))


def evaluate(samples: Sequence[Sample]) -> list[Figure]:
    """Return the trends of the samples after the warm-up, each with its limit."""
    third = len(samples) // 3
    filled = sum(sample.edits < WARM_UP_EDITS for sample in samples)
    last = samples[third:]
    steady = samples[filled:] if third < filled <= 2 * third else last
    edits, filled_edits = ([float(sample.edits) for sample in some] for some in (last, steady))
    made, filled_made = edits[-1] - edits[0], filled_edits[-1] - filled_edits[0]
    memory_bar = f"{MAX_KB_AN_EDIT:g} or less, or under {MIN_GROWTH_MB:g} MB in all"
    figures = []
    for index, program in enumerate(PROGRAMS):
        memory = slope(filled_edits, [sample.rss_kb[index] for sample in steady])
        files = slope(edits, [sample.files[index] for sample in last]) * made
        grows = memory > MAX_KB_AN_EDIT and memory * filled_made / 1024 > MIN_GROWTH_MB
        figures += [
            _figure(f"soak_memory_{program}", "kB an edit", memory, memory_bar, met=not grows),
            _figure(f"soak_files_{program}", "more files", files, f"{MAX_FILES:g} or less", met=files <= MAX_FILES),
        ]
    p99 = [sample.p99_ms for sample in last]
    growth = slope([sample.seconds for sample in last], p99) * (last[-1].seconds - last[0].seconds)
    share = growth / max(statistics.median(p99) - growth / 2, 1.0)  # of the p99 at the start of the line
    return [
        *figures,
        _figure("soak_p99_growth", "of the p99", share, f"{MAX_P99_GROWTH:g} or less", met=share <= MAX_P99_GROWTH),
    ]


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Return the Theil-Sen slope: the median of the slopes of all pairs of points; 0 without two points."""
    points = zip(x, y, strict=True)
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in itertools.combinations(points, 2) if a[0] != b[0]]
    return statistics.median(slopes) if slopes else 0.0


async def _soak(options: argparse.Namespace) -> list[Sample]:
    with TemporaryDirectory(prefix="soak-") as folder:
        async with open_environment(Path(folder), None, None) as environment, AsyncExitStack() as stack:
            walkthrough = Walkthrough(environment, Programs(environment, stack))
            async with asyncio.TaskGroup() as tasks:
                running = [tasks.create_task(walkthrough.object_watcher.run())]
                await walkthrough.set_up()
                await walkthrough.object_watcher.ready(WITHIN_SECONDS)
                owners = await _create(walkthrough, options.module_crs)
                edits = Edits()
                shares = [owners[number :: options.users] for number in range(options.users)]
                running += [tasks.create_task(_edit(walkthrough, share, edits)) for share in shares if share]
                samples = await _sample(walkthrough.programs, edits, options)
                for task in running:
                    task.cancel()
    return samples


async def _create(walkthrough: Walkthrough, count: int) -> list[str]:
    owners = [f"soak-{number}" for number in range(count)]
    for owner in owners:
        document = infrastructure(owner, {"media": "1Gi"}, {})
        await walkthrough.environment.skr.create(
            INFRASTRUCTURES, document, names.SKR_NAMESPACE, field_manager=names.USER
        )
    for owner in owners:
        await _wait_for(walkthrough, owner, "1Gi")
    return owners


async def _edit(walkthrough: Walkthrough, owners: Sequence[str], edits: Edits) -> None:
    """Edit Module CRs one after the other, until cancelled."""
    for number, owner in enumerate(itertools.cycle(owners), start=2):
        capacity = f"{number}Gi"
        patch = {"spec": infrastructure("", {"media": capacity}, {})["spec"]}
        began = time.perf_counter()
        await walkthrough.environment.skr.merge_patch(
            INFRASTRUCTURES, owner, patch, names.SKR_NAMESPACE, field_manager=names.USER
        )
        await _wait_for(walkthrough, owner, capacity)
        edits.total += 1
        edits.recent.append((time.perf_counter() - began) * 1000)


async def _wait_for(walkthrough: Walkthrough, owner: str, capacity: str) -> None:
    await walkthrough.object_watcher.wait_for(
        f"{owner}-nfs-media",
        lambda found: found is not None and found["data"].get("capacity") == capacity,
        within=WITHIN_SECONDS,
    )


async def _sample(programs: Programs, edits: Edits, options: argparse.Namespace) -> list[Sample]:
    """Sample until the time is over; print each sample."""
    print("seconds edits p99_ms  RSS in MB and open files of " + ", ".join(PROGRAMS), file=sys.stderr)
    processes = [Path(f"/proc/{programs.running[name].pid}") for name in PROGRAMS]
    began, samples = time.perf_counter(), list[Sample]()
    while time.perf_counter() - began < options.seconds:
        await asyncio.sleep(options.interval)
        if ended := await programs.ended():
            raise RuntimeError(ended)
        recent, edits.recent = edits.recent, []
        if not recent:
            continue
        sample = Sample(
            time.perf_counter() - began,
            edits.total,
            sorted(recent)[int(0.99 * (len(recent) - 1))],
            tuple(int((process / "statm").read_text().split()[1]) * PAGE_KB for process in processes),
            tuple(len(list((process / "fd").iterdir())) for process in processes),
        )
        samples.append(sample)
        memory = "  ".join(f"{kb / 1024:.1f} {files}" for kb, files in zip(sample.rss_kb, sample.files, strict=True))
        print(f"{sample.seconds:6.0f} {sample.edits:6} {sample.p99_ms:6.0f}  {memory}", file=sys.stderr, flush=True)
    return samples


def _figure(name: str, unit: str, value: float, bar: str, *, met: bool) -> Figure:
    return Figure(name=name, unit=unit, value=round(value, 3), bar=bar, met=met)


if __name__ == "__main__":
    sys.exit(main())
