"""How long a catalog of 300 ModuleTemplates and 60 ModuleReleaseMetas takes to be in a fresh cluster.

The clusters are real API servers, and the Lifecycle Manager is a process of its own that has brought the catalog to
another cluster already. Its time runs from the Kyma that is created until it says that its cluster has the catalog: it
includes the namespace, the definitions, the users' Kyma CR, and the Watcher that is set up at the same time. The peer
applies the same objects to a cluster that has the definitions, as many at once. The bar is one of seconds: nothing else
may run on the machine.

Run by `python -m benchmarks.catalog_first_sync`.
"""

import asyncio
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import uvloop

from benchmarks.figures import Figure
from benchmarks.sync_resource_throughput import _client, _create_kyma, _lifecycle_manager, _register, _until
from kube_runtime import Client, Resource
from kyma_local.clusters import LocalClusters
from lifecycle_manager.crd_installation import apply_crds, apply_objects
from lifecycle_manager.resources import KYMAS, MODULE_RELEASE_METAS, MODULE_TEMPLATES
from lifecycle_manager_api import as_document, find, names
from tests import builders

MODULES, VERSIONS = 60, 5
BAR_SECONDS = 5.0
AT_ONCE = 16
DESCRIPTOR_BYTES = 6_000
NAMESPACES = "---\n".join(
    f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n" for name in (names.KCP_NAMESPACE, "bare")
)


def main() -> int:
    """Measure and print one figure; return 1 where the bar was missed."""
    ours, peer = uvloop.run(_measure())
    met = ours < BAR_SECONDS
    Figure(
        name="catalog_first_sync",
        unit="s",
        value=round(ours, 2),
        peer="a bare client that applies the same objects",
        peer_value=round(peer, 2),
        bar=f"under {BAR_SECONDS:g} s",
        met=met,
    ).print()
    return 0 if met else 1


async def _measure() -> tuple[float, float]:
    """Return the time of the Lifecycle Manager, and that of the bare client before it."""
    with TemporaryDirectory(prefix="catalog-") as folder:
        async with AsyncExitStack() as stack:
            started = await stack.enter_async_context(LocalClusters.start(skrs=3, directory=Path(folder)))
            kcp = await stack.enter_async_context(await _client(started.kcp))
            bare = await stack.enter_async_context(await _client(started.skrs[2]))
            for client in (kcp, bare):
                await apply_objects(client, NAMESPACES)
                await apply_crds(client)
            documents = _catalog()
            await _apply(kcp, names.KCP_NAMESPACE, documents)
            began = time.perf_counter()
            await _apply(bare, "bare", documents)
            peer = time.perf_counter() - began
            await stack.enter_async_context(_lifecycle_manager(started.kcp.admin_kubeconfig, Path(folder)))
            await _register(kcp, started.skrs[:1])
            await _until(kcp, KYMAS, _has_catalog, 1)
            began = time.perf_counter()
            await _create_kyma(kcp, "fresh", started.skrs[1])
            await _until(kcp, KYMAS, _has_catalog, 2)
            return time.perf_counter() - began, peer


def _has_catalog(kyma: Any) -> bool:
    condition = find(kyma.status.conditions, "ModuleCatalog")
    return condition is not None and condition.status == "True"


def _catalog() -> Sequence[dict[str, Any]]:
    documents = []
    for number in range(MODULES):
        module = f"module-{''.join(chr(ord('a') + int(digit)) for digit in f'{number:03}')}"
        versions = [f"{major}.0.0" for major in range(1, VERSIONS + 1)]
        documents += [_document(builders.template(module, version, installs=True)) for version in versions]
        documents.append(_document(builders.release(module, regular=versions[0], fast=versions[-1])))
    return documents


def _document(item: Any) -> dict[str, Any]:
    """Return an object as a team writes it, with a descriptor of the size that real ones have."""
    document = as_document(item)
    if item.KIND == "ModuleTemplate":
        document["spec"]["descriptor"]["component"]["labels"] = [{"name": "more", "value": "x" * DESCRIPTOR_BYTES}]
    return {**document, "metadata": {"name": item.metadata.name}}


async def _apply(client: Client, namespace: str, documents: Sequence[dict[str, Any]]) -> None:
    places = asyncio.Semaphore(AT_ONCE)

    async def apply(document: dict[str, Any]) -> None:
        resource: Resource[Any] = MODULE_TEMPLATES if document["kind"] == "ModuleTemplate" else MODULE_RELEASE_METAS
        async with places:
            await client.apply(resource, document["metadata"]["name"], document, namespace, field_manager="team")

    async with asyncio.TaskGroup() as tasks:
        for document in documents:
            tasks.create_task(apply(document))


if __name__ == "__main__":
    sys.exit(main())
