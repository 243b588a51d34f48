"""Measures `klm get kymas` and `klm status` on 10,000 Kymas of 4 kB each, and help and completion: whole commands.

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
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from benchmarks.api_decoding import kyma_document
from benchmarks.figures import Figure, print_all
from kube_runtime import Client, ClientOptions, KubeconfigPolicy, Resource
from lifecycle_manager.process.crd_installation import apply_crds
from lifecycle_manager_api import names

KYMAS = 10_000
ROUNDS = 3
WRITERS = 16
MAX_SECONDS = 3.0
MAX_CPU_SECONDS = 2.0
MAX_MEGABYTES = 150.0
MAX_HELP_CPU_SECONDS = 0.2
COMPLETION = {"_KLM_COMPLETE": "complete_bash", "COMP_WORDS": "klm get ky", "COMP_CWORD": "2"}
NAMESPACES: Resource[dict[str, Any]] = Resource.dynamic("", "v1", "Namespace", "namespaces", namespaced=False)
RAW_KYMAS: Resource[dict[str, Any]] = Resource.dynamic(names.GROUP, "v1beta2", "Kyma", "kymas", namespaced=True)


class Run(NamedTuple):
    """What one run of a command took."""

    seconds: float
    cpu_seconds: float
    megabytes: float


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
            gets = [_run_klm(file, "get", "kymas") for _ in range(ROUNDS)]
            statuses = [_run_klm(file, "status") for _ in range(ROUNDS)]
    finally:
        server.terminate()
        server.wait()
    figures = [*_figures("get", gets, floor), *_figures("status", statuses, floor)]
    figures += [_help_figure("help", ("--help",)), _help_figure("completion", (), COMPLETION)]
    return print_all(figures)


def _figures(command: str, runs: Sequence[Run], floor: float) -> Iterator[Figure]:
    for unit, value, most, peer in (
        ("s", statistics.median(each.seconds for each in runs), MAX_SECONDS, floor),
        ("s of CPU", statistics.median(each.cpu_seconds for each in runs), MAX_CPU_SECONDS, 0.0),
        ("MB", max(each.megabytes for each in runs), MAX_MEGABYTES, 0.0),
    ):
        yield Figure(
            name=f"klm_{command}_10000_kymas",
            unit=unit,
            value=round(value, 2),
            peer="the same pages, undecoded" if peer else "",
            peer_value=round(peer, 2),
            bar=f"under {most:g} {unit}",
            met=value < most,
        )


def _help_figure(name: str, arguments: Sequence[str], environment: Mapping[str, str] = MappingProxyType({})) -> Figure:
    """Measure what needs nothing but the declarations of commands; the peer is the interpreter alone."""
    klm = [str(Path(sys.executable).with_name("klm")), *arguments]
    value = statistics.median(_cpu_seconds(klm, environment) for _ in range(ROUNDS))
    floor = statistics.median(_cpu_seconds([sys.executable, "-c", ""], environment) for _ in range(ROUNDS))
    return Figure(
        name=f"klm_{name}",
        unit="s of CPU",
        value=round(value, 3),
        peer="python without a program",
        peer_value=round(floor, 3),
        bar=f"under {MAX_HELP_CPU_SECONDS:g} s of CPU",
        met=value < MAX_HELP_CPU_SECONDS,
    )


def _cpu_seconds(command: Sequence[str], environment: Mapping[str, str]) -> float:
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, env={**os.environ, **environment}) as child:
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0, command
    return usage.ru_utime + usage.ru_stime


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
        began = time.perf_counter()
        await _read_pages(client, RAW_KYMAS, names.KCP_NAMESPACE)
        return time.perf_counter() - began


async def _read_pages(client: Client, resource: Resource[dict[str, Any]], namespace: str) -> None:
    """Read all pages of a list and decode nothing of it."""
    token = ""
    while True:
        target = f"{resource.path(namespace)}?limit=500" + (f"&continue={token}" if token else "")
        body = await client.raw("GET", target)
        token = msgspec.json.decode(body, type=_Page).metadata.continue_
        if not token:
            return


def _run_klm(file: Path, *arguments: str) -> Run:
    """Run a command and measure it. A simulated fleet has no replica of Lifecycle Manager, for which `status` is 1."""
    began = time.perf_counter()
    command = [str(Path(sys.executable).with_name("klm")), *arguments, "--kubeconfig", str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        lines = child.stdout.read().count(b"\n")
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode in {0, 1}, child.returncode
    assert arguments[0] != "get" or lines == KYMAS + 1, lines
    return Run(time.perf_counter() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


class _PageMetadata(msgspec.Struct):
    continue_: str = msgspec.field(default="", name="continue")


class _Page(msgspec.Struct):
    metadata: _PageMetadata


if __name__ == "__main__":
    sys.exit(main())
