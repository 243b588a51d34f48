"""What a reconcile costs: how many a second of CPU time a small controller does, beside the same one of each peer.

The controller watches Things, gives each a ConfigMap by server-side apply, and writes the Thing's status. Each
library's controller is a process of its own and has a namespace of its own; Things are changed in one after the other,
many at once. The CPU time is that of the controller's process, from the first change until a second after the last
status. Kopf, which has no client for ConfigMaps, is given the runtime's.

Run by `python -m benchmarks.kube_runtime_reconciles [--things 500] [--rounds 5] [--no-peers]`.
"""

import argparse
import asyncio
import statistics
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import uvloop

from benchmarks.figures import print_all
from benchmarks.peers.comparing import at_least, compared
from benchmarks.peers.programs import CONTROLLER_RUNTIME, KOPF, Program, prepared, running
from benchmarks.peers.stage import change_things, cluster_with_things
from benchmarks.peers.things import THINGS, Thing
from kube_runtime import Client, Informer

TIMES_KOPF = 5.0
TIMES_CONTROLLER_RUNTIME = 0.5
TIMEOUT_SECONDS = 120.0
SETTLING_SECONDS = 1.0
LOOK_EVERY_SECONDS = 0.05


def main() -> int:
    """Measure and print the figures; return 1 where a bar was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--things", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--peers", action=argparse.BooleanOptionalAction, default=True)
    options = parser.parse_args()
    rates = uvloop.run(_measure(prepared(peers=options.peers), options.things, options.rounds))
    bars = {KOPF: at_least(TIMES_KOPF), CONTROLLER_RUNTIME: at_least(TIMES_CONTROLLER_RUNTIME)}
    return print_all(compared("kube_runtime_reconciles", "reconciles per CPU second", rates, bars))


async def _measure(programs: Sequence[Program], things: int, rounds: int) -> dict[Program, float]:
    """Return the reconciles per CPU second of each program, the median of the rounds."""
    namespaces = {program: f"of-{program.replace('_', '-')}" for program in programs}
    async with (
        cluster_with_things(**dict.fromkeys(namespaces.values(), things)) as (client, kubeconfig),
        AsyncExitStack() as stack,
    ):
        controllers, watched = {}, {}
        for program, namespace in namespaces.items():
            arguments = (f"--kubeconfig={kubeconfig}", f"--namespace={namespace}")
            controllers[program] = await stack.enter_async_context(running(program, "reconcile", *arguments))
            watched[program] = await stack.enter_async_context(_followed(client, namespace))
            await _observed(watched[program], things, revision=0)
        seconds: dict[Program, list[float]] = {program: [] for program in programs}
        for revision in range(1, rounds + 1):
            for program, namespace in namespaces.items():
                before = controllers[program].cpu_seconds()
                await change_things(client, namespace, range(things), revision)
                await _observed(watched[program], things, revision)
                await asyncio.sleep(SETTLING_SECONDS)
                seconds[program].append(controllers[program].cpu_seconds() - before)
    return {program: things / statistics.median(each) for program, each in seconds.items()}


@asynccontextmanager
async def _followed(client: Client, namespace: str) -> AsyncIterator[Informer[Thing]]:
    """Follow the Things of a namespace."""
    informer = Informer(client, THINGS, namespace=namespace)
    async with asyncio.TaskGroup() as tasks:
        following = tasks.create_task(informer.run())
        await informer.wait_synced(TIMEOUT_SECONDS)
        yield informer
        following.cancel()


async def _observed(informer: Informer[Thing], things: int, revision: int) -> None:
    """Wait until the status of all Things speaks of this revision of the spec."""

    def done(thing: Thing) -> bool:
        return thing.spec.rules[0].weight == revision and thing.status.observed_generation == thing.metadata.generation

    async with asyncio.timeout(TIMEOUT_SECONDS):
        while True:
            if sum(map(done, informer.cache.list())) == things:
                return
            await asyncio.sleep(LOOK_EVERY_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
