"""The runtime's own programs in the benchmarks, one a role: what is measured, written as its users would write it."""

import argparse
import asyncio
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import uvloop

from benchmarks.peers.reporting import report
from benchmarks.peers.things import CONFIG_MAPS, THINGS, THINGS_AS_DICTS, UNLIMITED, Thing
from kube_runtime import Causes, Change, Client, Controller, Informer, Manager, ObjectKey, Resource, Result

FIELD_MANAGER = "kube-runtime"


def main() -> None:
    """Take up a role, until killed."""
    roles: dict[str, Callable[[argparse.Namespace], Coroutine[Any, Any, None]]] = {
        "cache": fill_cache,
        "reconcile": run_controller,
    }
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--role", choices=roles, required=True)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--namespace", required=True)
    parser.add_argument("--as-dicts", action="store_true")
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


def _spec_changed(change: Change[Thing]) -> bool:
    old, new = change.old, change.new
    return new is not None and (old is None or old.metadata.generation != new.metadata.generation)


if __name__ == "__main__":
    main()
