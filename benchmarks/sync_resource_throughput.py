"""How fast SyncResources reach their clusters: 1,000 of 20 objects each, to 20 clusters, beside a bare client.

Every cluster is a real API server, and the Lifecycle Manager is a process of its own. Its time runs from the first
SyncResource that is written until the last one says Ready, which includes finalizers, inventories and states. The peer
applies the same objects, into another namespace of the same clusters, by a client that does nothing else.

Run by `python -m benchmarks.sync_resource_throughput [--clusters 20] [--resources 1000] [--objects 20]`.
"""

import argparse
import asyncio
import base64
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import uvloop

from benchmarks.figures import Figure
from kube_runtime import Client, ClientOptions, Informer, Resource, dump_yaml
from kyma_local.clusters import LocalCluster, LocalClusters
from kyma_local.ports import free_port
from kyma_local.processes import ChildProcess, start_child, tail
from lifecycle_manager.crd_installation import apply_crds, apply_objects
from lifecycle_manager.resources import KYMAS, SECRETS, SYNC_RESOURCES
from lifecycle_manager_api import find, names

BAR = 0.8
AT_ONCE = 64
PATIENCE_SECONDS = 180.0
UNLIMITED = ClientOptions(qps=0, max_in_flight=AT_ONCE, timeout_seconds=60)
CONFIG_MAPS: Resource[dict[str, Any]] = Resource.dynamic("", "v1", "ConfigMap", "configmaps", namespaced=True)


def main() -> int:
    """Measure and print one figure; return 1 where the bar was missed."""
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
    """Return objects a second, of the Lifecycle Manager and of the bare client."""
    with TemporaryDirectory(prefix="throughput-") as folder:
        async with AsyncExitStack() as stack:
            started = await stack.enter_async_context(LocalClusters.start(skrs=clusters, directory=Path(folder)))
            kcp = await stack.enter_async_context(await _client(started.kcp))
            skrs = [await stack.enter_async_context(await _client(skr)) for skr in started.skrs]
            await _prepare(kcp, skrs)
            await stack.enter_async_context(_lifecycle_manager(started.kcp.admin_kubeconfig, Path(folder)))
            await _register(kcp, started.skrs)
            documents = [_sync_resource(number, clusters, objects) for number in range(resources)]
            peer = await _seconds(lambda: _apply_bare(skrs, resources, objects))
            ours = await _seconds(lambda: _sync(kcp, documents))
    return resources * objects / ours, resources * objects / peer


async def _client(cluster: LocalCluster) -> Client:
    return await Client.from_environment(cluster.admin_kubeconfig, options=UNLIMITED)


async def _prepare(kcp: Client, skrs: Sequence[Client]) -> None:
    await apply_objects(kcp, _namespace(names.KCP_NAMESPACE))
    await apply_crds(kcp)
    for skr in skrs:
        await apply_objects(skr, "---\n".join(_namespace(name) for name in ("bare", "synced")))


def _namespace(name: str) -> str:
    return dump_yaml({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


@asynccontextmanager
async def _lifecycle_manager(kubeconfig: Path, folder: Path) -> AsyncIterator[None]:
    command = [
        str(Path(sys.executable).with_name("klm")),
        "run",
        f"--kubeconfig={kubeconfig}",
        "--kyma-skr-listener-bind-address=127.0.0.1:0",
        "--metrics-bind-address=127.0.0.1:0",
        "--health-probe-bind-address=127.0.0.1:0",
        f"--replica-bind-address=127.0.0.1:{free_port()}",
        "--replica-name=lifecycle-manager",
        "--k8s-client-qps=100000",
        "--k8s-skr-client-qps=100000",
        "--sync-resource-requeue-success-interval=1h",
        "--log-level=WARNING",
    ]
    child = await start_child("lifecycle-manager", command, folder / "lifecycle-manager.log")
    async with asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(_until_it_ends(child))
        try:
            yield
        finally:
            watching.cancel()
            await child.stop()


async def _until_it_ends(child: ChildProcess) -> None:
    """Raise where a program ends by itself, so that nobody waits for it."""
    code = await child.process.wait()
    raise RuntimeError(f"{child.name} ended with code {code}:\n{tail(child.log)}")


async def _register(kcp: Client, skrs: Sequence[LocalCluster], modules: Sequence[str] = ()) -> None:
    """Make a Kyma for each cluster that asks for these modules, and wait until each was reached."""
    spec = {"channel": "regular", "modules": [{"name": module} for module in modules]}
    for number, skr in enumerate(skrs):
        await _create_kyma(kcp, f"kyma-{number}", skr, spec)

    def reached(kyma: Any) -> bool:
        condition = find(kyma.status.conditions, "SKRReachable")
        return condition is not None and condition.status == "True"

    await _until(kcp, KYMAS, reached, len(skrs))


async def _create_kyma(kcp: Client, name: str, skr: LocalCluster, spec: dict[str, Any] | None = None) -> None:
    labels = {names.KYMA_NAME: name, names.MANAGED_BY: names.LIFECYCLE_MANAGER}
    config = base64.b64encode(skr.admin_kubeconfig.read_bytes()).decode()
    secret = {"metadata": {"name": f"kubeconfig-{name}", "labels": labels}, "data": {"config": config}}
    asked_for = spec or {"channel": "regular"}
    kyma = {"metadata": {"name": name, "labels": {names.RUNTIME_ID: name}}, "spec": asked_for}
    await kcp.create(SECRETS, secret, names.KCP_NAMESPACE, field_manager="benchmark")
    await kcp.create(KYMAS, kyma, names.KCP_NAMESPACE, field_manager="benchmark")


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
        await _until(kcp, SYNC_RESOURCES, lambda each: each.status.state == "Ready", len(documents))


def _sync_resource(number: int, clusters: int, objects: int) -> dict[str, Any]:
    text = "---\n".join(dump_yaml(_object(number, index, "synced")) for index in range(objects))
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


async def _until(kcp: Client, resource: Resource[Any], wanted: Callable[[Any], bool], count: int) -> None:
    """Wait until that many objects are as wanted."""
    informer: Informer[Any] = Informer(kcp, resource, namespace=names.KCP_NAMESPACE)
    done: set[str] = set()
    reached = asyncio.Event()

    def changed(change: Any) -> None:
        if change.new is not None and wanted(change.new):
            done.add(change.new.metadata.name)
            if len(done) >= count:
                reached.set()

    informer.on_change(changed)
    async with asyncio.timeout(PATIENCE_SECONDS), asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(informer.run())
        await reached.wait()
        watching.cancel()


async def _all(work: Sequence[Callable[[], Awaitable[None]]]) -> None:
    """Do all of it, a number of things at once."""
    left = iter(work)

    async def worker() -> None:
        for each in left:
            await each()

    async with asyncio.TaskGroup() as tasks:
        for _ in range(AT_ONCE):
            tasks.create_task(worker())


async def _seconds(act: Callable[[], Awaitable[None]]) -> float:
    began = time.perf_counter()
    await act()
    return time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(main())
