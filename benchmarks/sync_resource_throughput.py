"""Measures how fast SyncResources are applied: 1,000 of 20 objects each, to 20 clusters, beside a bare client.

Every cluster is a real API server, and the Lifecycle Manager is a process of its own. The time runs from the creation
of the first resource, with a finalizer, until a watch shows the last one as Ready.

The peer is a client that does what Kubernetes requires of any controller and nothing else. It finds new resources of
the same schema by a watch, applies the same objects to another namespace of the same clusters, and writes one status
with the state of each object. It records no intent, and neither parses nor checks anything: the objects are given to
it. Both take turns, and begin each without open connections to the clusters.

Run by `python -m benchmarks.sync_resource_throughput [--clusters 20] [--resources 1000] [--objects 20]`.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
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
from benchmarks.profiling.hops import read_handled
from kube_runtime import Change, Client, Informer, Resource, dump_yaml
from kyma_local.clusters import LocalCluster, LocalClusters
from lifecycle_manager.contract.resources import SYNC_RESOURCES
from lifecycle_manager.process.crd_installation import apply_crds, apply_objects
from lifecycle_manager_api import names
from lifecycle_manager_api.crds import all_crds

BAR, MAX_WRITES = 0.8, 2.0
PEERS_GROUP = "benchmark.kyma-project.io"
CONFIG_MAPS: Resource[dict[str, Any]] = Resource.dynamic("", "v1", "ConfigMap", "configmaps", namespaced=True)
PEERS: Resource[dict[str, Any]] = Resource.dynamic(
    PEERS_GROUP, SYNC_RESOURCES.version, SYNC_RESOURCES.kind, SYNC_RESOURCES.plural, namespaced=True
)
"""The resources of the peer, which the Lifecycle Manager does not watch."""
WRITES = frozenset({("PATCH", "syncresources"), ("PUT", "syncresources"), ("POST", "events"), ("PATCH", "events")})


@dataclass(slots=True)
class Measured:
    """Seconds of both, a round each, and the writes of the Lifecycle Manager to KCP."""

    ours: list[float] = field(default_factory=list)
    peer: list[float] = field(default_factory=list)
    writes: int = 0


def main() -> int:
    """Measure and print the figures; return 1 if a bar was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clusters", type=int, default=20)
    parser.add_argument("--resources", type=int, default=1000)
    parser.add_argument("--objects", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=2, help="how often both take their turn")
    options = parser.parse_args()
    each = options.resources // options.rounds
    measured = uvloop.run(_measure(options.clusters, each, options.objects, options.rounds))
    objects = each * options.rounds * options.objects
    ours, peer = objects / sum(measured.ours), objects / sum(measured.peer)
    Figure(
        name="sync_resource_throughput",
        unit="objects/s",
        value=round(ours, 1),
        peer="a bare client: a watch, finalizers, the same objects, one status write each",
        peer_value=round(peer, 1),
        bar=f"{BAR:g} of the peer or more",
        met=ours / peer >= BAR,
    ).print()
    writes = measured.writes / each / options.rounds
    Figure(
        name="sync_resource_kcp_writes",
        unit="writes for each first apply",
        value=round(writes, 2),
        peer="the status of a bare client",
        peer_value=1.0,
        bar=f"at most {MAX_WRITES:g}, Events included",
        met=writes <= MAX_WRITES,
    ).print()
    return 0 if ours / peer >= BAR and writes <= MAX_WRITES else 1


async def _measure(clusters: int, resources: int, objects: int, rounds: int) -> Measured:
    measured = Measured()
    with TemporaryDirectory(prefix="throughput-") as folder:
        async with AsyncExitStack() as stack:
            started = await stack.enter_async_context(LocalClusters.start(skrs=clusters, directory=Path(folder)))
            kcp = await stack.enter_async_context(await open_client(started.kcp))
            skrs = [await stack.enter_async_context(await open_client(skr)) for skr in started.skrs]
            await _prepare(kcp, skrs)
            await stack.enter_async_context(run_lifecycle_manager(started.kcp.admin_kubeconfig, Path(folder)))
            await register(kcp, started.skrs, ("benchmark",))
            for number in range(rounds):
                mine = range(number * resources, (number + 1) * resources)
                theirs = [_sync_resource(each, clusters, objects, "bare") for each in mine]
                peer = partial(_apply_bare, kcp, started.skrs, theirs, objects, mine.stop)
                measured.peer.append(await _seconds(peer))
                documents = [_sync_resource(each, clusters, objects, "benchmark") for each in mine]
                before = await _writes(kcp)
                measured.ours.append(await _seconds(partial(_sync, kcp, documents, mine.stop)))
                measured.writes += await _writes(kcp) - before
    return measured


async def _prepare(kcp: Client, skrs: Sequence[Client]) -> None:
    await apply_objects(kcp, _namespace(names.KCP_NAMESPACE))
    await apply_crds(kcp)
    await apply_objects(kcp, dump_yaml(_peers_crd()))
    for skr in skrs:
        await apply_objects(skr, "---\n".join(_namespace(name) for name in ("bare", "benchmark")))


def _peers_crd() -> dict[str, Any]:
    """Return the CRD of SyncResources in another group."""
    crd = next(each for each in all_crds() if each["spec"]["names"]["kind"] == SYNC_RESOURCES.kind)
    spec = {**crd["spec"], "group": PEERS_GROUP}
    return {**crd, "metadata": {"name": f"{SYNC_RESOURCES.plural}.{PEERS_GROUP}"}, "spec": spec}


def _namespace(name: str) -> str:
    return dump_yaml({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


async def _apply_bare(
    kcp: Client, clusters: Sequence[LocalCluster], documents: Sequence[dict[str, Any]], objects: int, count: int
) -> None:
    informer: Informer[dict[str, Any]] = Informer(kcp, PEERS, namespace=names.KCP_NAMESPACE)
    places = asyncio.Semaphore(MAX_IN_FLIGHT)

    async def apply(skr: Client, document: dict[str, Any]) -> None:
        async with places:
            name = document["metadata"]["name"]
            await skr.apply(CONFIG_MAPS, name, document, "bare", field_manager="bare")

    async def sync(skr: Client, found: dict[str, Any]) -> None:
        name, number = found["metadata"]["name"], _number_of(found)
        async with asyncio.TaskGroup() as applying:
            for index in range(objects):
                applying.create_task(apply(skr, _applied_object(number, index)))
        status = {"status": _status(number, objects)}
        await kcp.apply(PEERS, name, status, names.KCP_NAMESPACE, field_manager="bare", subresource="status")

    async with AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
        skrs = [await stack.enter_async_context(await open_client(each)) for each in clusters]

        def changed(change: Change[dict[str, Any]]) -> None:
            if change.old is None and change.new is not None:
                tasks.create_task(sync(skrs[_number_of(change.new) % len(skrs)], change.new))

        following = tasks.create_task(informer.run())
        await informer.wait_synced()
        informer.on_change(changed, replay=False)
        await _create(kcp, PEERS, documents)
        await wait_for_objects(kcp, PEERS, lambda each: each.get("status", {}).get("state") == "Ready", count)
        following.cancel()


def _status(number: int, objects: int) -> dict[str, Any]:
    """Return what a controller would at least say: the state of each object, and that all of them are ready."""
    common = {"version": "v1", "kind": "ConfigMap", "namespace": "bare", "group": "", "state": "Ready"}
    now = "2026-11-01T12:00:00Z"
    ready = {"type": "Ready", "status": "True", "reason": "Applied", "message": "", "lastTransitionTime": now}
    synced = [{**common, "name": f"object-{number}-{index}"} for index in range(objects)]
    return {"state": "Ready", "observedGeneration": 1, "conditions": [ready], "synced": synced}


async def _sync(kcp: Client, documents: Sequence[dict[str, Any]], count: int) -> None:
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_create(kcp, SYNC_RESOURCES, documents))
        await wait_for_objects(kcp, SYNC_RESOURCES, lambda each: each.status.state == "Ready", count)


async def _writes(kcp: Client) -> int:
    """Return how many writes to existing SyncResources, and to Events, KCP has handled; those of the peer left out."""
    handled = read_handled((await kcp.raw("GET", "/metrics", accept="text/plain")).decode(), but_group=PEERS_GROUP)
    return sum(each.count for (verb, resource, _), each in handled.items() if (verb, resource) in WRITES)


def _sync_resource(number: int, clusters: int, objects: int, namespace: str) -> dict[str, Any]:
    """Return a SyncResource as the SDK for Module Managers writes it, with the finalizer."""
    text = "---\n".join(dump_yaml(_object(number, index, namespace)) for index in range(objects))
    return {
        "metadata": {"name": f"resource-{number}", "finalizers": [names.SYNC_RESOURCE_FINALIZER]},
        "spec": {"kyma": f"kyma-{number % clusters}", "module": "benchmark", "resource": text},
    }


def _number_of(document: dict[str, Any]) -> int:
    return int(document["metadata"]["name"].rpartition("-")[2])


def _object(number: int, index: int, namespace: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"object-{number}-{index}", "namespace": namespace},
        "data": {f"key-{key}": f"value {key} of object {index} of resource {number}" for key in range(10)},
    }


def _applied_object(number: int, index: int) -> dict[str, Any]:
    """Return an object of the peer with as many labels and annotations as the Lifecycle Manager gives to its own."""
    labels = {names.MANAGED_BY: names.LIFECYCLE_MANAGER, names.WATCHED_BY: "none", names.MODULE_NAME: "benchmark"}
    owner = {names.OWNED_BY: f"{names.KCP_NAMESPACE}/resource-{number}"}
    document = _object(number, index, "bare")
    return {**document, "metadata": {**document["metadata"], "labels": labels, "annotations": owner}}


async def _create(kcp: Client, resource: Resource[Any], documents: Iterable[dict[str, Any]]) -> None:
    """Create resources, MAX_IN_FLIGHT at once."""
    remaining = iter(documents)

    async def worker() -> None:
        for each in remaining:
            await kcp.create(resource, each, names.KCP_NAMESPACE, field_manager="benchmark")

    async with asyncio.TaskGroup() as tasks:
        for _ in range(MAX_IN_FLIGHT):
            tasks.create_task(worker())


async def _seconds(act: Callable[[], Awaitable[None]]) -> float:
    began = time.perf_counter()
    await act()
    return time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(main())
