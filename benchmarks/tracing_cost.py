"""Measures what traces cost: the CPU time of a reconcile with its request, without a tracer and with one.

A controller of the runtime reconciles keys that a signal enqueues, each with one step that applies a ConfigMap. The API
server is simulated by another process, so the CPU time is that of the runtime alone. The variants take turns in short
rounds, and what counts is the median of the ratios of neighbouring rounds.

- absent: what asks whether there is a trace is replaced by what does not ask
- off: no tracer, as without an endpoint
- on: every reconcile is part of a trace of its own; one in a hundred is sampled

Run by `python -m benchmarks.tracing_cost [--rounds 100] [--keys 100]`.
"""

import argparse
import asyncio
import gc
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple
from unittest.mock import patch

import uvloop
from opentelemetry.sdk.trace import SpanProcessor

from benchmarks.figures import Figure, print_all
from benchmarks.klm import kubeconfig
from kube_runtime import (
    Causes,
    Client,
    ClientOptions,
    Controller,
    KubeconfigPolicy,
    Manager,
    ObjectKey,
    Resource,
    Result,
)
from kube_runtime.tracing import part
from kyma_diagnostics.spans import ChangeTracer

CONFIG_MAPS: Resource[dict[str, Any]] = Resource.dynamic("", "v1", "ConfigMap", "configmaps", namespaced=True)
NAMESPACE = "default"
OFF_BAR, ON_BAR = 1.01, 3.0
WARM = 2


class Pair(NamedTuple):
    """CPU seconds for a reconcile of a variant, and without asking."""

    seconds: float
    absent: float


@dataclass(frozen=True, slots=True)
class Changed:
    """A signal."""

    name: str


def main() -> int:
    """Measure and print the figures; return 1 if a bar was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--keys", type=int, default=100)
    options = parser.parse_args()
    command = [sys.executable, "-m", "kube_simulation", "--clusters", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        address = json.loads(server.stdout.readline())["address"]
        try:
            taken = uvloop.run(_measure(f"{address}/clusters/cluster-0", options.rounds, options.keys))
        finally:
            server.terminate()
    return print_all([_figure(variant, bar, taken[variant]) for variant, bar in (("off", OFF_BAR), ("on", ON_BAR))])


def _figure(variant: str, bar: float, pairs: list[Pair]) -> Figure:
    ratio = statistics.median(each.seconds / each.absent for each in pairs)
    peer = statistics.median(each.absent for each in pairs)
    return Figure(
        name=f"tracing_cost_{variant}",
        unit="microseconds of CPU for a reconcile",
        value=round(ratio * peer * 1e6, 1),
        peer="without asking for a trace",
        peer_value=round(peer * 1e6, 1),
        bar=f"at most {bar:g} times",
        met=ratio <= bar,
    )


async def _measure(server: str, rounds: int, keys: int) -> dict[str, list[Pair]]:
    """Return the CPU seconds for a reconcile of each variant, beside those without asking."""
    policy = KubeconfigPolicy(allow_insecure=True)
    async with await Client.from_kubeconfig(kubeconfig(server), options=ClientOptions(qps=0), policy=policy) as client:
        without, traced = _Bench(client, None), _Bench(client, _tracer())
        stopping = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            for each in (without, traced):
                tasks.create_task(each.manager.run(stopping))
                await each.started.wait()
            # One variant after the other: what one leaves to the garbage collector is not to be paid by another.
            off = [await _pair(without, without, number, keys) for number in range(rounds + WARM)]
            on = [await _pair(traced, without, number, keys) for number in range(rounds + WARM)]
            stopping.set()
    return {"off": off[WARM:], "on": on[WARM:]}


async def _pair(bench: "_Bench", without: "_Bench", number: int, keys: int) -> Pair:
    """Measure one round of a variant and one without asking, in either order."""
    seconds: dict[bool, float] = {}
    for is_absent in (True, False) if number % 2 else (False, True):
        gc.collect()
        with _absent() if is_absent else nullcontext():
            seconds[is_absent] = await (without if is_absent else bench).round(keys)
    return Pair(seconds[False], seconds[True])


class _Bench:
    """A Manager with one controller."""

    def __init__(self, client: Client, tracer: ChangeTracer | None) -> None:
        self.manager = Manager(client, namespace=NAMESPACE, tracer=tracer)
        self._client = client
        self._left = 0
        self._value = 0
        self._all_done = asyncio.Event()
        self.started = asyncio.Event()
        self.manager.serves(self._start, name="started")
        controller: Controller[ObjectKey, None] = self.manager.controller("bench")
        controller.receives(Changed, to=lambda signal: [ObjectKey(NAMESPACE, signal.name)])
        controller.reconciles(self._reconcile)

    async def _start(self) -> None:
        self.started.set()

    async def round(self, keys: int) -> float:
        """Reconcile so many keys once; return the CPU seconds for each."""
        self._left, self._value = keys, self._value + 1
        self._all_done.clear()
        began = time.process_time()
        for number in range(keys):
            with self.manager.traced("change", ""):
                self.manager.publish(Changed(f"map-{number}"))
        await self._all_done.wait()
        return (time.process_time() - began) / keys

    async def _reconcile(self, key: ObjectKey, _causes: Causes, _state: None) -> Result:
        with part("Write"):
            document = {"data": {"value": str(self._value)}}
            await self._client.apply(CONFIG_MAPS, key.name, document, key.namespace, field_manager="bench")
        self._left -= 1
        if not self._left:
            self._all_done.set()
        return Result()


def _tracer() -> ChangeTracer:
    return ChangeTracer(SpanProcessor(), service="bench", sampling_ratio=0.01)


@contextmanager
def _absent() -> Iterator[None]:
    nothing = nullcontext()
    with (
        patch("kube_runtime.client.transport._part_of_trace", lambda _method, _host, _target: nothing),
        patch(f"{__name__}.part", lambda _name: nothing),
        patch("kube_runtime.controller.controller.present", str),
        patch.object(Controller, "_reconcile_traced", Controller._reconcile_owned),  # noqa: SLF001
    ):
        yield


if __name__ == "__main__":
    sys.exit(main())
