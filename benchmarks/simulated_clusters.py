"""Measures the memory and the request rate of 10,000 simulated clusters in one process.

The server and the client are processes of their own, so one core sends requests while the other answers. In every
cluster an object is applied and read again. No other simulation could be a peer at this size.
"""

import asyncio
import json
import sys
import time
from pathlib import Path

from benchmarks.figures import Figure
from kube_runtime import Client, ClientOptions, KubeconfigPolicy, Resource

CLUSTERS = 10_000
REQUESTS = 20_000
CLIENTS = 32
MAX_KILOBYTES = 20.0
MIN_PER_SECOND = 500.0
CONFIG_MAPS = Resource.dynamic("", "v1", "ConfigMap", "configmaps", namespaced=True)


def main() -> int:
    """Measure and print the figures; return 1 if a bar was missed."""
    kilobytes, applies, gets = asyncio.run(_measure())
    figures = [
        Figure(
            name="simulation_memory",
            unit="kB a cluster with an object",
            value=round(kilobytes, 1),
            peer="",
            peer_value=0,
            bar=f"under {MAX_KILOBYTES:g}",
            met=kilobytes < MAX_KILOBYTES,
        ),
        *(
            Figure(
                name=f"simulation_{verb}",
                unit="requests a second",
                value=round(value),
                peer="",
                peer_value=0,
                bar=f"over {MIN_PER_SECOND:g}",
                met=value > MIN_PER_SECOND,
            )
            for verb, value in (("apply", applies), ("get", gets))
        ),
    ]
    for figure in figures:
        figure.print()
    return 0 if all(figure.met for figure in figures) else 1


async def _measure() -> tuple[float, float, float]:
    command = [sys.executable, "-m", "kube_simulation", "--clusters", str(CLUSTERS)]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout is not None
        started = json.loads(await process.stdout.readline())
        before = _resident_kilobytes(process.pid)
        applies = await _requests_per_second(started["address"], CLUSTERS, apply=True)
        kilobytes = (_resident_kilobytes(process.pid) - before) / CLUSTERS
        gets = await _requests_per_second(started["address"], REQUESTS, apply=False)
    finally:
        process.terminate()
        await process.wait()
    return kilobytes, applies, gets


async def _requests_per_second(address: str, count: int, *, apply: bool) -> float:
    """Send requests to cluster after cluster by several clients, each with one pool of connections for all clusters."""
    clients = [await _client(f"{address}/clusters/cluster-{number}") for number in range(CLIENTS)]
    numbers = iter(range(count))

    async def send(client: Client) -> None:
        transport = client._transport  # noqa: SLF001 - one connection for many clusters
        for number in numbers:
            transport._server = f"{address}/clusters/cluster-{number % CLUSTERS}"  # noqa: SLF001
            if apply:
                document = {"metadata": {"name": "one"}, "data": {"a": "1"}}
                await client.apply(CONFIG_MAPS, "one", document, "default", field_manager="bench")
            else:
                await client.get(CONFIG_MAPS, "one", "default")

    began = time.perf_counter()
    async with asyncio.TaskGroup() as tasks:
        for client in clients:
            tasks.create_task(send(client))
    seconds = time.perf_counter() - began
    for client in clients:
        await client.close()
    return count / seconds


async def _client(server: str) -> Client:
    document = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k"}}],
        "clusters": [{"name": "k", "cluster": {"server": server}}],
    }
    options = ClientOptions(qps=0)
    return await Client.from_kubeconfig(document, options=options, policy=KubeconfigPolicy(allow_insecure=True))


def _resident_kilobytes(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4


if __name__ == "__main__":
    sys.exit(main())
