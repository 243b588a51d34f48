"""An API server with Things on it, as many as asked for."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.peers.things import AT_ONCE, GROUP, THINGS_AS_DICTS, UNLIMITED
from kube_runtime import Client, NotFound, NotServed, Resource
from kyma_local.clusters import LocalClusters

RULES = 20
TIMEOUT_SECONDS = 30.0
NAMESPACES: Resource[dict[str, Any]] = Resource.dynamic("", "v1", "Namespace", "namespaces", namespaced=False)
DEFINITIONS: Resource[dict[str, Any]] = Resource.dynamic(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False
)


@asynccontextmanager
async def cluster_with_things(**counts: int) -> AsyncIterator[tuple[Client, Path]]:
    """Run an API server with so many Things in each of the namespaces; give a client and the kubeconfig.

    With KUBE_RUNTIME_KUBECONFIG set, the cluster behind that kubeconfig is used, and the namespaces are deleted after.
    """
    async with _cluster() as kubeconfig, await Client.from_kubeconfig(kubeconfig, options=UNLIMITED) as client:
        await _define(client)
        try:
            for namespace, count in counts.items():
                await client.create(NAMESPACES, {"metadata": {"name": namespace}}, field_manager="benchmark")
                await create_things(client, namespace, range(count))
            yield client, kubeconfig
        finally:
            for namespace in counts:
                await client.delete(NAMESPACES, namespace)


async def create_things(client: Client, namespace: str, numbers: Iterable[int]) -> None:
    """Create Things, many at once."""

    async def create(number: int) -> None:
        document = {"metadata": {"name": name_of(number)}, "spec": {"rules": rules(number)}}
        await client.create(THINGS_AS_DICTS, document, namespace, field_manager="benchmark")

    await at_once(create, numbers)


async def change_things(client: Client, namespace: str, numbers: Iterable[int], revision: int) -> None:
    """Change the spec of Things, many at once."""

    async def change(number: int) -> None:
        patch = {"spec": {"rules": rules(number, revision)}}
        await client.merge_patch(THINGS_AS_DICTS, name_of(number), patch, namespace, field_manager="benchmark")

    await at_once(change, numbers)


async def at_once(work: Callable[[int], Awaitable[None]], numbers: Iterable[int]) -> None:
    """Do something for each number, as much at once as the API server bears."""
    left = iter(numbers)

    async def worker() -> None:
        for number in left:
            await work(number)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(AT_ONCE):
            tasks.create_task(worker())


def name_of(number: int) -> str:
    """Return the name of a Thing."""
    return f"thing-{number:05d}"


def rules(number: int, revision: int = 0) -> list[dict[str, Any]]:
    """Return the spec's rules, 4 kB as JSON; the revision makes a difference of one field."""
    return [
        {
            "name": f"rule-{index:02d}-of-thing-{number:05d}",
            "hosts": [f"{side}-{index:02d}.thing-{number:05d}.example.com" for side in ("inside", "outside")],
            "weight": revision if index == 0 else index,
            "comment": "traffic goes here as long as the gateway of that name is ready",
        }
        for index in range(RULES)
    ]


@asynccontextmanager
async def _cluster() -> AsyncIterator[Path]:
    if given := os.environ.get("KUBE_RUNTIME_KUBECONFIG"):
        yield Path(given)
        return
    with TemporaryDirectory(prefix="things-") as folder:
        async with LocalClusters.start(skrs=0, directory=Path(folder)) as clusters:
            yield clusters.kcp.admin_kubeconfig


async def _define(client: Client) -> None:
    definition = _definition()
    await client.apply(DEFINITIONS, definition["metadata"]["name"], definition, field_manager="benchmark")
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while True:
            try:
                await client.list(THINGS_AS_DICTS, page_size=1)
            except (NotFound, NotServed):
                await asyncio.sleep(0.1)
            else:
                return


def _definition() -> dict[str, Any]:
    text, integer = {"type": "string"}, {"type": "integer", "format": "int64"}
    rule = {"name": text, "hosts": {"type": "array", "items": text}, "weight": integer, "comment": text}
    spec = {"rules": {"type": "array", "items": {"type": "object", "properties": rule}}}
    parts = {
        "spec": {"type": "object", "properties": spec},
        "status": {"type": "object", "properties": {"observedGeneration": integer}},
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": parts}},
    }
    return {
        "metadata": {"name": f"things.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [version],
        },
    }
