"""One Lifecycle Manager with a fleet: 10,000 Kymas with 5 modules each, every cluster simulated in another process.

What is measured, in this order: how long a new fleet takes until all of it is in sync; how long a process that is
started anew needs to look at an unchanged fleet, and whether it writes; how much CPU the quiet fleet costs; how soon a
user's change becomes a Manifest, from the write in the cluster, while the fleet is looked at for the first time and
while a tenth of the clusters take connections and never answer; whom a channel's new version wakes.

Run by `python -m benchmarks.fleet [--kymas 10000] [--modules 5]`. It takes about twenty minutes with the
full fleet.
"""

import argparse
import asyncio
import json
import statistics
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import uvloop

from benchmarks.figures import Figure
from benchmarks.fleet_cast import (
    PATIENCE_SECONDS,
    Answer,
    FleetProgram,
    Manager,
    User,
    fleet_program,
    listening,
    module_layers,
    running_manager,
    users_of,
)
from benchmarks.simulated.fleet import MODULES, VERSIONS
from kyma_local.ports import free_port
from kyma_local.processes import tail

POLL_SECONDS = 5.0  # each look costs the simulated control plane a list of all Kymas


def main() -> int:
    """Measure and print the figures; return 1 where a bar was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kymas", type=int, default=10_000)
    parser.add_argument("--modules", type=int, default=5)
    parser.add_argument("--users", type=int, default=40, help="clusters whose users change something")
    parser.add_argument("--quiet-seconds", type=float, default=60.0)
    figures = uvloop.run(_measure(parser.parse_args()))
    for figure in figures:
        figure.print()
    return 0 if all(figure.met for figure in figures) else 1


async def _measure(options: argparse.Namespace) -> list[Figure]:
    figures: list[Figure] = []
    with TemporaryDirectory(prefix="fleet-") as text:
        folder = Path(text)
        async with AsyncExitStack() as stack:
            layers = await stack.enter_async_context(module_layers(folder))
            fleet = await stack.enter_async_context(fleet_program(options, layers))
            kubeconfig = folder / "kcp.kubeconfig"
            kubeconfig.write_text(json.dumps(fleet.kubeconfig))
            port = free_port()

            began = time.perf_counter()
            async with running_manager(kubeconfig, port, folder) as manager:
                await _in_sync(fleet, manager)
                seconds = time.perf_counter() - began
                await _settled(fleet)
                figures.append(_figure("fleet_start", "s", seconds, "none given", met=True))
                figures.append(_figure("fleet_start_cpu", "s", manager.cpu_seconds(), "none given", met=True))
                users = await users_of(fleet, options, port, folder, stack)
                print(f"start: {seconds:.1f} s, {await fleet.do('detail')}", file=sys.stderr)

            before = await fleet.do("begin_round")
            began = time.perf_counter()
            async with running_manager(kubeconfig, port, folder) as manager:
                await listening(port)
                changing = asyncio.create_task(_changes(fleet, users, 4))
                await _looked_at(fleet, options.kymas)
                resync = time.perf_counter() - began
                during = await changing
                after = await fleet.do("counts")
                figures.append(_figure("fleet_resync", "s", resync, "60 s or less", met=resync <= 60))
                figures.append(_figure("fleet_resync_cpu", "s", manager.cpu_seconds(), "none given", met=True))
                writes = (await fleet.do("writes", beyond=len(users)))["writes"]
                print(f"resync: {_difference(before, after)}, {await fleet.do('detail')}", file=sys.stderr)
                figures += await _with_a_quiet_fleet(fleet, manager, users, during, options)
                unchanged = "none to clusters where no user changes anything"
                figures.append(_figure("fleet_resync_writes", "writes", writes, unchanged, met=writes == 0))
            await stack.aclose()
    return figures


async def _with_a_quiet_fleet(
    fleet: FleetProgram, manager: Manager, users: list[User], during: list[float], options: argparse.Namespace
) -> list[Figure]:
    await manager.has_nothing_left()  # the Kymas were looked at; other things come after them
    cpu, began = manager.cpu_seconds(), time.perf_counter()
    await asyncio.sleep(options.quiet_seconds)
    share = 100 * (manager.cpu_seconds() - cpu) / (time.perf_counter() - began)
    quiet = await _changes(fleet, users, 25)
    await fleet.do("silence", share=0.1)
    await asyncio.sleep(options.quiet_seconds / 2)
    disturbed = await _changes(fleet, users, 25)
    moved = await _bump(fleet)
    memory = manager.peak_memory()
    for name, milliseconds in (("in resync", during), ("quiet", quiet), ("with silent clusters", disturbed)):
        median, longest = statistics.median(milliseconds), max(milliseconds)
        print(
            f"events {name}: median {median:.1f} ms, p99 {_p99(milliseconds):.1f}, longest {longest:.1f}: "
            f"{' '.join(f'{each:.0f}' for each in milliseconds[:40])}",
            file=sys.stderr,
        )
    return [
        _figure("fleet_quiet_cpu", "% of a core", share, "under 30", met=share < 30),
        _figure("fleet_memory", "MB", memory, "under 2048", met=memory < 2048),
        _figure("event_p99_in_resync", "ms", _p99(during), "under 100", met=_p99(during) < 100),
        _figure("event_p99_quiet", "ms", _p99(quiet), "under 100", met=_p99(quiet) < 100),
        Figure(
            name="event_p99_with_silent_clusters",
            unit="ms",
            value=round(_p99(disturbed), 2),
            peer="the same fleet with every cluster answering",
            peer_value=round(_p99(quiet), 2),
            bar="within a tenth of the peer",
            met=_p99(disturbed) <= 1.1 * _p99(quiet),
        ),
        _figure("bump_seconds", "s", moved, "spread over the rollout's delay, here 0 s", met=True),
    ]


async def _bump(fleet: FleetProgram) -> float:
    """Raise a channel's version, and return the seconds until all that use it have it."""
    began = time.perf_counter()
    await fleet.do("bump", module=MODULES[0], version=VERSIONS[1])
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            said = await fleet.do("at_version", module=MODULES[0], version=VERSIONS[1])
            if said["there"] >= said["of"]:
                return time.perf_counter() - began
            await asyncio.sleep(POLL_SECONDS)


async def _in_sync(fleet: FleetProgram, manager: Manager) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            said = await fleet.do("in_sync")
            if said["in_sync"] >= said["of"]:
                return
            if manager.child.returncode is not None:
                raise RuntimeError(f"the Lifecycle Manager ended:\n{tail(manager.child.log, 40)}")
            print(said, round(manager.cpu_seconds(), 1), "s CPU", file=sys.stderr)
            await asyncio.sleep(POLL_SECONDS)


async def _settled(fleet: FleetProgram) -> None:
    """Wait until nothing was written for some seconds: what is still to be told of the start is no change later."""
    before, now = -1, 0
    async with asyncio.timeout(PATIENCE_SECONDS):
        while now != before:
            await asyncio.sleep(POLL_SECONDS)
            counts = await fleet.do("counts")
            before, now = now, counts["skr_writes"]  # the control plane holds a Lease that is renewed


async def _looked_at(fleet: FleetProgram, kymas: int) -> None:
    """Wait until the Kyma of every cluster was looked at in this round."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            if (await fleet.do("counts"))["looked_at"] >= kymas:
                return
            await asyncio.sleep(0.2)


async def _changes(fleet: FleetProgram, users: list[User], rounds: int) -> list[float]:
    """Have users change their Kymas, some a second; return the milliseconds until each Manifest was written."""
    seconds: list[float] = []
    for _ in range(rounds):
        for user in users:
            applied = fleet.await_manifest(user.kyma, MODULES[-1])
            edited = await fleet.do("edit", kyma=user.kyma, module=MODULES[-1], wanted=True)
            await _told(user, edited)
            async with asyncio.timeout(120):
                seconds.append(await applied - edited["at"])
            removed = await fleet.do("edit", kyma=user.kyma, module=MODULES[-1], wanted=False)
            await _told(user, removed)
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.5)
    return [1000 * each for each in seconds]


async def _told(user: User, edited: Answer) -> None:
    """Send an event as often as it takes, as a Watcher does: the process may only be starting."""
    async with asyncio.timeout(120):
        while True:
            try:
                return await user.tell(edited)
            except (httpx.TransportError, httpx.HTTPStatusError):
                await asyncio.sleep(0.1)


def _p99(milliseconds: list[float]) -> float:
    return statistics.quantiles(milliseconds, n=100, method="inclusive")[98]


def _difference(before: Answer, after: Answer) -> Answer:
    return {name: after[name] - before.get(name, 0) for name in after}


def _figure(name: str, unit: str, value: float, bar: str, *, met: bool) -> Figure:
    return Figure(name=name, unit=unit, value=round(value, 2), peer="", peer_value=0, bar=bar, met=met)


if __name__ == "__main__":
    sys.exit(main())
