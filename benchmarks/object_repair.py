"""Measures how soon a deleted object of a module is back in the SKR, and that a quiet cluster sends no events for it.

Both clusters are real API servers, every program is a process of its own, and the interval is longer than the run. The
peer of the repair is one client that deletes a ConfigMap and applies it again. For the events, objects of the module
are written as controllers write them, a status, a scale and an annotation, and the module is applied anew; the peer is
the same with `--no-repair-on-events`.

Run by `python -m benchmarks.object_repair [--objects 60] [--deletions 60]`.
"""

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Iterable
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import uvloop

from benchmarks.figures import Figure
from kube_runtime import Client, NotFound, NotServed, dump_yaml
from kyma_demo.environment import open_environment
from kyma_demo.object_watcher import CONFIG_MAPS
from kyma_demo.programs import Programs
from kyma_demo.walkthrough import Walkthrough
from kyma_local.waiting import eventually
from lifecycle_manager.contract.resources import SYNC_RESOURCES
from lifecycle_manager_api import names

MEDIAN_BAR_MS = 100.0
MAX_BAR_MS = 1000.0
LM, WATCHER = "lifecycle-manager", "skr-watcher"
NAME = "benchmark-nfs"
WITHOUT_INTERVAL = "--manifest-requeue-success-interval=30m"
PAUSE_SECONDS = 0.2


def main() -> int:
    """Measure and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--objects", type=int, default=60)
    parser.add_argument("--deletions", type=int, default=60)
    uvloop.run(_measure(parser.parse_args()))
    return 0


async def _measure(options: argparse.Namespace) -> None:
    with TemporaryDirectory(prefix="repair-") as folder:
        async with open_environment(Path(folder), None, None) as environment, AsyncExitStack() as stack:
            walkthrough = Walkthrough(environment, Programs(environment, stack))
            await walkthrough.set_up()
            run = _Run(walkthrough, [f"{NAME}-{number}" for number in range(options.objects)])
            await run.restart("--no-repair-on-events")
            await run.apply("1")
            without = await run.events_while_quiet("2")
            await run.restart()
            await run.repaired_at_all()
            found = await run.events_while_quiet("3")
            took = [await run.repair(run.things[number % len(run.things)]) for number in range(options.deletions)]
            floor = [await run.by_hand() for _ in range(20)]
    _report("median", statistics.median(took), statistics.median(floor), MEDIAN_BAR_MS)
    _report("max", max(took), max(floor), MAX_BAR_MS)
    Figure(
        name="object_repair_events_of_a_quiet_cluster",
        unit="events",
        value=found,
        peer="without the repair on events",
        peer_value=without,
        bar="no more than without it",
        met=found <= without,
    ).print()


def _report(name: str, value: float, floor: float, bar: float) -> None:
    Figure(
        name=f"object_repair_{name}",
        unit="ms",
        value=round(value, 1),
        peer="the same deletion and apply back to back",
        peer_value=round(floor, 1),
        bar=f"under {bar:g} ms",
        met=value < bar,
    ).print()


class _Run:
    """A SyncResource with ConfigMaps, and what happens to them."""

    def __init__(self, walkthrough: Walkthrough, things: list[str]) -> None:
        self.things = things
        self._kcp: Client = walkthrough.environment.kcp
        self._skr: Client = walkthrough.environment.skr
        self._programs = walkthrough.programs
        self._logs = walkthrough.environment.logs

    async def restart(self, *options: str) -> None:
        """Start the Lifecycle Manager with other options."""
        log, program = self._logs / f"{LM}.log", self._programs.started[LM]
        started = log.read_text().count('"msg":"ready"')
        kept = (each for each in program.command if each not in {"--no-repair-on-events", WITHOUT_INTERVAL})
        await self._programs.stop(LM)
        await self._programs.start(replace(program, command=(*kept, WITHOUT_INTERVAL, *options)))
        await eventually(lambda: _is(log.read_text().count('"msg":"ready"') > started))

    async def apply(self, value: str) -> None:
        """Have the Lifecycle Manager apply the objects with other contents."""
        text = "---\n".join(dump_yaml(_config_map(each, value)) for each in self.things)
        spec = {"kyma": "demo", "module": "cloud-resources", "resource": text}
        document = {"metadata": {"name": NAME, "namespace": names.KCP_NAMESPACE}, "spec": spec}
        await self._kcp.apply(SYNC_RESOURCES, NAME, document, names.KCP_NAMESPACE, field_manager=NAME)

        async def is_applied() -> bool:
            found = await self._get(self.things[-1])
            return found is not None and found["data"]["value"] == value

        await eventually(is_applied)

    async def events_while_quiet(self, value: str) -> int:
        """Write the objects as controllers do, and apply them anew; return the events that the Watcher has sent."""
        before = self._admitted()
        for each in self.things:
            note = {"metadata": {"annotations": {"example.com/leader": value}}, "data": {"state": value}}
            await self._skr.merge_patch(CONFIG_MAPS, each, note, names.SKR_NAMESPACE, field_manager="controller")
        await self.apply(value)
        await asyncio.sleep(1.0)  # whatever was to be reported is in the log by now
        return self._admitted() - before

    async def repaired_at_all(self) -> None:
        """Wait until deletions are reported: the webhook is changed after the start."""
        spare = iter(self.things)

        async def is_reported() -> bool:
            before, each = self._admitted(), next(spare)
            await self._skr.delete(CONFIG_MAPS, each, names.SKR_NAMESPACE)
            await asyncio.sleep(1.0)
            return self._admitted() > before

        await eventually(is_reported)
        await self.apply("again")
        await self._returned(self.things)

    async def repair(self, name: str) -> float:
        """Delete an object; return the milliseconds until it is back."""
        await asyncio.sleep(PAUSE_SECONDS)
        began = time.perf_counter()
        await self._skr.delete(CONFIG_MAPS, name, names.SKR_NAMESPACE)
        await self._returned([name])
        return (time.perf_counter() - began) * 1000

    async def by_hand(self) -> float:
        """Delete and apply an object as one client; return the milliseconds."""
        document = _config_map(f"{NAME}-by-hand", "1")
        await self._apply(document)
        began = time.perf_counter()
        await self._skr.delete(CONFIG_MAPS, document["metadata"]["name"], names.SKR_NAMESPACE)
        await self._apply(document)
        return (time.perf_counter() - began) * 1000

    async def _apply(self, document: dict[str, Any]) -> None:
        name = document["metadata"]["name"]
        await self._skr.apply(CONFIG_MAPS, name, document, names.SKR_NAMESPACE, field_manager=NAME)

    async def _returned(self, wanted: Iterable[str]) -> None:
        for each in wanted:
            await eventually(partial(self._get, each), every=0.002)

    async def _get(self, name: str) -> dict[str, Any] | None:
        try:
            return await self._skr.get(CONFIG_MAPS, name, names.SKR_NAMESPACE)
        except (NotFound, NotServed):
            return None

    def _admitted(self) -> int:
        return (self._logs / f"{WATCHER}.log").read_text().count(f'"object_name":"{NAME}-')


async def _is(value: bool) -> bool:
    return value


def _config_map(name: str, value: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": names.SKR_NAMESPACE}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"value": value}}


if __name__ == "__main__":
    sys.exit(main())
