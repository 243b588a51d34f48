"""Measures the first installation of a module of 40 objects in a cluster, beside a bare client.

The clusters are real API servers, and the Lifecycle Manager is a process of its own. Its time runs from the creation
of the Manifest until it is Ready: that includes its inventory, the download of the layer, and the check of the
module's manager. The peer applies the same objects of another module with the same concurrency, and only waits for the
CRDs to be served.

Run by `python -m benchmarks.manifest_first_installation [--modules 10]`.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import uvloop

from benchmarks.figures import Figure
from benchmarks.processes.lifecycle_manager import open_client, register, run_lifecycle_manager, wait_for_objects
from kube_runtime import Applier, Client, KubernetesObject
from kyma_local.clusters import LocalClusters
from lifecycle_manager.contract.resources import MANIFESTS
from lifecycle_manager.process.crd_installation import apply_crds, apply_objects
from lifecycle_manager_api import names
from tests.modules import as_text, operator
from tests.registries import BlobServer, blob_server, packed

BAR = 1.25
PAUSE_SECONDS = (
    1.5  # before each one, until follow-up work of the previous one is done: CRDs published, states computed
)
NAMESPACES = "---\n".join(
    f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n" for name in ("kcp-system", "kyma-system")
)


def main() -> int:
    """Measure and print one figure; return 1 if the bar was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--modules", type=int, default=10)
    ours, peer = uvloop.run(_measure(parser.parse_args().modules))
    Figure(
        name="manifest_first_installation",
        unit="ms",
        value=round(ours * 1000, 1),
        peer="a bare client that applies the same objects",
        peer_value=round(peer * 1000, 1),
        bar=f"{BAR:g} times the peer or less",
        met=ours / peer <= BAR,
    ).print()
    return 0 if ours / peer <= BAR else 1


async def _measure(modules: int) -> tuple[float, float]:
    """Return the medians of the Lifecycle Manager and of the bare client, in seconds; they take turns."""
    with TemporaryDirectory(prefix="manifests-") as folder:
        async with AsyncExitStack() as stack:
            started = await stack.enter_async_context(LocalClusters.start(skrs=1, directory=Path(folder)))
            kcp = await stack.enter_async_context(await open_client(started.kcp))
            skr = await stack.enter_async_context(await open_client(started.skrs[0]))
            await apply_objects(kcp, NAMESPACES)
            await apply_objects(skr, NAMESPACES)
            await apply_crds(kcp)
            layers = await stack.enter_async_context(blob_server())
            await stack.enter_async_context(run_lifecycle_manager(started.kcp.admin_kubeconfig, Path(folder)))
            # The Kyma has to list the modules: Manifests of other modules are deleted.
            wanted = [f"ours{number}" for number in range(modules)]
            await register(kcp, started.skrs, wanted)
            ours, peer = [], []
            for number, module in enumerate(wanted):
                await asyncio.sleep(PAUSE_SECONDS)
                peer.append(await _apply_bare(skr, operator(f"bare{number}", "1.0.0")))
                await asyncio.sleep(PAUSE_SECONDS)
                ours.append(await _install(kcp, layers, module))
    return median(ours), median(peer)


async def _install(kcp: Client, layers: BlobServer, module: str) -> float:
    digest = layers.hold(packed({"module.yaml": as_text(operator(module, "1.0.0"))}))
    manifest = _manifest(module, layers.host, digest)

    def ready(each: Any) -> bool:
        return bool(each.metadata.name == module and each.status.state == "Ready")

    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(wait_for_objects(kcp, MANIFESTS, ready, 1))
        began = time.perf_counter()
        await kcp.create(MANIFESTS, manifest, names.KCP_NAMESPACE, field_manager="benchmark")
        await waiting
        return time.perf_counter() - began


async def _apply_bare(skr: Client, documents: Sequence[dict[str, Any]]) -> float:
    """Apply objects as a client that waits for CRDs, eight at once."""
    objects = [KubernetesObject.of(document, index) for index, document in enumerate(documents)]
    began = time.perf_counter()
    result = await Applier(skr, field_manager="bare").apply(objects)
    result.raise_first_failure()
    return time.perf_counter() - began


def _manifest(module: str, host: str, digest: str) -> dict[str, Any]:
    source = {"type": "oci-ref", "repo": f"http://{host}/modules", "name": module, "ref": digest}
    labels = {names.KYMA_NAME: "kyma-0", names.MODULE_NAME: module, names.MANAGED_BY: names.LIFECYCLE_MANAGER}
    manager = {"group": "", "version": "v1", "kind": "Service", "name": f"{module}-manager", "namespace": "kyma-system"}
    install = {"name": "raw-manifest", "source": source}
    spec = {"install": install, "remote": True, "version": "1.0.0", "manager": manager}
    metadata = {
        "name": module,
        "labels": labels,
        "finalizers": [names.MANIFEST_FINALIZER],
    }  # as Lifecycle Manager creates them
    return {"metadata": metadata, "spec": spec}


if __name__ == "__main__":
    sys.exit(main())
