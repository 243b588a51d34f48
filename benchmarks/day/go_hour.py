"""Drives this Lifecycle Manager and the one in Go through the busiest hour of a day, one after the other.

Both get the same fleet, script and seed: users add and remove a module, clusters join and leave, a module is released
for all, a mandatory one as well, a region can't be reached, the API server and the program are restarted. A change is
timed from the user's write to the status of the Kyma in the cluster. GO_LIFECYCLE_MANAGER names the Go version, see
docs/migration.md; without it nothing is measured.

    GO_LIFECYCLE_MANAGER=… python -m benchmarks.day.go_hour [--kymas 200] [--speed 6]
"""

import argparse
import asyncio
import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import uvloop

from benchmarks.day import actions
from benchmarks.day.clock import Action, Clock
from benchmarks.day.documents import region_of
from benchmarks.day.judging import Change, Delays, by_span, delays_of
from benchmarks.day.population import Population
from benchmarks.day.script import BUSY_HOUR, HOUR
from benchmarks.go_lifecycle_manager import (
    ADDED,
    CHOSEN,
    MODULES,
    SETTLE_SECONDS,
    FleetContext,
    Site,
    Version,
    await_kymas,
    open_site,
    run_go,
    run_ours,
    versions_of,
)
from benchmarks.processes.fleet import run_controlled
from benchmarks.processes.fleet_documents import Document
from kyma_local.waiting import eventually
from tests.takeover_from_go import modules, surroundings
from tests.takeover_from_go.audit import AuditLog
from tests.takeover_from_go.modules import GoModule
from tests.takeover_from_go.program import PROGRAM

MANDATORY = GoModule(name="warden", is_mandatory=True, config_maps=3)
CATALOG = (*MODULES, ADDED, MANDATORY)
LOST_SECONDS = 330.0
"""After which a change that is not in force is lost: the interval of the Go version, and more."""
WATCHED = ("--watcher-silence=58s", "--watcher-canary-interval=2m", "--watcher-canary-timeout=15s")
"""The defaults, since Watchers run in these clusters."""


@dataclass(eq=False, kw_only=True)
class HourStage(Population):
    """The user clusters of an hour, and which version manages them. `restarts`: one at a time, on a busy machine."""

    version: Version
    restarts: asyncio.Lock = field(default_factory=asyncio.Lock)

    def kyma_of(self, name: str, number: int) -> Document:
        """Return the Kyma of a cluster that joins."""
        return surroundings.kyma_of(name, CHOSEN, {"kyma-project.io/region": region_of(number)})


@dataclass(frozen=True, kw_only=True)
class Hour:
    """What an hour of a version came to: users' changes by what else went on, and what it used."""

    changes: dict[str, Delays]
    lost: list[Document]
    happened: list[Document]
    cpu: float
    memory: float
    kcp: dict[str, int]
    skr: dict[str, int]


def main() -> int:
    """Measure both versions and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kymas", type=int, default=200)
    parser.add_argument("--speed", type=float, default=6.0, help="how many hours pass in one")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if not os.environ.get(PROGRAM):
        print(f"{PROGRAM} is not set: give the Lifecycle Manager in Go, see docs/migration.md", file=sys.stderr)
        return 2
    ours = uvloop.run(_measure(options, lambda site, stack: run_ours(site, stack, WATCHED)))
    go = uvloop.run(_measure(options, run_go))
    print("\n".join(table(go, ours)))
    return 0


async def release(stage: HourStage, module: GoModule = MODULES[0]) -> dict[str, Any]:
    """Release a version of a module for all; wait until all clusters that can be reached have it."""
    await surroundings.apply(stage.kcp, module.release_meta(regular=modules.NEW), "modulectl")
    await _until_installed(stage, module, modules.NEW)
    return {}


async def upgrade_mandatory(stage: HourStage) -> dict[str, Any]:
    """Raise the version of the mandatory module."""
    return await release(stage, MANDATORY)


async def region_unreachable(stage: HourStage, minutes: float) -> dict[str, Any]:
    """Let a region answer nothing for some minutes."""
    cut = (await stage.fleet.do("cut_off", region=region_of(5)))["cut_off"]
    await stage.pause(minutes)
    await stage.fleet.do("reconnect")
    return {"clusters": len(cut)}


async def restart_program(stage: HourStage) -> dict[str, Any]:
    """Restart the Lifecycle Manager in order."""
    async with stage.restarts:
        await stage.version.restart()
    return {}


async def restart_api_server(stage: HourStage) -> dict[str, Any]:
    """Restart the API server of the control plane."""
    async with stage.restarts:
        return await actions.restart_api_server(stage)


ACTIONS: Mapping[str, Action] = {
    each.__name__: each
    for each in (
        actions.joins,
        actions.leaves,
        release,
        upgrade_mandatory,
        region_unreachable,
        restart_api_server,
        restart_program,
    )
}


async def _measure(options: argparse.Namespace, run: Callable[[Site, AsyncExitStack], Awaitable[Version]]) -> Hour:
    def clusters_of(folder: Path, port: int) -> FleetContext:
        given = [f"--folder={folder}", f"--port={port}", f"--seed={options.seed}", f"--module={ADDED.name}"]
        given += ["--go"] if run is run_go else []
        return run_controlled("hour_clusters", *given, package="benchmarks.day")

    async with open_site(CATALOG, [], clusters_of) as site, AsyncExitStack() as stack:
        version = await run(site, stack)
        stage = HourStage(
            clusters=site.clusters,
            kcp=site.kcp,
            fleet=site.fleet,
            chance=random.Random(options.seed),  # noqa: S311 - the same hour each time
            speed=options.speed,
            of_modules=tuple(each.name for each in CATALOG),
            version=version,
        )
        began = time.monotonic()
        await stage.join(options.kymas)
        await await_kymas(site, lambda kyma: versions_of(kyma).items() >= dict.fromkeys(CHOSEN, modules.OLD).items())
        await _until_installed(stage, MANDATORY, modules.OLD)
        print(f"{version.name}: all clusters are ready after {time.monotonic() - began:.0f} s", file=sys.stderr)
        await asyncio.sleep(SETTLE_SECONDS)
        hour = await _drive(site, stage)
    print(json.dumps({version.name: asdict(hour)}), file=sys.stderr, flush=True)
    return hour


async def _drive(site: Site, stage: HourStage) -> Hour:
    clock = Clock(stage, begin=BUSY_HOUR, hours=1.0, speed=stage.speed, script=HOUR, actions=ACTIONS)
    audit, before = AuditLog.of(site.clusters.kcp), Counter(await stage.fleet.do("counts"))
    cpu = stage.version.cpu_seconds()
    await clock.run()
    lost = await clock.wait_for_pending(LOST_SECONDS)
    lines = (site.folder / "changes.jsonl").read_text().splitlines()
    changes = [Change(**json.loads(line)) for line in lines]
    alone = [each for each in changes if not any(span.meets(each) for span in clock.spans)]
    return Hour(
        changes={
            "all": delays_of([each.seconds for each in changes]),
            "nothing else": delays_of([each.seconds for each in alone]),
            **by_span(changes, clock.spans),
        },
        lost=lost,
        happened=clock.happened,
        cpu=stage.version.cpu_seconds() - cpu,
        memory=stage.version.peak_memory(),
        kcp=dict(Counter(each["verb"] for each in audit.requests(stage.version.agent))),
        skr=dict(Counter(await stage.fleet.do("counts")) - before),
    )


async def _until_installed(stage: HourStage, module: GoModule, version: str) -> None:
    async def is_installed() -> bool:
        lacking = (await stage.fleet.do("lacking", module=module.name, version=version))["lacking"]
        return stage.joined.isdisjoint(lacking)  # those that leave don't get it any more

    await eventually(is_installed, every=0.5)


def table(go: Hour, ours: Hour) -> Iterator[str]:
    """Yield the lines of a table of both hours, in Markdown."""
    yield "| | Go | here |"
    yield "|---|---|---|"
    for name in dict.fromkeys([*ours.changes, *go.changes]):
        yield _row(f"{name}: changes; p50; p99; worst", *(_shown(each.changes.get(name)) for each in (go, ours)))
    yield _row("changes lost", len(go.lost), len(ours.lost))
    yield _row("CPU; most memory", *(f"{each.cpu:.1f} s; {each.memory:.0f} MB" for each in (go, ours)))
    for what in ("kcp", "skr"):
        theirs, own = getattr(go, what), getattr(ours, what)
        for verb in sorted({*theirs, *own}):
            yield _row(f"{what.upper()} {verb}", theirs.get(verb, 0), own.get(verb, 0))
    done = [{entry["does"]: entry for entry in each.happened} for each in (go, ours)]
    for name in done[0]:
        yield _row(name, *(each[name].get("failed", f"{each[name]['seconds']:.1f} s") for each in done))


def _shown(delays: Delays | None) -> str:
    if delays is None:
        return "none"
    return f"{delays.count}; {delays.p50:.2f} s; {delays.p99:.2f} s; {delays.worst:.1f} s"


def _row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


if __name__ == "__main__":
    sys.exit(main())
