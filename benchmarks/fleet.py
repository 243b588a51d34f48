"""Measures one Lifecycle Manager with a fleet: 10,000 Kymas with 5 modules each, clusters simulated in another process.

In this order: the time until a new fleet is in sync; the time that a restarted process takes to reconcile an unchanged
fleet, and whether it writes; the CPU of the quiet fleet; the time from a user's write in the cluster to the Manifest,
while the fleet is reconciled for the first time and while a tenth of the clusters accept connections and never answer;
the time until the Kymas of a channel have its new version.

Run by `python -m benchmarks.fleet [--kymas 10000] [--modules 5]`. It takes about twenty minutes with
the full fleet.
"""

import argparse
import asyncio
import statistics
import sys
import time
from contextlib import AsyncExitStack

import httpx
import uvloop

from benchmarks.figures import Figure, print_all
from benchmarks.processes.fleet import (
    TIMEOUT_SECONDS,
    Answer,
    FleetProcess,
    LifecycleManagerProcess,
    User,
    create_users,
    open_fleet,
    run_lifecycle_manager,
)
from benchmarks.processes.fleet_documents import MODULES, VERSIONS
from kyma_local.ports import free_port
from kyma_local.processes import tail

POLL_SECONDS = 5.0  # each poll costs the simulated control plane a list of all Kymas


def main() -> int:
    """Measure and print the figures; return 1 if a bar was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kymas", type=int, default=10_000)
    parser.add_argument("--modules", type=int, default=5)
    parser.add_argument("--users", type=int, default=40, help="number of clusters in which users change modules")
    parser.add_argument("--quiet-seconds", type=float, default=60.0)
    return print_all(uvloop.run(_measure(parser.parse_args())))


async def _measure(options: argparse.Namespace) -> list[Figure]:
    figures: list[Figure] = []
    async with AsyncExitStack() as stack:
        fleet, kubeconfig, folder = await stack.enter_async_context(open_fleet(options))
        port = free_port()

        began = time.perf_counter()
        async with run_lifecycle_manager(kubeconfig, port, folder) as manager:
            await _wait_until_in_sync(fleet, manager)
            seconds = time.perf_counter() - began
            await _wait_until_settled(fleet)
            figures.append(_figure("fleet_start", "s", seconds, "none given", met=True))
            figures.append(_figure("fleet_start_cpu", "s", manager.cpu_seconds(), "none given", met=True))
            users = await create_users(fleet, options, port, stack)
            print(f"start: {seconds:.1f} s, {await fleet.do('detail')}", file=sys.stderr)

        before = await fleet.do("begin_round")
        began = time.perf_counter()
        async with run_lifecycle_manager(kubeconfig, port, folder) as manager:
            await manager.wait_until_ready()
            changing = asyncio.create_task(_changes(fleet, users, 4))
            await _wait_until_reconciled(fleet, options.kymas)
            resync = time.perf_counter() - began
            during = await changing
            after = await fleet.do("counts")
            figures.append(_figure("fleet_resync", "s", resync, "20 s or less", met=resync <= 20))
            figures.append(_figure("fleet_resync_cpu", "s", manager.cpu_seconds(), "none given", met=True))
            writes = (await fleet.do("writes", beyond=len(users)))["writes"]
            print(f"resync: {_difference(before, after)}, {await fleet.do('detail')}", file=sys.stderr)
            figures += await _with_a_quiet_fleet(fleet, manager, users, during, options)
            unchanged = "none to clusters where no user changes anything"
            figures.append(_figure("fleet_resync_writes", "writes", writes, unchanged, met=writes == 0))
    return figures


async def _with_a_quiet_fleet(
    fleet: FleetProcess,
    manager: LifecycleManagerProcess,
    users: list[User],
    during: list[float],
    options: argparse.Namespace,
) -> list[Figure]:
    await manager.wait_until_idle()  # other keys are reconciled after the Kymas
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


async def _bump(fleet: FleetProcess) -> float:
    """Raise the version of a channel, and return the seconds until all Kymas of the channel have it."""
    began = time.perf_counter()
    await fleet.do("bump", module=MODULES[0], version=VERSIONS[1])
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while True:
            answer = await fleet.do("at_version", module=MODULES[0], version=VERSIONS[1])
            if answer["there"] >= answer["of"]:
                return time.perf_counter() - began
            await asyncio.sleep(POLL_SECONDS)


async def _wait_until_in_sync(fleet: FleetProcess, manager: LifecycleManagerProcess) -> None:
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while True:
            answer = await fleet.do("in_sync")
            if answer["in_sync"] >= answer["of"]:
                return
            if manager.child.returncode is not None:
                raise RuntimeError(f"the Lifecycle Manager exited:\n{tail(manager.child.log, 40)}")
            print(answer, round(manager.cpu_seconds(), 1), "s CPU", file=sys.stderr)
            await asyncio.sleep(POLL_SECONDS)


async def _wait_until_settled(fleet: FleetProcess) -> None:
    """Wait until nothing was written for some seconds, so that later writes are not those of the start."""
    before, now = -1, 0
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while now != before:
            await asyncio.sleep(POLL_SECONDS)
            counts = await fleet.do("counts")
            before, now = now, counts["skr_writes"]  # not those to the control plane, where a Lease is renewed


async def _wait_until_reconciled(fleet: FleetProcess, kymas: int) -> None:
    """Wait until the Kyma of every cluster was reconciled in this round."""
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while True:
            if (await fleet.do("counts"))["reconciled"] >= kymas:
                return
            await asyncio.sleep(0.2)


async def _changes(fleet: FleetProcess, users: list[User], rounds: int) -> list[float]:
    """Let users change their Kyma CRs one after the other; return the milliseconds until each Manifest was written."""
    seconds: list[float] = []
    for _ in range(rounds):
        for user in users:
            applied = fleet.await_manifest(user.kyma, MODULES[-1])
            edited = await fleet.do("edit", kyma=user.kyma, module=MODULES[-1], wanted=True)
            await _send_event(user, edited)
            async with asyncio.timeout(120):
                seconds.append(await applied - edited["at"])
            removed = await fleet.do("edit", kyma=user.kyma, module=MODULES[-1], wanted=False)
            await _send_event(user, removed)
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.5)
    return [1000 * each for each in seconds]


async def _send_event(user: User, edited: Answer) -> None:
    """Send an event until it is accepted, as a Watcher does: the process may still be starting."""
    async with asyncio.timeout(120):
        while True:
            try:
                return await user.send_event(edited)
            except (httpx.TransportError, httpx.HTTPStatusError):
                await asyncio.sleep(0.1)


def _p99(milliseconds: list[float]) -> float:
    return statistics.quantiles(milliseconds, n=100, method="inclusive")[98]


def _difference(before: Answer, after: Answer) -> Answer:
    return {name: after[name] - before.get(name, 0) for name in after}


def _figure(name: str, unit: str, value: float, bar: str, *, met: bool) -> Figure:
    return Figure(name=name, unit=unit, value=round(value, 2), bar=bar, met=met)


if __name__ == "__main__":
    sys.exit(main())
