"""Measures how long a new cluster takes to get a catalog of 300 ModuleTemplates and 60 ModuleReleaseMetas.

The clusters are real API servers, and the Lifecycle Manager is a process of its own that has already synced the
catalog to another cluster. Its time runs from the creation of the Kyma until its condition says that the cluster has
the catalog: it includes the namespace, the CRDs, the users' Kyma CR, and the Watcher that is installed at the same
time. The peer applies the same objects to a cluster that has the CRDs, with the same concurrency. The bar is in
seconds, so nothing else may run on the machine.

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
from benchmarks.processes.lifecycle_manager import (
    create_kyma,
    open_client,
    register,
    run_lifecycle_manager,
    wait_for_objects,
)
from kube_runtime import Client, Resource
from kyma_local.clusters import LocalClusters
from lifecycle_manager.contract.resources import KYMAS, MODULE_RELEASE_METAS, MODULE_TEMPLATES
from lifecycle_manager.process.crd_installation import apply_crds, apply_objects
from lifecycle_manager_api import as_document, find, names
from tests import builders

MODULES, VERSIONS = 60, 5
BAR_SECONDS = 5.0
CONCURRENCY = 16
DESCRIPTOR_BYTES = 6_000
NAMESPACES = "---\n".join(
    f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n" for name in (names.KCP_NAMESPACE, "bare")
)


def main() -> int:
    """Measure and print one figure; return 1 if the bar was missed."""
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
    """Return the seconds of the Lifecycle Manager and of the bare client, which runs first."""
    with TemporaryDirectory(prefix="catalog-") as folder:
        async with AsyncExitStack() as stack:
            started = await stack.enter_async_context(LocalClusters.start(skrs=3, directory=Path(folder)))
            kcp = await stack.enter_async_context(await open_client(started.kcp))
            bare = await stack.enter_async_context(await open_client(started.skrs[2]))
            for client in (kcp, bare):
                await apply_objects(client, NAMESPACES)
                await apply_crds(client)
            documents = _catalog()
            await _apply(kcp, names.KCP_NAMESPACE, documents)
            began = time.perf_counter()
            await _apply(bare, "bare", documents)
            peer = time.perf_counter() - began
            await stack.enter_async_context(run_lifecycle_manager(started.kcp.admin_kubeconfig, Path(folder)))
            await register(kcp, started.skrs[:1])
            await wait_for_objects(kcp, KYMAS, _has_catalog, 1)
            began = time.perf_counter()
            await create_kyma(kcp, "fresh", started.skrs[1])
            await wait_for_objects(kcp, KYMAS, _has_catalog, 2)
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
    """Return an object as a module team writes it, with a descriptor of realistic size."""
    document = as_document(item)
    if item.KIND == "ModuleTemplate":
        document["spec"]["descriptor"]["component"]["labels"] = [{"name": "more", "value": "x" * DESCRIPTOR_BYTES}]
    return {**document, "metadata": {"name": item.metadata.name}}


async def _apply(client: Client, namespace: str, documents: Sequence[dict[str, Any]]) -> None:
    free = asyncio.Semaphore(CONCURRENCY)

    async def apply(document: dict[str, Any]) -> None:
        resource: Resource[Any] = MODULE_TEMPLATES if document["kind"] == "ModuleTemplate" else MODULE_RELEASE_METAS
        async with free:
            await client.apply(resource, document["metadata"]["name"], document, namespace, field_manager="team")

    async with asyncio.TaskGroup() as tasks:
        for document in documents:
            tasks.create_task(apply(document))


if __name__ == "__main__":
    sys.exit(main())
