"""How many keys a second pass through the work queue on one core, each added three times, at three priorities.

So each key waits once, becomes more urgent at most twice, is taken and is done. The peers are client-go's work queue,
which knows no priorities, and controller-runtime's priority queue, in one process of Go with one core of its own. They
take turns with ours, and the best of each counts. A second is one of CPU time, so that it does not matter who else
wants the core.

Run by `python -m benchmarks.kube_runtime_queue [--keys 100000] [--rounds 5] [--no-peers]`.
"""

import argparse
import os
import subprocess
import sys
import time

import msgspec
import uvloop

from benchmarks.figures import print_all
from benchmarks.peers.comparing import compared, over
from benchmarks.peers.controller_runtime_build import built_peer
from benchmarks.peers.programs import OURS, prepared
from kube_runtime import ObjectKey, Priority, WorkQueue

BAR_KEYS_A_SECOND = 100_000


def main() -> int:
    """Measure and print the figures; return 1 where a bar was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--peers", action=argparse.BooleanOptionalAction, default=True)
    options = parser.parse_args()
    peers = len(prepared(peers=options.peers)) > 1
    seconds: dict[str, list[float]] = {}
    for _ in range(options.rounds):
        measured = {OURS: uvloop.run(_pass_keys(options.keys))} | (_pass_keys_in_go(options.keys) if peers else {})
        for name, value in measured.items():
            seconds.setdefault(name, []).append(value)
    rates = {name: options.keys / min(values) for name, values in seconds.items()}
    bar = over(BAR_KEYS_A_SECOND, "keys/s")
    return print_all(compared("kube_runtime_queue", "keys/s", rates, default=bar))


async def _pass_keys(count: int) -> float:
    """Return the CPU seconds in which so many keys go through our queue."""
    queue: WorkQueue[ObjectKey] = WorkQueue()
    keys = [ObjectKey("default", f"key-{number}") for number in range(count)]
    priorities = tuple(Priority)
    began = time.process_time()
    for turn in range(len(priorities)):
        for number, key in enumerate(keys):
            queue.add(key, priorities[(number + turn) % len(priorities)])
    for _ in range(count):
        queue.done(await queue.get())
    return time.process_time() - began


def _pass_keys_in_go(count: int) -> dict[str, float]:
    """Return the CPU seconds of the peers' queues."""
    command = [str(built_peer()), "--role=queue", f"--count={count}"]
    environment = {**os.environ, "GOMAXPROCS": "1"}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, timeout=120)
    report: dict[str, float] = msgspec.json.decode(done.stdout)
    return {"client-go's work queue": report["workqueue"], "controller-runtime's queue": report["priorityqueue"]}


if __name__ == "__main__":
    sys.exit(main())
