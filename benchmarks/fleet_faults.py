"""Measures how soon an operator finds what is wrong with five of 1,000 clusters, by one command and on the fleet page.

The faults: unusable credentials, an object that a cluster refuses, a silent Watcher, a release that is held back, and
an object that a ModulePolicy does not allow. For each: the seconds from the fault until `klm explain` and the page of
the cluster name the cause, and the CPU time of the command. `klm status` has to list the clusters that are broken.

Clusters are simulated by another process; their Watchers send heartbeats from here.
Run by `python -m benchmarks.fleet_faults [--kymas 1000]`. It takes some minutes.
"""

import argparse
import asyncio
import base64
import resource
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import httpx
import uvloop

from benchmarks.figures import Figure, print_all
from benchmarks.fleet import _wait_until_in_sync
from benchmarks.processes.fleet import (
    FleetProcess,
    LifecycleManagerProcess,
    open_fleet,
    run_lifecycle_manager,
)
from benchmarks.processes.fleet_documents import VERSIONS, kyma_name
from benchmarks.processes.fleet_pages import load, text_of
from kube_runtime import Client, ClientOptions, KubeconfigPolicy, dump_yaml
from kyma_demo.rollout.senders import EventSigner
from kyma_local.ports import free_port
from lifecycle_manager.contract.resources import KYMAS, MODULE_POLICIES, MODULE_RELEASE_METAS, SECRETS, SYNC_RESOURCES
from lifecycle_manager_api import WatchEvent, names
from tests.klm import run_klm
from tests.waiting import eventually

KCP = names.KCP_NAMESPACE
SILENCE_SECONDS, HEARTBEAT_SECONDS = 45, 12.0
MAX_COMMAND_SECONDS = 3.0
FOUND_WITHIN = {"silent Watcher": 45 + 30}
MAX_FOUND_SECONDS = 15.0
TIMEOUT_SECONDS = 120.0
REFUSAL = "denied the request: no limits in this cluster"


@dataclass(frozen=True)
class Fault:
    """One fault: what causes it, the arguments of the command, and what both the command and the page have to say."""

    name: str
    kyma: str
    cause: Callable[[], Awaitable[object]]
    expected: str
    module: str = ""


@dataclass(eq=False)
class Watchers:
    """Sends the heartbeats of the Watchers of a fleet, except for those that are silent."""

    kcp: Client
    url: str
    silent: set[str] = field(default_factory=set)
    _senders: dict[str, EventSigner] = field(default_factory=dict)

    async def run(self) -> None:
        """Send heartbeats until cancelled."""
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
            while True:
                began = time.monotonic()
                for secret in (await self.kcp.list(SECRETS, KCP)).items:
                    kyma = secret.metadata.name.removesuffix("-webhook-tls")
                    if kyma != secret.metadata.name and kyma not in self._senders:
                        self._senders[kyma] = EventSigner.of(secret.data)
                for kyma in self._senders.keys() - self.silent:
                    await self._send(session, kyma)
                await asyncio.sleep(max(HEARTBEAT_SECONDS - (time.monotonic() - began), 0.5))

    async def _send(self, session: aiohttp.ClientSession, kyma: str) -> None:
        sender = self._senders[kyma]
        body, headers = sender.signed(self.url, WatchEvent(operation="HEARTBEAT"))
        async with session.post(self.url, data=body, headers=headers, ssl=sender.tls) as answer:
            assert answer.status == 200, await answer.text()


def main() -> int:
    """Measure and print the figures; return 1 if a bar was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kymas", type=int, default=1_000)
    parser.add_argument("--modules", type=int, default=1)
    return print_all(uvloop.run(_measure(parser.parse_args())))


async def _measure(options: argparse.Namespace) -> list[Figure]:
    async with (
        open_fleet(options) as (fleet, kubeconfig, folder),
        _running(fleet, kubeconfig, folder) as (kcp, watchers, page),
    ):
        return await _find_all(fleet, kcp, watchers, page, kubeconfig)


@asynccontextmanager
async def _running(
    fleet: FleetProcess, kubeconfig: Path, folder: Path
) -> AsyncGenerator[tuple[Client, Watchers, httpx.AsyncClient], None]:
    """Run the Lifecycle Manager and the Watchers' heartbeats, once the fleet is in sync."""
    port, page_port = free_port(), free_port()
    more = (
        f"--watcher-silence={SILENCE_SECONDS}s",
        f"--ui-bind-address=127.0.0.1:{page_port}",
        "--module-upgrade-rollout-max-delay=10h",
        "--skr-unreachable-grace=1s",
    )
    policy = KubeconfigPolicy.permissive()
    async with (
        await Client.from_kubeconfig(fleet.kubeconfig, options=ClientOptions(qps=0), policy=policy) as kcp,
        run_lifecycle_manager(kubeconfig, port, folder, more=more) as manager,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{page_port}", timeout=60, trust_env=False) as page,
        asyncio.TaskGroup() as tasks,
    ):
        await _wait_until_in_sync(fleet, manager)
        watchers = Watchers(kcp, f"https://127.0.0.1:{port}/v2/lifecycle-manager/event")
        sending = tasks.create_task(watchers.run())
        await _wait_until_ready(kcp, manager)
        yield kcp, watchers, page
        sending.cancel()


async def _wait_until_ready(kcp: Client, manager: LifecycleManagerProcess) -> None:
    """Wait until every Kyma is ready, its Watcher included."""
    async with asyncio.timeout(600):
        while True:
            kymas = (await kcp.list(KYMAS, KCP)).items
            waiting = [each for each in kymas if each.status.state != "Ready"]
            if not waiting:
                return
            print(len(waiting), "of", len(kymas), "wait,", f"{manager.cpu_seconds():.0f} s of CPU", file=sys.stderr)
            await asyncio.sleep(3)


async def _find_all(
    fleet: FleetProcess, kcp: Client, watchers: Watchers, page: httpx.AsyncClient, kubeconfig: Path
) -> list[Figure]:
    figures = []
    in_order = await run_klm(kubeconfig, "explain", kyma_name(0))
    assert in_order.code == 0, in_order.text
    faults = _faults(fleet, kcp, watchers, await _modules(kcp))
    for fault in faults:
        began = time.perf_counter()
        await fault.cause()
        took = await _found(fault, kubeconfig, page)
        seconds = time.perf_counter() - began
        most = FOUND_WITHIN.get(fault.name, MAX_FOUND_SECONDS)
        figures.append(_figure(f"found: {fault.name}", seconds, most))
        figures.append(_figure(f"CPU of klm explain: {fault.name}", took, MAX_COMMAND_SECONDS))
        print(f"{fault.name}: found after {seconds:.1f} s, the command takes {took:.2f} s of CPU", file=sys.stderr)
    in_status = [each.kyma for each in faults if each.name != "held release"]

    async def listed() -> bool:
        """Tell whether the command lists all: the status of a Kyma follows its Manifests."""
        status = await run_klm(kubeconfig, "status", "--lease-namespace", KCP)
        return status.code == 1 and all(each in status.text for each in in_status)

    await eventually(listed, what=f"klm status lists {in_status}", every=0.5)
    overview, seconds = await load(page, "/")
    assert all(each in text_of(overview) for each in in_status)
    return [*figures, _figure("first paint", seconds, 0.5)]


async def _found(fault: Fault, kubeconfig: Path, page: httpx.AsyncClient) -> float:
    """Wait until the command and the page name the cause; return the CPU seconds that the command takes."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while True:
        before = _cpu_of_ended_children()
        result = await run_klm(kubeconfig, "explain", fault.kyma, *([fault.module] if fault.module else []))
        took = _cpu_of_ended_children() - before
        shown = text_of((await load(page, f"/kymas/{fault.kyma}"))[0])
        text = " ".join(result.text.split())
        if result.code == 1 and fault.expected in text and fault.expected in shown:
            return took
        assert time.monotonic() < deadline, f"{fault}\n{result.text}\n{result.errors}\n{shown}"
        await asyncio.sleep(0.2)


def _cpu_of_ended_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _faults(fleet: FleetProcess, kcp: Client, watchers: Watchers, modules: dict[str, str]) -> list[Fault]:
    broken, refused, silent, held, judged = (kyma_name(number) for number in (11, 22, 33, 44, 55))

    async def break_credentials() -> None:
        data = {"config": base64.b64encode(b"not a kubeconfig").decode()}
        await kcp.merge_patch(SECRETS, f"kubeconfig-{broken}", {"data": data}, KCP, field_manager="fault")

    async def want(kyma: str, kind: str, name: str) -> None:
        module = modules[kyma]
        allowed = {"metadata": {"name": module}, "spec": {"namespacedResources": {"allow": [_CONFIG_MAPS]}}}
        await kcp.apply(MODULE_POLICIES, module, allowed, KCP, field_manager="fault")
        metadata = {"name": name, "namespace": names.SKR_NAMESPACE}
        text = dump_yaml({"apiVersion": "v1", "kind": kind, "metadata": metadata})
        labels = {names.KYMA_NAME: kyma, names.MODULE_NAME: module}
        spec = {"kyma": kyma, "module": module, "resource": text}
        document = {"metadata": {"name": f"{kyma}-{name}", "labels": labels}, "spec": spec}
        await kcp.apply(SYNC_RESOURCES, f"{kyma}-{name}", document, KCP, field_manager="fault")

    async def refuse_object() -> None:
        await fleet.do("refuse", kyma=22, name="limits", text=REFUSAL)
        await want(refused, "ConfigMap", "limits")

    async def silence() -> None:
        watchers.silent.add(silent)

    async def release() -> None:
        channels = [{"channel": "regular", "version": VERSIONS[1]}, {"channel": "fast", "version": VERSIONS[1]}]
        patch = {"spec": {"channels": channels}}
        await kcp.merge_patch(MODULE_RELEASE_METAS, modules[held], patch, KCP, field_manager="fault")

    return [
        Fault("credentials", broken, break_credentials, "✗ cluster Secret kcp-system/kubeconfig-"),
        Fault("refused object", refused, refuse_object, REFUSAL, modules[refused]),
        Fault("silent Watcher", silent, silence, "✗ Watcher no events from the Watcher for"),
        Fault("held release", held, release, "◌ held back", modules[held]),
        Fault("policy", judged, lambda: want(judged, "Secret", "key"), "does not list Secret", modules[judged]),
    ]


_CONFIG_MAPS = {"group": "", "kind": "ConfigMap", "names": ["*"]}


async def _modules(kcp: Client) -> dict[str, str]:
    """Return the first module of each Kyma."""
    return {each.metadata.name: each.spec.modules[0].name for each in (await kcp.list(KYMAS, KCP)).items}


def _figure(name: str, seconds: float, most: float) -> Figure:
    return Figure(
        name=f"fleet_faults: {name}",
        unit="s",
        value=round(seconds, 2),
        bar=f"{most:g} s or less",
        met=seconds <= most,
    )


if __name__ == "__main__":
    sys.exit(main())
