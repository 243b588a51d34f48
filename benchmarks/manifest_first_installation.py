"""Measures the first installation of a module of 40 objects in a cluster, beside a bare client.

The clusters are real API servers, and the Lifecycle Manager is a process of its own. Its time runs from the creation
of the Manifest until it is Ready: that includes its inventory, the download of the layer, and the check of the
module's manager. The peers apply the same objects of another module with the same concurrency, and only wait for the
CRDs to be served. One of them also creates a Manifest, records there what it is about to apply, and writes the outcome.

Run by `python -m benchmarks.manifest_first_installation [--modules 10]`.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import uvloop

from benchmarks.figures import Figure
from benchmarks.processes.lifecycle_manager import open_client, register, run_lifecycle_manager, wait_for_objects
from kube_runtime import Applier, Client, InventoryEntry, KubernetesObject
from kyma_local.clusters import LocalClusters
from lifecycle_manager.contract.resources import MANIFESTS
from lifecycle_manager.contract.writes import write_status
from lifecycle_manager.module_installation.snapshot import ManifestSnapshot
from lifecycle_manager.module_installation.status import begun, installed
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
    """Measure and print a figure for each peer; return 1 if a bar was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--modules", type=int, default=10)
    ours, bare, recording = uvloop.run(_measure(parser.parse_args().modules))
    for name, peer, seconds in (
        ("", "a bare client that applies the same objects", bare),
        ("_with_records", "a client that also records in KCP what it applies", recording),
    ):
        Figure(
            name=f"manifest_first_installation{name}",
            unit="ms",
            value=round(ours * 1000, 1),
            peer=peer,
            peer_value=round(seconds * 1000, 1),
            bar=f"{BAR:g} times the peer or less",
            met=ours / seconds <= BAR,
        ).print()
    return 0 if ours / min(bare, recording) <= BAR else 1


async def _measure(modules: int) -> tuple[float, float, float]:
    """Return the medians of the Lifecycle Manager, the bare client and the one that records; they take turns."""
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
            wanted = [f"ours{number}" for number in range(modules)]
            recorded = [f"recorded{number}" for number in range(modules)]
            # The Kyma has to list the modules: others are removed, which would go on beside what is measured.
            await register(kcp, started.skrs, [*wanted, *recorded])
            ours, bare, recording = [], [], []
            for number, module in enumerate(wanted):
                await asyncio.sleep(PAUSE_SECONDS)
                bare.append(await _apply_bare(skr, operator(f"bare{number}", "1.0.0")))
                await asyncio.sleep(PAUSE_SECONDS)
                recording.append(await _apply_recording(kcp, skr, recorded[number]))
                await asyncio.sleep(PAUSE_SECONDS)
                ours.append(await _install(kcp, layers, module))
    return median(ours), median(bare), median(recording)


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


async def _apply_recording(kcp: Client, skr: Client, module: str) -> float:
    """Apply objects for a Manifest that Lifecycle Manager skips, and record before and after what is in the cluster."""
    documents = operator(module, "1.0.0")
    entries = [_entry(each) for each in documents]
    manifest = _manifest(module, "registry.example.com", f"sha256:{'0' * 64}")
    manifest["metadata"]["labels"][names.SKIP_RECONCILIATION] = "true"
    began = time.perf_counter()
    created = await kcp.create(MANIFESTS, manifest, names.KCP_NAMESPACE, field_manager="recording")
    intended = begun(created, entries)
    await write_status(kcp, MANIFESTS, created.metadata, intended, field_manager="recording")
    await _apply_bare(skr, documents)
    applied = msgspec.structs.replace(created, status=intended)
    seen = ManifestSnapshot(resource=applied, now=datetime.now(UTC), seconds=0.0, inventory=tuple(entries))
    await write_status(kcp, MANIFESTS, created.metadata, installed(seen).status, field_manager="recording")
    return time.perf_counter() - began


def _entry(document: dict[str, Any]) -> InventoryEntry:
    group, _, version = document["apiVersion"].rpartition("/")
    metadata = document["metadata"]
    return InventoryEntry(group, version, document["kind"], metadata.get("namespace", ""), metadata["name"])


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
