"""Measures `klm adopt --check` on 5,000 Kymas with 25,000 Manifests, 5,000 access Secrets and 5,000 certificates.

They are those that the Lifecycle Manager in Go was recorded to write for one Kyma, under other names. The API server is
simulated by another process. The peer reads the same pages with the same client and decodes nothing.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.figures import Figure
from benchmarks.klm import NAMESPACES, RAW_KYMAS, WRITERS, Run, kubeconfig, read_pages, run_klm
from kube_runtime import Client, ClientOptions, KubeconfigPolicy, Resource
from lifecycle_manager.process.crd_installation import apply_crds
from lifecycle_manager_api import names
from tests.takeover_from_go import modules
from tests.takeover_from_go.recordings import Document, restore
from tests.takeover_from_go.restored import Certificates, filled
from tests.takeover_from_go.starts import KYMA, start

KYMAS = 5_000
CHOSEN = tuple(each for each in modules.INSTALLED if each.name in modules.EVERYWHERE)
"""The five that were recorded in both clusters."""
MAX_SECONDS, MAX_MEGABYTES = 20.0, 300.0
CA_NAMESPACE = "istio-system"
RAW_MANIFESTS: Resource[dict[str, Any]] = Resource.dynamic(names.GROUP, "v1beta2", "Manifest", "manifests", True)
RAW_SECRETS: Resource[dict[str, Any]] = Resource.dynamic("", "v1", "Secret", "secrets", namespaced=True)


def main() -> int:
    """Measure and print the figures; return 1 if a bar was missed."""
    command = [sys.executable, "-m", "kube_simulation", "--clusters", "1"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        address = json.loads(server.stdout.readline())["address"]
        config = kubeconfig(f"{address}/clusters/cluster-0")
        floor = asyncio.run(_prepare(config))
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "kubeconfig"
            file.write_bytes(msgspec.json.encode(config))
            run = run_klm(file, "adopt", "--check", "-o", "json", exit_codes={0})
    finally:
        server.terminate()
        server.wait()
    figures = list(_figures(run, floor))
    for figure in figures:
        figure.print()
    return 0 if all(figure.met for figure in figures) else 1


def _figures(run: Run, floor: float) -> Iterator[Figure]:
    for unit, value, most, peer in (
        ("s", run.seconds, MAX_SECONDS, floor),
        ("MB", run.megabytes, MAX_MEGABYTES, 0.0),
    ):
        yield Figure(
            name="klm_adopt_check_5000_kymas",
            unit=unit,
            value=round(value, 2),
            peer="the same pages, undecoded" if peer else "",
            peer_value=round(peer, 2),
            bar=f"under {most:g} {unit}",
            met=value < most,
        )


async def _prepare(config: dict[str, Any]) -> float:
    """Create what the former version leaves behind; return how long it takes to read all pages."""
    async with _client(config) as client:
        for namespace in (names.KCP_NAMESPACE, CA_NAMESPACE):
            await client.create(NAMESPACES, {"metadata": {"name": namespace}}, field_manager="bench")
        await apply_crds(client)
        registrations = _registrations()

        async def create() -> None:
            for documents in registrations:
                await restore(client, documents)

        async with asyncio.TaskGroup() as tasks:
            for _ in range(WRITERS):
                tasks.create_task(create())
        began = time.perf_counter()
        for resource, namespace in (
            (RAW_KYMAS, names.KCP_NAMESPACE),
            (RAW_MANIFESTS, names.KCP_NAMESPACE),
            (RAW_SECRETS, names.KCP_NAMESPACE),
            (RAW_SECRETS, CA_NAMESPACE),
        ):
            await read_pages(client, resource, namespace)
        return time.perf_counter() - began


def _registrations() -> Iterator[list[Document]]:
    """Yield what was recorded of all Kymas, and then what was of one, under the name of each."""
    issued = Certificates.issue()
    leaf = issued.leaf(KYMA)
    access = json.dumps(
        kubeconfig("https://api.example.com") | {"users": [{"name": "u", "user": {"token": "t" * 1200}}]}
    )
    contents = {**issued.secrets(), **issued.secrets_of(KYMA, leaf, access)}
    recorded = [each for each in start("kcp", chosen=CHOSEN) if each["kind"] in {"Kyma", "Manifest", "Secret"}]
    shared: list[Document] = []
    registration: list[Document] = []
    for each in recorded:
        (registration if KYMA in each["metadata"]["name"] else shared).append(filled(each, contents))
    yield shared
    text = msgspec.json.encode(sorted(registration, key=lambda it: it["kind"] != "Kyma")).decode()
    for number in range(KYMAS):
        yield msgspec.json.decode(text.replace(KYMA, f"{number:08x}{KYMA[8:]}"))


@asynccontextmanager
async def _client(config: dict[str, Any]) -> AsyncIterator[Client]:
    policy = KubeconfigPolicy(allow_insecure=True)
    async with await Client.from_kubeconfig(config, options=ClientOptions(qps=0), policy=policy) as client:
        yield client


if __name__ == "__main__":
    sys.exit(main())
