"""Measures what hostile clusters and a hostile module team cost the others: of 500 clusters, ten do what they can.

Each of the ten has 2,000 Module CRs, and four large ones which are edited all the time, each edit with a signed event:
two of 1.4 MB, two of 45,000 numbers, which take the most CPU. For each a module team writes SyncResources whose YAML
aliases expand to 20 MB. Half of the ten answer each request just under the time limit, too. Users of other clusters
make small changes in their Module CRs meanwhile, and one of the ten, of those that answer, makes small changes as well.

A second fleet with a Lifecycle Manager of its own runs beside it, and nobody attacks that one. Users of both make their
changes in turns, so that whatever else the machine does delays both. The one of the ten has a peer there, too. The ten
are simulated by a process of their own, with a lower priority, as what they do would else delay the simulated control
plane.

Figures: p99 of a user's change against the other fleet: in Lifecycle Manager, from the event to the write of the
ModuleConfig, in CPU time of the event loop, own work and that of others, and by the clock without the time in which the
loop waited for a core; and as the user sees it, with the simulation and whatever else runs. The last means something
only where nobody else wants the cores: on stderr is the ratio of both fleets without an attack, too, and a bar that is
missed by less means nothing. Further the longest turn of the event loop, in CPU time; the small change in one of the
ten; the memory; and whether the replica lost its membership.

Measure one attack at a time: together they ask for more CPU than a small machine has for the simulation alone. With
`--without` both Lifecycle Managers run without a mechanism of docs/fairness.md, to show what it is worth.

Run by `python -m benchmarks.hostile_fleet --attacks large [--clusters 500] [--seconds 60] [--without shares]`.
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
from collections.abc import Collection
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import uvloop

from benchmarks.figures import Figure, print_all
from benchmarks.fleet import _wait_until_in_sync, _wait_until_settled
from benchmarks.processes.fleet import (
    FleetProcess,
    LifecycleManagerProcess,
    User,
    run_fleet,
    run_lifecycle_manager,
    serve_layers,
    users_of,
)
from benchmarks.processes.fleet_documents import CONFIGURED, kyma_name
from benchmarks.processes.timed_lifecycle_manager import MECHANISMS
from kyma_local.ports import free_port

ATTACKS = ("large", "many", "stall", "aliases")
LARGE, SMALL = 4, 2_000
STALL_SECONDS = 9.5  # the time limit of a request to a cluster is 10 s
TIMEOUT_SECONDS = 30.0
LARGE_TIMES = 3.0  # the thread that makes large texts shares the interpreter with the event loop
LOST = ("expired: others may have taken over", "others removed its Lease, or hold it")


def main() -> int:
    """Measure and print the figures; return 1 if a bar was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clusters", type=int, default=500, dest="kymas")
    parser.add_argument("--hostile", type=int, default=10)
    parser.add_argument("--modules", type=int, default=2, help="number of modules beside the configured one")
    parser.add_argument("--users", type=int, default=20, help="number of clusters in which users change Module CRs")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long each of the two phases takes")
    parser.add_argument("--edit-seconds", type=float, default=0.25, help="between edits in a hostile cluster")
    parser.add_argument("--attacks", default="all", help=f"what the hostile clusters do: all, none, or of {ATTACKS}")
    parser.add_argument("--without", choices=MECHANISMS, help="a mechanism that is left out")
    options = parser.parse_args()
    named = {"all": ATTACKS, "none": ()}.get(options.attacks, options.attacks.split(","))
    if unknown := {*named} - {*ATTACKS}:
        parser.error(f"unknown attacks {sorted(unknown)}: expected all, none, or of {ATTACKS}")
    return print_all(uvloop.run(_measure(options, named)))


@dataclass(frozen=True)
class Side:
    """A fleet with a Lifecycle Manager of its own, and users of its clusters."""

    fleet: FleetProcess
    manager: LifecycleManagerProcess
    users: list[User]
    turns: Path
    port: int


async def _side(options: argparse.Namespace, layers: Path, stack: AsyncExitStack, *more: str) -> Side:
    """Start a fleet, and wait until all of its clusters have what they need."""
    folder = Path(stack.enter_context(TemporaryDirectory(prefix="hostile-fleet-")))
    fleet = await stack.enter_async_context(run_fleet(options, layers, "--configured", *more))
    kubeconfig, turns, port = folder / "kcp.kubeconfig", folder / "turns", free_port()
    kubeconfig.write_text(json.dumps(fleet.kubeconfig))
    klm = (sys.executable, "-m", "benchmarks.processes.timed_lifecycle_manager", str(turns), options.without or "")
    manager = await stack.enter_async_context(run_lifecycle_manager(kubeconfig, port, folder, klm))
    await _wait_until_in_sync(fleet, manager)
    await fleet.do("allow_config_maps")
    await _wait_until_settled(fleet)
    users = await users_of(range(min(options.users, options.kymas // 2)), fleet, port, stack)
    return Side(fleet, manager, users, turns, port)


async def _measure(options: argparse.Namespace, attacks: Collection[str]) -> list[Figure]:
    hostile = range(options.kymas - options.hostile, options.kymas)
    with TemporaryDirectory(prefix="hostile-fleet-") as text:
        folder = Path(text)
        async with AsyncExitStack() as stack:
            layers = await stack.enter_async_context(serve_layers(folder))
            others = await stack.enter_async_context(
                run_fleet(options, layers, "--configured", f"--first={hostile.start}")
            )
            elsewhere = folder / "elsewhere.json"
            elsewhere.write_text(json.dumps(others.kubeconfigs))
            spared = await _side(options, layers, stack)
            side = await _side(options, layers, stack, f"--elsewhere={elsewhere}")
            attackers = await users_of(hostile, side.fleet, side.port, stack)
            peers = await users_of(hostile[1:2], spared.fleet, spared.port, stack)

            before = await _changes(side, spared, options.seconds / 2)
            memory, began = side.manager.peak_memory(), time.monotonic()
            edits, ends = Counter[str](), asyncio.Event()
            attacking = await _begin(side.fleet, others, attackers, attacks, edits, ends, every=options.edit_seconds)
            await others.do("detail")  # from here on
            own = asyncio.create_task(_own_changes(side.fleet, others, attackers[1], options.seconds))
            alike = asyncio.create_task(_own_changes(spared.fleet, spared.fleet, peers[0], options.seconds))
            attacked, calm = await _changes(side, spared, options.seconds)
            small, _ = await own, await alike
            ends.set()  # not cancelled: the answer to a command would be left for the next one
            await asyncio.gather(*attacking)
            more_memory = side.manager.peak_memory() - memory
            longest, peer = (_longest_turn(each.turns, began) for each in (side, spared))
            cpu, peer_cpu = (_times("event", each.turns, began, each.users) for each in (side, spared))
            clock, peer_clock = (_times("clock", each.turns, began, each.users) for each in (side, spared))
            own_cpu = _times("event", side.turns, began, attackers[1:2])
            log = side.manager.child.log.read_text()
            lost = sum(log.count(each) for each in LOST)
            print(f"CPU: {_shown(cpu)}; spared: {_shown(peer_cpu)}; own: {_shown(own_cpu)}", file=sys.stderr)
            print(f"in Lifecycle Manager: {_shown(clock)}; spared: {_shown(peer_clock)}", file=sys.stderr)
            series = {"attacked": attacked, "spared": calm, "own": small, "before, to be attacked": before[0]}
            for name, milliseconds in series.items():
                print(f"{name}: {_shown(milliseconds)}", file=sys.stderr)
            print(f"ratio of the p99 before: {_p99(before[0]) / _p99(before[1]):.2f}", file=sys.stderr)
            print(f"in {options.seconds:g} s: {dict(edits)}; load of the machine {os.getloadavg()}", file=sys.stderr)
            print(f"requests to the hostile clusters: {await others.do('detail')}", file=sys.stderr)
            print("\n".join(log.splitlines()[-5:]), file=sys.stderr)
    times = LARGE_TIMES if "large" in attacks else 1.2
    return [
        Figure(
            name="hostile_fleet_event_cpu_p99",
            unit="ms of the event loop's CPU",
            value=round(_p99(cpu), 1),
            peer="a fleet that is not attacked, at the same time",
            peer_value=round(_p99(peer_cpu), 1),
            bar=f"at most {times:g} times the peer, or 5 ms more",
            met=_p99(cpu) <= max(times * _p99(peer_cpu), _p99(peer_cpu) + 5),
        ),
        Figure(
            name="hostile_fleet_event_in_lifecycle_manager_p99",
            unit="ms without waits for a core",
            value=round(_p99(clock), 1),
            peer="a fleet that is not attacked, at the same time",
            peer_value=round(_p99(peer_clock), 1),
            bar=f"at most {times:g} times the peer",
            met=_p99(clock) <= times * _p99(peer_clock),
        ),
        Figure(
            name="hostile_fleet_event_p99",
            unit="ms",
            value=round(_p99(attacked), 1),
            peer="a fleet that is not attacked, at the same time",
            peer_value=round(_p99(calm), 1),
            bar=f"at most {times:g} times the peer, and none over 1 s",
            met=_p99(attacked) <= times * _p99(calm) and max(attacked) <= 1_000,
        ),
        Figure(
            name="hostile_fleet_longest_turn",
            unit="ms",
            value=round(1000 * longest, 1),
            peer="a fleet that is not attacked, at the same time",
            peer_value=round(1000 * peer, 1),
            bar="50 or less",
            met=longest <= 0.05,
        ),
        _figure("hostile_fleet_own_change", "ms, longest", max(small), "5000 or less", met=max(small) <= 5_000),
        _figure("hostile_fleet_memory", "MB more", more_memory, "100 or less", met=more_memory <= 100),
        _figure("hostile_fleet_lost_memberships", "", lost, "none", met=lost == 0),
    ]


async def _begin(
    fleet: FleetProcess,
    others: FleetProcess,
    attackers: list[User],
    attacks: Collection[str],
    edits: Counter[str],
    ends: asyncio.Event,
    *,
    every: float,
) -> list["asyncio.Task[None]"]:
    """Begin the attacks; return the tasks of those that go on."""
    for attacker in attackers:
        crowd = LARGE if "large" in attacks else 0, SMALL if "many" in attacks else 0
        await others.do("crowd", kyma=attacker.kyma, large=crowd[0], small=crowd[1])
    for attacker in attackers[::2] if "stall" in attacks else ():
        await others.do("stall", kyma=attacker.kyma, seconds=STALL_SECONDS)
    return [asyncio.create_task(_attack(fleet, others, each, attacks, edits, ends, every=every)) for each in attackers]


async def _attack(
    fleet: FleetProcess,
    others: FleetProcess,
    attacker: User,
    attacks: Collection[str],
    edits: Counter[str],
    ends: asyncio.Event,
    *,
    every: float,
) -> None:
    """Edit large Module CRs and SyncResources of one cluster over and over."""
    number = 0
    while not ends.is_set():
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


async def _changes(side: Side, spared: Side, seconds: float) -> tuple[list[float], list[float]]:
    """Let users of both fleets make small changes in turns; return the milliseconds that each took."""
    taken: tuple[list[float], list[float]] = ([], [])
    end = time.monotonic() + seconds
    for pair in itertools.cycle(zip(side.users, spared.users, strict=True)):
        if time.monotonic() > end:
            return taken
        for each, user, times in zip((side, spared), pair, taken, strict=True):
            times.append(await _change(each.fleet, each.fleet, user))
            await asyncio.sleep(0.02)
    return taken


async def _own_changes(kcp: FleetProcess, skrs: FleetProcess, user: User, seconds: float) -> list[float]:
    """Let a user of a hostile cluster make small changes; return the milliseconds that each took."""
    taken = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        taken.append(await _change(kcp, skrs, user))
        await asyncio.sleep(0.05)
    return taken


async def _change(kcp: FleetProcess, skrs: FleetProcess, user: User) -> float:
    """Make a small change; return the milliseconds until its ModuleConfig was written.

    A change that does not arrive counts with the time it was waited for.
    """
    mark = f"edit-of-{user.kyma}-at-{time.monotonic_ns()}-ends"
    applied = kcp.await_manifest(user.kyma, CONFIGURED)
    await kcp.do("expect", kyma=user.kyma, mark=mark)
    edited = await skrs.do("configure", kyma=user.kyma, mark=mark)
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            with suppress(httpx.HTTPError):
                await user.send_event(edited)
            return 1000 * (await asyncio.shield(applied) - float(edited["at"]))
    except TimeoutError:
        return 1000 * TIMEOUT_SECONDS


def _p99(milliseconds: list[float]) -> float:
    """Return the smallest value that 99 % do not exceed."""
    return sorted(milliseconds)[math.ceil(0.99 * len(milliseconds)) - 1]


def _longest_turn(turns: Path, since: float) -> float:
    return max((float(line["turn"]) for line in _lines(turns, since) if "turn" in line), default=0.0)


def _times(kind: str, turns: Path, since: float, users: list[User]) -> list[float]:
    """Return the milliseconds from the events of some users to their writes: of CPU, or by the `clock`."""
    kymas = {kyma_name(user.kyma) for user in users}
    return [1000 * line[kind] for line in _lines(turns, since) if line.get("kyma") in kymas]


def _lines(turns: Path, since: float) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in turns.read_text().splitlines()]
    return [line for line in lines if line["at"] >= since]


def _shown(milliseconds: list[float]) -> str:
    if not milliseconds:
        return "no change"
    return (
        f"{len(milliseconds)} changes, median {statistics.median(milliseconds):.1f} ms, p99 {_p99(milliseconds):.1f}, "
        f"longest {max(milliseconds):.1f}"
    )


def _figure(name: str, unit: str, value: float, bar: str, *, met: bool) -> Figure:
    return Figure(name=name, unit=unit, value=round(value, 2), bar=bar, met=met)


if __name__ == "__main__":
    sys.exit(main())
