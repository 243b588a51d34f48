"""How soon the reconcile of a change begins while 20,000 other keys wait, and are worked off as fast as can be.

The controller's cache and queue hold all the Things, and what their reconciles do is trivial; as soon as keys are
worked off, they are added again. Things are changed meanwhile. The peer is a bare watch in a process of its own, which
sees the same changes arrive and does nothing with them: measured is how much later than that a reconcile begins.

By the clock, the controller also has to wait for a core that it shares with the API server, etcd and whatever else runs
on the machine. It never rests, so the CPU time that it uses in between is shown beside, and tells on a busy machine who
is to blame; so is the time from the moment at which a write is sent. The 99th percentile is taken of each round, and
the median of the rounds counts.

Run by `python -m benchmarks.kube_runtime_urgency [--objects 20000] [--rounds 5] [--changes 300] [--rate 50]`.
"""

import argparse
import asyncio
import random
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from typing import Any, NamedTuple

import uvloop

from benchmarks.figures import Figure
from benchmarks.peers.comparing import compared, under
from benchmarks.peers.programs import OURS, running
from benchmarks.peers.stage import cluster_with_things, name_of, rules
from benchmarks.peers.things import THINGS_AS_DICTS
from kube_runtime import Client

NAMESPACE = "resynced"
BAR_MS = 5.0


class Moment(NamedTuple):
    """When something happened: by the clock, and by the CPU time that the controller had used by then."""

    at: float
    used: float = 0.0


Moments = dict[tuple[str, int], Moment]
"""By the name of the Thing and the revision of its spec."""


def main() -> int:
    """Measure and print the figures; return 1 where a bar was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--objects", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--changes", type=int, default=300, help="of a round")
    parser.add_argument("--rate", type=float, default=50.0, help="changes a second")
    parser.add_argument("--peers", action=argparse.BooleanOptionalAction, default=True, help="changes nothing here")
    options = parser.parse_args()
    figures = uvloop.run(_measure(options))
    for figure in figures:
        figure.print()
    return 0 if all(figure.met for figure in figures) else 1


async def _measure(options: argparse.Namespace) -> list[Figure]:
    async with cluster_with_things(**{NAMESPACE: options.objects}) as (client, kubeconfig):
        changes = f"--changes={options.changes * options.rounds}"
        arguments = (f"--kubeconfig={kubeconfig}", f"--namespace={NAMESPACE}", changes)
        async with AsyncExitStack() as stack:
            controller = await stack.enter_async_context(running(OURS, "resync", *arguments))
            report = await controller.reported("resyncing")
            assert report["resyncing"] == options.objects, report
            looked_at = f"--controller={controller.child.pid}"
            watch = await stack.enter_async_context(running(OURS, "watch", *arguments, looked_at))
            await watch.reported("watching")
            rounds = [await _change(client, options, revision) for revision in range(1, options.rounds + 1)]
            arrived = _moments((await watch.reported("arrived"))["arrived"])
            began = _moments((await controller.reported("began"))["began"])
    return list(_figures(rounds, arrived, began))


def _figures(rounds: Sequence[Moments], arrived: Moments, began: Moments) -> Iterator[Figure]:
    used = [[began[each].used - arrived[each].used for each in sent] for sent in rounds]
    later = [[began[each].at - arrived[each].at for each in sent] for sent in rounds]
    from_write = [[began[each].at - moment.at for each, moment in sent.items()] for sent in rounds]
    watched = [[arrived[each].at - moment.at for each, moment in sent.items()] for sent in rounds]
    bar = under(BAR_MS, "ms")
    yield from compared("kube_runtime_urgency_p99", "ms after a bare watch", {OURS: _p99(later)}, default=bar)
    yield from compared(
        "kube_runtime_urgency_cpu_p99", "ms of the controller's CPU time", {OURS: _p99(used)}, default=bar
    )
    yield from compared(
        "kube_runtime_urgency_from_the_write_p99", "ms", {OURS: _p99(from_write), "a bare watch": _p99(watched)}
    )


async def _change(client: Client, options: argparse.Namespace, revision: int) -> Moments:
    """Change some of the Things, at an even pace; return when each write was sent."""
    sent: Moments = {}

    async def change(number: int) -> None:
        sent[name_of(number), revision] = Moment(time.monotonic())
        patch = {"spec": {"rules": rules(number, revision)}}
        await client.merge_patch(THINGS_AS_DICTS, name_of(number), patch, NAMESPACE, field_manager="benchmark")

    began = time.monotonic()
    async with asyncio.TaskGroup() as tasks:
        for index, number in enumerate(random.sample(range(options.objects), options.changes)):
            await asyncio.sleep(max(0.0, began + index / options.rate - time.monotonic()))
            tasks.create_task(change(number))
    return sent


def _moments(report: list[list[Any]]) -> Moments:
    return {(name, revision): Moment(at, used) for name, revision, at, used in report}


def _p99(rounds: Sequence[Sequence[float]]) -> float:
    """Return the 99th percentile of the median round, in milliseconds."""
    return statistics.median(statistics.quantiles(each, n=100, method="inclusive")[-1] for each in rounds) * 1000


if __name__ == "__main__":
    sys.exit(main())
