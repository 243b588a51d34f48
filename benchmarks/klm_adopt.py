"""Measures `klm adopt --check` on 5,000 Kymas with 25,000 Manifests, 5,000 access Secrets and 5,000 certificates.

The API server is simulated by another process. The peer reads the same pages with the same client and decodes nothing.
"""

import asyncio
import base64
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.api_decoding import kyma_document
from benchmarks.figures import Figure
from benchmarks.klm import NAMESPACES, RAW_KYMAS, WRITERS, Run, kubeconfig, read_pages, run_klm
from kube_runtime import Client, ClientOptions, KubeconfigPolicy, Resource
from kyma_certs import create_ca
from lifecycle_manager.process.crd_installation import apply_crds
from lifecycle_manager_api import names

KYMAS = 5_000
MANIFESTS_EACH = 5
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
        documents = iter(_documents())

        async def create() -> None:
            for resource, document in documents:
                await client.create(resource, document, document["metadata"]["namespace"], field_manager="bench")

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


def _documents() -> Iterable[tuple[Resource[dict[str, Any]], dict[str, Any]]]:
    ca = create_ca("former", lifetime=timedelta(days=90), now=datetime.now(UTC))
    tls = {"tls.crt": _encoded(ca.certificate_pem), "tls.key": _encoded(ca.key_pem)}
    yield RAW_SECRETS, {"metadata": {"name": "klm-watcher", "namespace": CA_NAMESPACE}, "data": tls}
    access = json.dumps(
        kubeconfig("https://api.example.com") | {"users": [{"name": "u", "user": {"token": "t" * 1200}}]}
    )
    for number in range(KYMAS):
        kyma = kyma_document(number)
        name = kyma["metadata"]["name"]
        metadata = {"name": name, "namespace": names.KCP_NAMESPACE, "labels": kyma["metadata"]["labels"]}
        yield RAW_KYMAS, {**kyma, "metadata": metadata | {"annotations": {"status": json.dumps(kyma["status"])}}}
        labels = {names.KYMA_NAME: name}
        yield RAW_SECRETS, _secret(f"kubeconfig-{name}", names.KCP_NAMESPACE, labels, {"config": access})
        purpose = {names.PURPOSE: "klm-watcher-cert-manager"}
        yield (
            RAW_SECRETS,
            _secret(f"{name}-webhook-tls", CA_NAMESPACE, purpose, {"tls.crt": "c" * 2000, "tls.key": "k" * 3000}),
        )
        for module in range(MANIFESTS_EACH):
            yield RAW_MANIFESTS, _manifest(name, f"module-{module}")


def _secret(name: str, namespace: str, labels: dict[str, str], data: dict[str, str]) -> dict[str, Any]:
    encoded = {key: _encoded(value.encode()) for key, value in data.items()}
    return {"metadata": {"name": name, "namespace": namespace, "labels": labels}, "data": encoded}


def _manifest(kyma: str, module: str) -> dict[str, Any]:
    source = {"name": f"example.com/{module}", "ref": f"sha256:{'0' * 64}", "repo": "registry.example.com/components"}
    resource = {
        "apiVersion": "example.com/v1",
        "kind": "Sample",
        "metadata": {"name": "s"},
        "spec": {"text": "x" * 1500},
    }
    return {
        "metadata": {
            "name": f"{kyma}-{module}-1234567",
            "namespace": names.KCP_NAMESPACE,
            "labels": {names.KYMA_NAME: kyma, names.MODULE_NAME: module, names.MANAGED_BY: names.LIFECYCLE_MANAGER},
            "finalizers": [names.MANIFEST_FINALIZER, "label-removal-finalizer"],
        },
        "spec": {
            "install": {"name": "raw-manifest", "source": {**source, "type": "oci-dir"}},
            "remote": True,
            "resource": resource,
            "version": "1.0.0",
        },
    }


def _encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


@asynccontextmanager
async def _client(config: dict[str, Any]) -> AsyncIterator[Client]:
    policy = KubeconfigPolicy(allow_insecure=True)
    async with await Client.from_kubeconfig(config, options=ClientOptions(qps=0), policy=policy) as client:
        yield client


if __name__ == "__main__":
    sys.exit(main())
