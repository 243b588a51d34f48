"""Measures how fast SyncResources are applied: 1,000 of 20 objects each, to 20 clusters, beside a bare client.

Every cluster is a real API server, and the Lifecycle Manager is a process of its own. Its time runs from the creation
of the first SyncResource until the last one is Ready, which includes finalizers, inventories and states. The peer
applies the same objects to another namespace of the same clusters, by a client that does nothing else.

Run by `python -m benchmarks.sync_resource_throughput [--clusters 20] [--resources 1000] [--objects 20]`.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import uvloop

from benchmarks.figures import Figure
from benchmarks.processes.lifecycle_manager import (
    MAX_IN_FLIGHT,
    open_client,
    register,
    run_lifecycle_manager,
    wait_for_objects,
)
from kube_runtime import Client, Resource, dump_yaml
from kyma_local.clusters import LocalClusters
from lifecycle_manager.crd_installation import apply_crds, apply_objects
from lifecycle_manager.resources import SYNC_RESOURCES
from lifecycle_manager_api import names

BAR = 0.8
CONFIG_MAPS: Resource[dict[str, Any]] = Resource.dynamic("", "v1", "ConfigMap", "configmaps", namespaced=True)


def main() -> int:
    """Measure and print one figure; return 1 if the bar was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clusters", type=int, default=20)
    parser.add_argument("--resources", type=int, default=1000)
    parser.add_argument("--objects", type=int, default=20)
    options = parser.parse_args()
    ours, peer = uvloop.run(_measure(options.clusters, options.resources, options.objects))
    Figure(
        name="sync_resource_throughput",
        unit="objects/s",
        value=round(ours, 1),
        peer="a bare client that applies the same objects",
        peer_value=round(peer, 1),
        bar=f"{BAR:g} of the peer or more",
        met=ours / peer >= BAR,
    ).print()
    return 0 if ours / peer >= BAR else 1


async def _measure(clusters: int, resources: int, objects: int) -> tuple[float, float]:
    """Return objects per second of the Lifecycle Manager and of the bare client."""
    with TemporaryDirectory(prefix="throughput-") as folder:
        async with AsyncExitStack() as stack:
            started = await stack.enter_async_context(LocalClusters.start(skrs=clusters, directory=Path(folder)))
            kcp = await stack.enter_async_context(await open_client(started.kcp))
            skrs = [await stack.enter_async_context(await open_client(skr)) for skr in started.skrs]
            await _prepare(kcp, skrs)
            await stack.enter_async_context(run_lifecycle_manager(started.kcp.admin_kubeconfig, Path(folder)))
            await register(kcp, started.skrs)
            documents = [_sync_resource(number, clusters, objects) for number in range(resources)]
            peer = await _seconds(lambda: _apply_bare(skrs, resources, objects))
            ours = await _seconds(lambda: _sync(kcp, documents))
    return resources * objects / ours, resources * objects / peer


async def _prepare(kcp: Client, skrs: Sequence[Client]) -> None:
    await apply_objects(kcp, _namespace(names.KCP_NAMESPACE))
    await apply_crds(kcp)
    for skr in skrs:
        await apply_objects(skr, "---\n".join(_namespace(name) for name in ("bare", "benchmark")))


def _namespace(name: str) -> str:
    return dump_yaml({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


async def _apply_bare(skrs: Sequence[Client], resources: int, objects: int) -> None:
    async def apply(number: int, index: int) -> None:
        document = _object(number, index, "bare")
        name = document["metadata"]["name"]
        await skrs[number % len(skrs)].apply(CONFIG_MAPS, name, document, "bare", field_manager="bare")

    await _all([partial(apply, number, index) for number in range(resources) for index in range(objects)])


async def _sync(kcp: Client, documents: Sequence[dict[str, Any]]) -> None:
    async def write(document: dict[str, Any]) -> None:
        await kcp.create(SYNC_RESOURCES, document, names.KCP_NAMESPACE, field_manager="benchmark")

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_all([partial(write, document) for document in documents]))
        await wait_for_objects(kcp, SYNC_RESOURCES, lambda each: each.status.state == "Ready", len(documents))


def _sync_resource(number: int, clusters: int, objects: int) -> dict[str, Any]:
    text = "---\n".join(dump_yaml(_object(number, index, "benchmark")) for index in range(objects))
    return {
        "metadata": {"name": f"resource-{number}"},
        "spec": {"kyma": f"kyma-{number % clusters}", "module": "benchmark", "resource": text},
    }


def _object(number: int, index: int, namespace: str) -> dict[str, Any]:
    labels = {names.MANAGED_BY: names.LIFECYCLE_MANAGER, names.MODULE_NAME: "benchmark"}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"object-{number}-{index}", "namespace": namespace, "labels": labels},
        "data": {f"key-{key}": f"value {key} of object {index} of resource {number}" for key in range(10)},
    }


async def _all(work: Sequence[Callable[[], Awaitable[None]]]) -> None:
    """Await all of it, MAX_IN_FLIGHT at once."""
    remaining = iter(work)

    async def worker() -> None:
        for each in remaining:
            await each()

    async with asyncio.TaskGroup() as tasks:
        for _ in range(MAX_IN_FLIGHT):
            tasks.create_task(worker())


async def _seconds(act: Callable[[], Awaitable[None]]) -> float:
    began = time.perf_counter()
    await act()
    return time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(main())
