"""Measures what hostile clusters and a hostile module team cost the others: of 500 clusters, ten do what they can.

Each of the ten has 2,000 Module CRs, and four of 1.4 MB which are edited all the time, each edit with a signed event.
For each a module team writes SyncResources whose YAML aliases expand to 20 MB. Half of the ten answer each request just
under the time limit, too. Users of other clusters make small changes in their Module CRs before and during that, and
one of the ten, of those that answer, makes small changes as well.

Figures: from a user's change to the ModuleConfig, p99, against the same fleet before; the longest turn of the event
loop, in CPU time; the small change in one of the ten; the memory; and whether the replica lost its membership.

The ten are simulated by a process of their own, which has the lowest priority: in reality they have CPUs of their own,
and what they do would else delay the simulated control plane and the other clusters. The rates of what they achieved
are on stderr. Measure one attack at a time: together they ask for more CPU than a small machine has for its simulation.

Run by `python -m benchmarks.hostile_fleet [--clusters 500] [--hostile 10] [--seconds 60] [--attacks large]`.
"""

import argparse
import asyncio
import itertools
import json
import math
import os
import statistics
import sys
import time
from collections import Counter
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import uvloop

from benchmarks.figures import Figure
from benchmarks.fleet import _wait_until_in_sync, _wait_until_settled
from benchmarks.processes.fleet import FleetProcess, User, run_fleet, run_lifecycle_manager, serve_layers, users_of
from benchmarks.processes.simulated_fleet import CONFIGURED
from kyma_local.ports import free_port

LARGE, LARGE_BYTES, SMALL = 4, 1_400_000, 2_000
STALL_SECONDS = 9.5  # the time limit of a request to a cluster is 10 s
PATIENCE_SECONDS = 30.0
LOST = ("expired: others may have taken over", "other members removed its Lease")


def main() -> int:
    """Measure and print the figures; return 1 if a bar was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clusters", type=int, default=500, dest="kymas")
    parser.add_argument("--hostile", type=int, default=10)
    parser.add_argument("--modules", type=int, default=2, help="number of modules beside the configured one")
    parser.add_argument("--users", type=int, default=20, help="number of clusters in which users change Module CRs")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long each of the two phases takes")
    parser.add_argument("--edit-seconds", type=float, default=0.25, help="between edits in a hostile cluster")
    parser.add_argument(
        "--attacks", default="large,many,stall,aliases", help="what the hostile clusters do, for finding what costs"
    )
    figures = uvloop.run(_measure(parser.parse_args()))
    for figure in figures:
        figure.print()
    return 0 if all(figure.met for figure in figures) else 1


async def _measure(options: argparse.Namespace) -> list[Figure]:
    attacks = options.attacks.split(",")
    hostile = range(options.kymas - options.hostile, options.kymas)
    with TemporaryDirectory(prefix="hostile-fleet-") as text:
        folder = Path(text)
        turns = folder / "turns"
        klm = (sys.executable, "-m", "benchmarks.processes.timed_lifecycle_manager", str(turns))
        async with AsyncExitStack() as stack:
            layers = await stack.enter_async_context(serve_layers(folder))
            others = await stack.enter_async_context(
                run_fleet(options, layers, "--configured", f"--first={hostile.start}")
            )
            os.setpriority(os.PRIO_PROCESS, others.process.pid, 19)
            elsewhere = folder / "elsewhere.json"
            elsewhere.write_text(json.dumps(others.kubeconfigs))
            fleet = await stack.enter_async_context(
                run_fleet(options, layers, "--configured", f"--elsewhere={elsewhere}")
            )
            kubeconfig = folder / "kcp.kubeconfig"
            kubeconfig.write_text(json.dumps(fleet.kubeconfig))
            port = free_port()
            manager = await stack.enter_async_context(run_lifecycle_manager(kubeconfig, port, folder, klm))
            await _wait_until_in_sync(fleet, manager)
            await _wait_until_settled(fleet)
            users = await users_of(range(min(options.users, options.kymas // 2)), fleet, port, folder, stack)
            attackers = await users_of(hostile, fleet, port, folder, stack)

            calm = await _changes(fleet, fleet, users, options.seconds)
            memory, began = manager.peak_memory(), time.monotonic()
            for kyma in hostile:
                crowd = LARGE if "large" in attacks else 0, SMALL if "many" in attacks else 0
                await others.do("crowd", kyma=kyma, large=crowd[0], large_bytes=LARGE_BYTES, small=crowd[1])
            if "stall" in attacks:
                for kyma in hostile[::2]:
                    await others.do("stall", kyma=kyma, seconds=STALL_SECONDS)
            edits: Counter[str] = Counter()
            attacking = [
                asyncio.create_task(_attack(fleet, others, each, attacks, edits, every=options.edit_seconds))
                for each in attackers
            ]
            beside = asyncio.create_task(_changes(fleet, others, attackers[1:2], options.seconds))
            attacked = await _changes(fleet, fleet, users, options.seconds)
            own = await beside
            for task in attacking:
                task.cancel()
            ended = await asyncio.gather(*attacking, return_exceptions=True)
            failed = [each for each in ended if isinstance(each, Exception)]
            if failed:
                raise ExceptionGroup("attacks failed", failed)
            more_memory = manager.peak_memory() - memory
            longest = _longest_turn(turns, 0, began), _longest_turn(turns, began, time.monotonic())
            log = manager.child.log.read_text()
            lost = sum(log.count(each) for each in LOST)
            print(f"calm: {_told(calm)}; attacked: {_told(attacked)}; own: {_told(own)}", file=sys.stderr)
            print(f"in {options.seconds:g} s: {dict(edits)}; load of the machine {os.getloadavg()}", file=sys.stderr)
            print("\n".join(log.splitlines()[-5:]), file=sys.stderr)
    return [
        Figure(
            name="hostile_fleet_event_p99",
            unit="ms",
            value=round(_p99(attacked), 1),
            peer="the same fleet before",
            peer_value=round(_p99(calm), 1),
            bar="at most 1.2 times the peer",
            met=_p99(attacked) <= 1.2 * _p99(calm),
        ),
        Figure(
            name="hostile_fleet_longest_turn",
            unit="ms",
            value=round(1000 * longest[1], 1),
            peer="the same fleet before, its start included",
            peer_value=round(1000 * longest[0], 1),
            bar="50 or less",
            met=longest[1] <= 0.05,
        ),
        _figure("hostile_fleet_own_change", "ms, longest", max(own), "2000 or less", met=max(own) <= 2_000),
        _figure("hostile_fleet_memory", "MB more", more_memory, "100 or less", met=more_memory <= 100),
        _figure("hostile_fleet_lost_memberships", "", lost, "none", met=lost == 0),
    ]


async def _attack(
    fleet: FleetProcess, others: FleetProcess, attacker: User, attacks: list[str], edits: Counter[str], *, every: float
) -> None:
    """Edit large Module CRs and SyncResources of one cluster over and over."""
    number = 0
    while True:
        if "aliases" in attacks and number % 4 == 0:
            await fleet.do("alias", kyma=attacker.kyma, text=_aliases(number))
            edits["SyncResources with aliases"] += 1
        if "large" in attacks:
            edited = await others.do("edit_large", kyma=attacker.kyma, thing=number % LARGE)
            edits["large Module CRs"] += 1
            try:
                await attacker.send_event(edited)
            except httpx.HTTPError:  # as a flood may be
                edits["events refused"] += 1
        number += 1
        await asyncio.sleep(every)


def _aliases(number: int) -> str:
    """Return a text of 30 kB that expands to 20 MB, another one for each number."""
    lines = "\n".join(f"  k{each}: *a" for each in range(900))
    return (
        f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: large, namespace: kyma-system}}\n"
        f"data:\n  first: &a {'x' * 22_000}{number}\n{lines}\n"
    )


async def _changes(kcp: FleetProcess, skrs: FleetProcess, users: list[User], seconds: float) -> list[float]:
    """Let users make small changes one after the other; return the milliseconds until each ModuleConfig was written.

    A change that does not arrive counts with the time it was waited for.
    """
    taken: list[float] = []
    end = time.monotonic() + seconds
    for user in itertools.cycle(users):
        if time.monotonic() > end:
            break
        mark = f"edit-{len(taken)}-of-{user.kyma}-at-{time.monotonic_ns()}-ends"
        applied = kcp.await_manifest(user.kyma, CONFIGURED)
        await kcp.do("expect", kyma=user.kyma, mark=mark)
        edited = await skrs.do("configure", kyma=user.kyma, mark=mark)
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                with suppress(httpx.HTTPError):
                    await user.send_event(edited)
                taken.append(await asyncio.shield(applied) - edited["at"])
        except TimeoutError:
            taken.append(PATIENCE_SECONDS)
        await asyncio.sleep(0.05)
    return [1000 * each for each in taken]


def _p99(milliseconds: list[float]) -> float:
    """Return the smallest value that 99 % do not exceed."""
    return sorted(milliseconds)[math.ceil(0.99 * len(milliseconds)) - 1]


def _longest_turn(turns: Path, since: float, until: float) -> float:
    lines = [json.loads(line) for line in turns.read_text().splitlines()]
    return max((line["turn"] for line in lines if since <= line["at"] <= until), default=0.0)


def _told(milliseconds: list[float]) -> str:
    return (
        f"{len(milliseconds)} changes, median {statistics.median(milliseconds):.1f} ms, p99 {_p99(milliseconds):.1f}, "
        f"longest {max(milliseconds):.1f}"
    )


def _figure(name: str, unit: str, value: float, bar: str, *, met: bool) -> Figure:
    return Figure(name=name, unit=unit, value=round(value, 2), peer="", peer_value=0, bar=bar, met=met)


if __name__ == "__main__":
    sys.exit(main())
