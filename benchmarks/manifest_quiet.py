"""Measures a module without changes: CPU and requests to its cluster of one reconcile that finds nothing to do.

The reconciler runs in this process, against real API servers, on a module of 40 objects whose Module CR is Ready.
Between two reads of all objects, which are an interval apart, one request has to be enough.

Run by `python -m benchmarks.manifest_quiet [--rounds 2000]`.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import uvloop

from benchmarks.figures import Figure
from benchmarks.manifest_first_installation import NAMESPACES, _manifest
from benchmarks.processes.lifecycle_manager import open_client
from kube_runtime import Client, Controller, Informer, Manager, ManagerOptions, ObjectKey
from kyma_local.clusters import LocalClusters
from kyma_oci import ComponentVersion, FoundDescriptor, LookupFailed, Registries
from kyma_oci.signatures import Cosigned
from lifecycle_manager import module_catalog, module_installation
from lifecycle_manager.contract.resources import MANIFESTS
from lifecycle_manager.module_installation import Logins, ManifestSettings
from lifecycle_manager.module_installation.snapshot import ManifestState
from lifecycle_manager.module_sources import Blobs, ObjectStore
from lifecycle_manager.process.crd_installation import apply_crds, apply_objects
from lifecycle_manager.skr import Connections
from lifecycle_manager_api import Manifest, names
from tests.modules import as_text, default_module_cr, module_crs, operator
from tests.registries import blob_server, packed

MAX_SECONDS = 0.001
MAX_REQUESTS = 1
MODULE = "quiet"
KEY = ObjectKey(names.KCP_NAMESPACE, MODULE)


class OneCluster:
    """Lends the client of the only cluster, and counts its requests."""

    def __init__(self, client: Client) -> None:
        self.requests = 0
        self._client = client
        transport = client._transport  # noqa: SLF001 - the requests that are sent are counted
        sent = transport.request

        async def counted(*given: Any, **options: Any) -> Any:
            self.requests += 1
            return await sent(*given, **options)

        transport.request = counted  # type: ignore[method-assign]

    @asynccontextmanager
    async def to(self, _kyma: str) -> AsyncIterator[Client]:
        """Lend the client of a Kyma's cluster."""
        yield self._client


def main() -> int:
    """Measure and print two figures; return 1 if a bar was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=2000)
    seconds, requests = uvloop.run(_measure(parser.parse_args().rounds))
    figures = [
        Figure(
            name="manifest_quiet_cpu",
            unit="ms",
            value=round(seconds * 1000, 3),
            peer="the bar",
            peer_value=MAX_SECONDS * 1000,
            bar="less than 1 ms",
            met=seconds < MAX_SECONDS,
        ),
        Figure(
            name="manifest_quiet_requests",
            unit="requests",
            value=requests,
            peer="the bar",
            peer_value=MAX_REQUESTS,
            bar="at most one",
            met=requests <= MAX_REQUESTS,
        ),
    ]
    for figure in figures:
        figure.print()
    return 0 if all(figure.met for figure in figures) else 1


async def _measure(rounds: int) -> tuple[float, float]:
    """Return CPU seconds and requests of one reconcile."""
    with TemporaryDirectory(prefix="quiet-") as folder:
        async with AsyncExitStack() as stack:
            started = await stack.enter_async_context(LocalClusters.start(skrs=1, directory=Path(folder)))
            kcp = await stack.enter_async_context(await open_client(started.kcp))
            skr = await stack.enter_async_context(await open_client(started.skrs[0]))
            await apply_objects(kcp, NAMESPACES)
            await apply_objects(skr, NAMESPACES)
            await apply_crds(kcp)
            layers = await stack.enter_async_context(blob_server())
            digest = layers.hold(packed({"module.yaml": as_text(operator(MODULE, "1.0.0"))}))
            document = _manifest(MODULE, layers.host, digest)
            document["spec"]["resource"] = default_module_cr(MODULE)
            await kcp.create(MANIFESTS, document, names.KCP_NAMESPACE, field_manager="benchmark")
            return await _reconcile(kcp, OneCluster(skr), skr, Path(folder), rounds)


async def _reconcile(kcp: Client, cluster: OneCluster, skr: Client, folder: Path, rounds: int) -> tuple[float, float]:
    manager = Manager(kcp, ManagerOptions(name="benchmark"), namespace=names.KCP_NAMESPACE)
    registries = Registries()
    controller = module_installation.setup(
        manager,
        cast("Connections", cluster),
        module_catalog.setup(manager, NoComponents(), _no_link),
        ObjectStore(registries, _no_link, Blobs(folder / "layers")),
        Logins(kcp),
        ManifestSettings(),
    )
    async with manager.background():
        await manager.wait_synced()
        await _until_ready(controller, manager.informer(MANIFESTS), skr)
        before, began = cluster.requests, time.process_time()
        for _ in range(rounds):
            await controller.reconcile_now(KEY)
        seconds, requests = time.process_time() - began, cluster.requests - before
    await registries.close()
    return seconds / rounds, requests / rounds


async def _until_ready(
    controller: Controller[ObjectKey, ManifestState], manifests: Informer[Manifest], skr: Client
) -> None:
    async with asyncio.timeout(30):
        while (manifest := manifests.get(KEY)) is None or manifest.status.state != "Ready":
            await controller.reconcile_now(KEY)
            if manifest is not None and manifest.status.state == "Processing":
                status = {"status": {"state": "Ready"}}
                await skr.merge_patch(module_crs(MODULE), "default", status, "kyma-system", subresource="status")
            await asyncio.sleep(0.1)


class NoComponents:
    """A registry without components."""

    async def descriptor(self, wanted: ComponentVersion, pinned: str = "") -> FoundDescriptor:
        raise LookupFailed(f"no registry for {wanted} {pinned}", again_after_seconds=3600)

    async def cosigned(self, wanted: ComponentVersion, digest: str) -> tuple[Cosigned, ...]:
        raise LookupFailed(f"no registry for {wanted} {digest}", again_after_seconds=3600)


async def _no_link(link: str) -> str:
    raise AssertionError(link)


if __name__ == "__main__":
    sys.exit(main())
