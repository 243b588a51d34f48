"""Measures `klm get kymas` on 10,000 Kymas of 4 kB each: the whole command, as an operator runs it, and its memory.

The API server is simulated by another process. The peer reads the same pages with the same client and decodes nothing.
"""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.api_decoding import kyma_document
from benchmarks.figures import Figure
from kube_runtime import Client, ClientOptions, KubeconfigPolicy, Resource
from lifecycle_manager.crd_installation import apply_crds
from lifecycle_manager_api import names

KYMAS = 10_000
ROUNDS = 3
WRITERS = 16
MAX_SECONDS = 3.0
MAX_MEGABYTES = 150.0
NAMESPACES: Resource[dict[str, Any]] = Resource.dynamic("", "v1", "Namespace", "namespaces", namespaced=False)
RAW_KYMAS: Resource[dict[str, Any]] = Resource.dynamic(names.GROUP, "v1beta2", "Kyma", "kymas", namespaced=True)


def main() -> int:
    """Measure and print the figures; return 1 if a bar was missed."""
    server = subprocess.Popen(
        [sys.executable, "-m", "kube_simulation", "--clusters", "1"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        address = json.loads(server.stdout.readline())["address"]
        config = kubeconfig(f"{address}/clusters/cluster-0")
        floor = asyncio.run(_prepare(config))
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "kubeconfig"
            file.write_bytes(msgspec.json.encode(config))
            rounds = [_run(file) for _ in range(ROUNDS)]
    finally:
        server.terminate()
        server.wait()
    seconds, megabytes = statistics.median(each[0] for each in rounds), max(each[1] for each in rounds)
    met = seconds < MAX_SECONDS, megabytes < MAX_MEGABYTES
    Figure(
        name="klm_get_10000_kymas",
        unit="s",
        value=round(seconds, 2),
        peer="the same pages, undecoded",
        peer_value=round(floor, 2),
        bar=f"under {MAX_SECONDS:g} s",
        met=met[0],
    ).print()
    Figure(
        name="klm_get_10000_kymas_memory",
        unit="MB",
        value=round(megabytes, 1),
        peer="",
        peer_value=0,
        bar=f"under {MAX_MEGABYTES:g} MB",
        met=met[1],
    ).print()
    return 0 if all(met) else 1


def kubeconfig(server: str) -> dict[str, Any]:
    """Return the kubeconfig of a server without credentials."""
    return {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k"}}],
        "clusters": [{"name": "k", "cluster": {"server": server}}],
    }


async def _prepare(config: dict[str, Any]) -> float:
    """Create the Kymas; return how long it takes to read all pages."""
    policy = KubeconfigPolicy(allow_insecure=True)
    async with await Client.from_kubeconfig(config, options=ClientOptions(qps=0), policy=policy) as client:
        await client.create(NAMESPACES, {"metadata": {"name": names.KCP_NAMESPACE}}, field_manager="bench")
        await apply_crds(client)
        numbers = iter(range(KYMAS))

        async def create() -> None:
            for number in numbers:
                document = kyma_document(number)
                status = document.pop("status")
                name = document["metadata"]["name"]
                document["metadata"] = {"name": name, "labels": document["metadata"]["labels"]}
                await client.create(RAW_KYMAS, document, names.KCP_NAMESPACE, field_manager="bench")
                await client.merge_patch(
                    RAW_KYMAS, name, {"status": status}, names.KCP_NAMESPACE, subresource="status", field_manager="lm"
                )

        async with asyncio.TaskGroup() as tasks:
            for _ in range(WRITERS):
                tasks.create_task(create())
        began, token = time.perf_counter(), ""
        while True:
            target = f"{RAW_KYMAS.path(names.KCP_NAMESPACE)}?limit=500" + (f"&continue={token}" if token else "")
            body = await client.raw("GET", target)
            token = msgspec.json.decode(body, type=_Page).metadata.continue_
            if not token:
                return time.perf_counter() - began


def _run(file: Path) -> tuple[float, float]:
    """Run the command; return its seconds and its largest memory in MB."""
    began = time.perf_counter()
    command = [str(Path(sys.executable).with_name("klm")), "get", "kymas", "--kubeconfig", str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        lines = child.stdout.read().count(b"\n")
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    assert (child.returncode, lines) == (0, KYMAS + 1), (child.returncode, lines)
    return time.perf_counter() - began, usage.ru_maxrss / 1024


class _PageMetadata(msgspec.Struct):
    continue_: str = msgspec.field(default="", name="continue")


class _Page(msgspec.Struct):
    metadata: _PageMetadata


if __name__ == "__main__":
    sys.exit(main())
