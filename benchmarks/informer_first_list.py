"""The first list of an informer: 5,000 objects of 4 kB in pages, beside the same as the beginning of a watch.

Both are an `Informer` in a process of its own, in turns, with a real API server. Besides the time each says what it
took of the CPU, here and on the server, and the most memory that it needed; those lines have no bar.

Run by `python -m benchmarks.informer_first_list`.
"""

import asyncio
import gc
import os
import statistics
import sys
import time
from pathlib import Path
from typing import ClassVar

import msgspec

from benchmarks.figures import Figure
from kube_runtime import Client, ClientOptions, Informer, Resource
from kyma_local.clusters import LocalClusters

OBJECTS = 5_000
OBJECT_BYTES = 4_000
ROUNDS = 5
AT_ONCE = 20
BAR = 1.0
NAMESPACE = "default"
UNLIMITED = ClientOptions(qps=0, max_in_flight=AT_ONCE, timeout_seconds=60)


class Metadata(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What is read of an object's metadata."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class ConfigMap(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What the objects are read as."""

    GROUP: ClassVar[str] = ""
    VERSION: ClassVar[str] = "v1"
    KIND: ClassVar[str] = "ConfigMap"
    PLURAL: ClassVar[str] = "configmaps"
    NAMESPACED: ClassVar[bool] = True

    metadata: Metadata
    data: dict[str, str] = {}


CONFIG_MAPS = Resource.of(ConfigMap)


class Cost(msgspec.Struct, frozen=True):
    """What one first list took."""

    seconds: float
    client_cpu_seconds: float
    server_cpu_seconds: float
    peak_mebibytes: float


def main() -> int:
    """Measure and print the figures; return 1 where the bar was missed."""
    if len(sys.argv) > 1:
        kubeconfig, server, way = sys.argv[1:]
        cost = asyncio.run(_list_once(Path(kubeconfig), int(server), streamed=way == "stream"))
        sys.stdout.write(msgspec.json.encode(cost).decode())
        return 0
    pages, stream = asyncio.run(_measure())
    for field in Cost.__struct_fields__:
        value, peer = getattr(pages, field), getattr(stream, field)
        has_bar = field == "seconds"
        Figure(
            name=f"informer_first_list_{field}",
            unit=field.rpartition("_")[2],
            value=round(value, 3),
            peer="initial events of a watch",
            peer_value=round(peer, 3),
            bar=f"{BAR:g} of the peer or less" if has_bar else "none",
            met=not has_bar or value / peer <= BAR,
        ).print()
    return 0 if pages.seconds / stream.seconds <= BAR else 1


async def _measure() -> tuple[Cost, Cost]:
    async with LocalClusters.start(skrs=1) as clusters:
        skr = clusters.skrs[0]
        await _fill(skr.admin_kubeconfig)
        costs: dict[str, list[Cost]] = {"pages": [], "stream": []}
        for _ in range(ROUNDS):
            for way, found in costs.items():
                found.append(await _in_a_process(skr.admin_kubeconfig, skr.children[0].pid, way))
    return _median(costs["pages"]), _median(costs["stream"])


async def _fill(kubeconfig: Path) -> None:
    places = asyncio.Semaphore(AT_ONCE)

    async def make(number: int) -> None:
        document = {"metadata": {"name": f"cm-{number}"}, "data": {"text": "x" * OBJECT_BYTES}}
        async with places:
            await client.create(CONFIG_MAPS, document, NAMESPACE, field_manager="benchmark")

    async with await Client.from_environment(kubeconfig, options=UNLIMITED) as client, asyncio.TaskGroup() as tasks:
        for number in range(OBJECTS):
            tasks.create_task(make(number))


async def _in_a_process(kubeconfig: Path, server: int, way: str) -> Cost:
    command = [sys.executable, "-m", "benchmarks.informer_first_list", str(kubeconfig), str(server), way]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    said, _ = await process.communicate()
    return msgspec.json.decode(said, type=Cost)


async def _list_once(kubeconfig: Path, server: int, *, streamed: bool) -> Cost:
    async with await Client.from_environment(kubeconfig, options=UNLIMITED) as client:
        await client.server_version()  # so that the connection and its TLS are not measured
        informer = Informer(client, CONFIG_MAPS, namespace=NAMESPACE, initial_events=streamed)
        before = _forget_peak()
        began, cpu, server_cpu = time.perf_counter(), time.process_time(), _cpu_seconds_of(server)
        task = asyncio.create_task(informer.run())
        await informer.wait_synced(60)
        cost = Cost(
            time.perf_counter() - began,
            time.process_time() - cpu,
            _cpu_seconds_of(server) - server_cpu,
            _status_mebibytes("VmHWM") - before,
        )
        assert len(informer.cache) == OBJECTS
        task.cancel()
        await asyncio.wait({task})
    return cost


def _forget_peak() -> float:
    """Have the kernel measure the most memory anew; return what there is now."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    return _status_mebibytes("VmRSS")


def _median(costs: list[Cost]) -> Cost:
    return Cost(*(statistics.median(getattr(cost, field) for cost in costs) for field in Cost.__struct_fields__))


def _cpu_seconds_of(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _status_mebibytes(name: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1024


if __name__ == "__main__":
    sys.exit(main())
