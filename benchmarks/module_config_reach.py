"""Measures the time until a change of a ModuleConfig reaches its manager: 50 managers, 10,000 ModuleConfigs, one KCP.

Every change contains the time at which its write was sent; the manager's function compares it with the time at which
it is called. The peer is a bare watch of all ModuleConfigs in a process of its own, which receives each line and
decodes nothing. Managers run as in production: they render, write SyncResources and status.

Run by `python -m benchmarks.module_config_reach [--managers 50] [--configs 10000] [--changes 1000] [--rate 50]`.
"""

import argparse
import asyncio
import json
import random
import re
import sys
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import uvloop

from kube_runtime import Client, ClientOptions, KubeError, dump_yaml
from kyma_diagnostics.logs import configure_logs
from kyma_local.clusters import LocalClusters
from kyma_module_manager import ManagerService, ModuleManager, ServiceOptions
from kyma_module_manager.writer import MODULE_CONFIGS
from lifecycle_manager_api import crds, names

BAR_MS = 50.0
MANAGERS_PER_PROCESS = 10
WRITERS = 20
SENT = re.compile(rb"sentAt: ([0-9.]+)")
UNLIMITED = ClientOptions(qps=0, max_in_flight=200)


def main() -> None:
    """Measure, or run one of the measured processes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--managers", type=int, default=50)
    parser.add_argument("--configs", type=int, default=10_000)
    parser.add_argument("--changes", type=int, default=1_000)
    parser.add_argument("--rate", type=float, default=50.0)
    parser.add_argument("--role", choices=("managers", "peer"))
    parser.add_argument("--kubeconfig", type=Path)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    configure_logs("warning")
    if options.role == "managers":
        uvloop.run(_managers(options.kubeconfig, options.first))
    elif options.role == "peer":
        uvloop.run(_peer(options.kubeconfig))
    else:
        uvloop.run(_measure(options))


async def _measure(options: argparse.Namespace) -> None:
    with TemporaryDirectory(prefix="reach-") as folder:
        async with LocalClusters.start(skrs=0, directory=Path(folder)) as clusters:
            kubeconfig = clusters.kcp.admin_kubeconfig
            async with await Client.from_kubeconfig(kubeconfig, options=UNLIMITED) as client:
                await _prepare(client)
                await _spread(_write(client, number, options.managers, 0.0) for number in range(options.configs))
                roles = [
                    ("managers", "--first", str(first)) for first in range(0, options.managers, MANAGERS_PER_PROCESS)
                ]
                async with _processes(kubeconfig, [*roles, ("peer",)]) as processes:
                    await _quiet(client, options.configs)
                    await _change(client, options)
                    *managers, peer = [await _finish(each) for each in processes]
    reached = [each for process in managers for each in process]
    _report("a change reaches its manager, median", reached, peer, 0.5, options.changes)
    _report("a change reaches its manager, p99", reached, peer, 0.99, options.changes)


def _report(name: str, reached: list[float], peer: list[float], share: float, changes: int) -> None:
    value, floor = _quantile(reached, share), _quantile(peer, share)
    figure = {
        "name": name,
        "unit": "ms",
        "value": round(value, 2),
        "peer": "a bare watch of the same changes",
        "peer_value": round(floor, 2),
        "ratio": round(value / floor, 2),
        "bar": f"under {BAR_MS:g} ms" if share > 0.9 else None,
        "met": len(reached) >= changes and value < BAR_MS if share > 0.9 else None,
        "changes": len(reached),
    }
    print(json.dumps(figure), flush=True)


async def _change(client: Client, options: argparse.Namespace) -> None:
    """Change ModuleConfigs at random, at a constant rate."""
    numbers = random.Random(7).sample(range(options.configs), options.changes)  # noqa: S311 - the same choice each time
    began = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for index, number in enumerate(numbers):
            await asyncio.sleep(max(0.0, began + index / options.rate - time.monotonic()))
            group.create_task(_write(client, number, options.managers, time.monotonic()))
    await asyncio.sleep(1)


async def _write(client: Client, number: int, managers: int, sent: float) -> None:
    module, kyma = _module(number % managers), f"kyma-{number}"
    name = f"{kyma}-{module}"
    module_cr = {
        "apiVersion": "example.com/v1",
        "kind": "Thing",
        "metadata": {"name": "default", "namespace": "kyma-system"},
        "spec": {"sentAt": sent, "entries": {f"entry-{index}": f"value {index}" for index in range(20)}},
    }
    document = {
        "apiVersion": MODULE_CONFIGS.api_version,
        "kind": MODULE_CONFIGS.kind,
        "metadata": {
            "name": name,
            "namespace": names.KCP_NAMESPACE,
            "labels": {names.KYMA_NAME: kyma, names.MODULE_NAME: module},
        },
        "spec": {"kyma": kyma, "module": module, "resource": dump_yaml(module_cr)},
    }
    await client.apply(MODULE_CONFIGS, name, document, names.KCP_NAMESPACE, field_manager="benchmark")


async def _managers(kubeconfig: Path, first: int) -> None:
    """Run managers until a line arrives on the input, then print the milliseconds of each change."""
    reached: list[float] = []

    def render(config: dict[str, Any]) -> Iterator[dict[str, Any]]:
        if sent := config["spec"]["sentAt"]:
            reached.append((time.monotonic() - sent) * 1000)
        metadata = {"name": "thing", "namespace": "default"}
        yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": config["spec"]["entries"]}

    stop = asyncio.Event()
    options = ServiceOptions(health_host="127.0.0.1", health_port=0)
    async with asyncio.TaskGroup() as group:
        for number in range(first, first + MANAGERS_PER_PROCESS):
            group.create_task(_manager(kubeconfig, ModuleManager(_module(number), dict, render), options, stop))
        await asyncio.to_thread(sys.stdin.readline)
        stop.set()
    print(json.dumps(reached))


async def _manager(kubeconfig: Path, manager: ModuleManager[Any], options: ServiceOptions, stop: asyncio.Event) -> None:
    async with await Client.from_kubeconfig(kubeconfig, options=UNLIMITED) as client:
        await ManagerService(manager, client, options).run(stop)


async def _peer(kubeconfig: Path) -> None:
    """Watch all ModuleConfigs, record the time of each line, and decode nothing."""
    reached: dict[bytes, float] = {}

    async def watch(client: Client) -> None:
        while True:
            try:
                await follow(client)
            except KubeError as error:
                print(f"the peer's watch: {error}", file=sys.stderr)

    async def follow(client: Client) -> None:
        listed = await client.list(MODULE_CONFIGS, names.KCP_NAMESPACE)
        lines = client.watch_lines(MODULE_CONFIGS, names.KCP_NAMESPACE, resource_version=listed.resource_version)
        async for batch in lines:
            for line in batch:
                if (found := SENT.search(line)) and float(found[1]):
                    reached.setdefault(found[1], (time.monotonic() - float(found[1])) * 1000)

    async with await Client.from_kubeconfig(kubeconfig, options=UNLIMITED) as client:
        watching = asyncio.create_task(watch(client))
        await asyncio.to_thread(sys.stdin.readline)
        watching.cancel()
        await asyncio.wait([watching])
    print(json.dumps(list(reached.values())))


@asynccontextmanager
async def _processes(
    kubeconfig: Path, roles: Iterable[tuple[str, ...]]
) -> AsyncIterator[list[asyncio.subprocess.Process]]:
    processes = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-m", "benchmarks.module_config_reach", "--kubeconfig", str(kubeconfig), "--role", *role,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        )
        for role in roles
    ]  # fmt: skip
    try:
        yield processes
    finally:
        for process in processes:
            if process.returncode is None:
                process.kill()
                await process.wait()


async def _finish(process: asyncio.subprocess.Process) -> list[float]:
    printed, _ = await asyncio.wait_for(process.communicate(b"stop\n"), 60)
    found: list[float] = json.loads(printed.splitlines()[-1])
    return found


async def _prepare(client: Client) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": names.KCP_NAMESPACE}}
    for document in (*crds.all_crds(), namespace):
        resource = await client.mapper.resource(document["apiVersion"], document["kind"])
        await client.apply(resource, document["metadata"]["name"], document, field_manager="benchmark")
    await asyncio.sleep(2)  # until the new kinds are served


async def _spread(writes: Iterable[Any]) -> None:
    """Await writes, WRITERS at once."""
    remaining = iter(writes)

    async def work() -> None:
        for write in remaining:
            await write

    async with asyncio.TaskGroup() as group:
        for _ in range(WRITERS):
            group.create_task(work())


async def _quiet(client: Client, configs: int) -> None:
    """Wait until the managers have reconciled all existing ModuleConfigs."""
    while True:
        listed = await client.list(MODULE_CONFIGS, names.KCP_NAMESPACE)
        done = sum(each.status.observed_generation is not None for each in listed.items)
        if done == configs:
            break
        await asyncio.sleep(3)
    await asyncio.sleep(3)


def _module(number: int) -> str:
    """Return a module's name, which may contain letters only."""
    return "module-" + "".join(chr(ord("a") + int(digit)) for digit in f"{number:03d}")


def _quantile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(share * len(ordered)))]


if __name__ == "__main__":
    main()
