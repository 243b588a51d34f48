"""Measures rollouts in four waves over a simulated fleet: their CPU beside a new version without waves, and the halt.

In this order: a module without a strategy gets a new version; another one with four waves gets one; a third one whose
objects 3 % of the clusters refuse, from the second wave on, gets one, and is halted. Waves have no soak time here.

Run by `python -m benchmarks.module_rollout [--kymas 500]`.
"""

import argparse
import asyncio
import sys
from contextlib import AsyncExitStack
from typing import Any

import uvloop

from benchmarks.figures import Figure, print_all
from benchmarks.processes.fleet import (
    TIMEOUT_SECONDS,
    FleetProcess,
    LifecycleManagerProcess,
    open_fleet,
    run_lifecycle_manager,
)
from benchmarks.processes.fleet_documents import MODULES, VERSIONS
from kyma_local.ports import free_port

POLL_SECONDS = 0.5
WAVES = 4
MAX_CONCURRENT = 10
"""Per cent of a wave."""
REFUSING = 0.03
SETTLE_SECONDS = 10.0
"""After the halt, until what was under way is installed."""
PLAIN, GOVERNED, FAILING = MODULES[:3]


def main() -> int:
    """Measure and print the figures; return 1 if a bar was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kymas", type=int, default=500)
    options = parser.parse_args()
    options.modules = len((PLAIN, GOVERNED, FAILING))
    return print_all(uvloop.run(_measure(options)))


async def _measure(options: argparse.Namespace) -> list[Figure]:
    async with AsyncExitStack() as stack:
        fleet, kubeconfig, folder = await stack.enter_async_context(open_fleet(options, "--alike"))
        run = run_lifecycle_manager(kubeconfig, free_port(), folder)
        manager = await stack.enter_async_context(run)
        await _until(fleet, "in_sync", lambda seen: seen["in_sync"] >= seen["of"])
        await manager.wait_until_idle()
        plain = await _cpu_of(manager, _new_version(fleet, PLAIN))
        share = f"{MAX_CONCURRENT}%"
        rules = {"maxConcurrent": share, "maxFailures": "1%", "soak": "0s"}
        await _govern(fleet, GOVERNED, rules)
        await manager.wait_until_idle()
        governed = await _cpu_of(manager, _new_version(fleet, GOVERNED))
        cpu = Figure(
            name="rollout_cpu",
            unit="s",
            value=round(governed, 2),
            peer="a new version without waves",
            peer_value=round(plain, 2),
            bar="1.3 times the peer",
            met=governed <= 1.3 * plain,
        )
        await _govern(fleet, FAILING, rules)
        return [cpu, *await _halt(fleet, options.kymas)]


async def _govern(fleet: FleetProcess, module: str, rules: dict[str, str]) -> None:
    await fleet.do("govern", module=module, waves=WAVES, rules=rules)
    await _until(fleet, "rollout", lambda seen: seen["phase"] == "Completed", module=module)


async def _new_version(fleet: FleetProcess, module: str) -> None:
    await fleet.do("bump", module=module, version=VERSIONS[1])
    await _until(fleet, "at_version", lambda seen: seen["there"] >= seen["of"], module=module, version=VERSIONS[1])


async def _cpu_of(manager: LifecycleManagerProcess, work: Any) -> float:
    before = manager.cpu_seconds()
    await work
    await manager.wait_until_idle()
    return manager.cpu_seconds() - before


async def _halt(fleet: FleetProcess, kymas: int) -> list[Figure]:
    """Let clusters of later waves refuse a module; measure from the first failure too many to the halt."""
    later = [number for number in range(kymas) if number % WAVES]
    for number in later[:: round(1 / REFUSING)]:
        await fleet.do("refuse", kyma=number, name=FAILING, text="no such thing here")
    await fleet.do("await_halt", module=FAILING, version=VERSIONS[1], too_many=kymas // WAVES // 100 + 1)
    await fleet.do("bump", module=FAILING, version=VERSIONS[1])
    await _until(fleet, "halt", lambda seen: seen["halted_at"])
    await asyncio.sleep(SETTLE_SECONDS)
    end = await fleet.do("halt")
    seconds, more = end["halted_at"] - end["crossed_at"], end["updated_after"]
    allowed = -(-kymas // WAVES * MAX_CONCURRENT // 100)
    return [
        Figure(name="halt", unit="s", value=round(seconds, 2), bar="5 s", met=seconds <= 5),
        Figure(
            name="updated_after_halt",
            unit="clusters",
            value=more,
            bar=f"at most {allowed}, those of one wave at a time",
            met=more <= allowed,
        ),
    ]


async def _until(fleet: FleetProcess, question: str, holds: Any, **arguments: Any) -> Any:
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while True:
            seen = await fleet.do(question, **arguments)
            if holds(seen):
                return seen
            await asyncio.sleep(POLL_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
