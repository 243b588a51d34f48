"""The runtime's own programs in the benchmarks, one a role: what is measured, written as its users would write it."""

import argparse
import asyncio
import re
import time
from collections.abc import Callable, Coroutine
from itertools import cycle
from pathlib import Path
from typing import Any

import uvloop

from benchmarks.peers.cpu_time import cpu_seconds
from benchmarks.peers.reporting import report
from benchmarks.peers.things import CONFIG_MAPS, THINGS, THINGS_AS_DICTS, UNLIMITED, Thing
from kube_runtime import Causes, Change, Client, Controller, Informer, Manager, ObjectKey, Priority, Resource, Result

REFILL = 100
FIELD_MANAGER = "kube-runtime"
CHANGED = "changed"
CHANGE = re.compile(rb'"name":"(thing-\d+)".*?"weight":(\d+)')


def main() -> None:
    """Take up a role, until killed."""
    roles: dict[str, Callable[[argparse.Namespace], Coroutine[Any, Any, None]]] = {
        "cache": fill_cache,
        "reconcile": run_controller,
        "resync": reconcile_changes_in_a_resync,
        "watch": watch_changes,
    }
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--role", choices=roles, required=True)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--namespace", required=True)
    parser.add_argument("--as-dicts", action="store_true")
    parser.add_argument("--changes", type=int, default=0)
    parser.add_argument("--controller", type=int, default=0, help="the process id of the controller")
    options = parser.parse_args()
    uvloop.run(roles[options.role](options))


async def fill_cache(options: argparse.Namespace) -> None:
    """Fill a cache, report how long that took, and keep it."""
    resource: Resource[Any] = THINGS_AS_DICTS if options.as_dicts else THINGS
    began = time.perf_counter()
    async with await Client.from_kubeconfig(options.kubeconfig, options=UNLIMITED) as client:
        informer = Informer(client, resource, namespace=options.namespace)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(informer.run())
            await informer.wait_synced(300)
            report({"seconds": time.perf_counter() - began, "objects": len(informer.cache)})


async def run_controller(options: argparse.Namespace) -> None:
    """Give each Thing a ConfigMap and a status."""
    async with await Client.from_kubeconfig(options.kubeconfig, options=UNLIMITED) as client:
        manager = Manager(client, namespace=options.namespace)
        things = manager.informer(THINGS)

        async def reconcile(key: ObjectKey, _causes: Causes, _state: None) -> Result:
            thing = things.cache.get(key)
            if thing is not None and thing.status.observed_generation != thing.metadata.generation:
                child = {"metadata": {"name": key.name}, "data": {"generation": str(thing.metadata.generation)}}
                await client.apply(CONFIG_MAPS, key.name, child, key.namespace, field_manager=FIELD_MANAGER)
                patch = {"status": {"observedGeneration": thing.metadata.generation}}
                await client.merge_patch(
                    THINGS, key.name, patch, key.namespace, subresource="status", field_manager=FIELD_MANAGER
                )
            return Result()

        controller: Controller[ObjectKey, None] = manager.controller("things", is_limited=False)
        controller.watches(things, when=_spec_changed)
        controller.reconciles(reconcile)
        await manager.run(asyncio.Event())


async def reconcile_changes_in_a_resync(options: argparse.Namespace) -> None:
    """Reconcile all keys over and over, and report when the reconciles of so many changes began."""
    began: list[tuple[str, int, float, float]] = []
    async with await Client.from_kubeconfig(options.kubeconfig, options=UNLIMITED) as client:
        manager = Manager(client, namespace=options.namespace)
        things = manager.informer(THINGS)

        async def reconcile(key: ObjectKey, causes: Causes, _state: None) -> Result:
            if CHANGED in causes:
                now, used = time.monotonic(), time.process_time()
                thing = things.cache.get(key)
                assert thing is not None
                began.append((key.name, thing.spec.rules[0].weight, now, used))
                if len(began) == options.changes:
                    report({"began": began})
            await asyncio.sleep(0)
            return Result()

        async def resync_for_ever() -> None:
            await manager.wait_synced()
            report({"resyncing": len(things.cache)})
            await _resync_for_ever(things, controller)

        controller: Controller[ObjectKey, None] = manager.controller("things")
        controller.watches(things, cause=CHANGED)
        controller.reconciles(reconcile)
        manager.runs(resync_for_ever, name="resync")
        await manager.run(asyncio.Event())


async def watch_changes(options: argparse.Namespace) -> None:
    """Tell when so many changes arrived, as soon as their bytes are there: nothing is decoded.

    Both by the clock and by the CPU time that the controller had used by then.
    """
    arrived: list[tuple[str, int, float, float]] = []
    async with await Client.from_kubeconfig(options.kubeconfig, options=UNLIMITED) as client:
        version = (await client.list(THINGS_AS_DICTS, options.namespace, page_size=500)).resource_version
        report({"watching": version})
        async for batch in client.watch_lines(THINGS, options.namespace, resource_version=version):
            now, used = time.monotonic(), cpu_seconds(options.controller)
            arrived += [
                (found[1].decode(), int(found[2]), now, used)
                for line in batch
                if line.startswith(b'{"type":"MODIFIED"') and (found := CHANGE.search(line)) is not None
            ]
            if len(arrived) >= options.changes:
                report({"arrived": arrived})
                await asyncio.Event().wait()


def _spec_changed(change: Change[Thing]) -> bool:
    old, new = change.old, change.new
    return new is not None and (old is None or old.metadata.generation != new.metadata.generation)


async def _resync_for_ever(informer: Informer[Thing], controller: Controller[ObjectKey, None]) -> None:
    """Keep the queue full of all keys, as after a restart: added a few at a time, as fast as they are worked off."""
    keys = informer.cache.keys()
    batches = cycle([keys[start : start + REFILL] for start in range(0, len(keys), REFILL)])
    while True:
        await asyncio.sleep(0.001)
        if len(controller.queue) <= len(keys) - REFILL:
            for key in next(batches):
                controller.queue.add(key, Priority.RESYNC)


if __name__ == "__main__":
    main()
