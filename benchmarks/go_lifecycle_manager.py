"""Compares this Lifecycle Manager with the one in Go: the same fleet, catalog and clusters, one after the other.

GO_LIFECYCLE_MANAGER names the Go version (docs/migration.md says how to build it); without it nothing is measured. The
control plane is a real API server, the user clusters are simulated by another process. Of each version are measured the
installation of the fleet, an interval in which nothing changes, a new version of each module for all, and users who add
a module. Each but the quiet interval is followed by SETTLE_SECONDS, so that what a version does once all are Ready is
counted. Requests to the control plane are those of its audit log. Run by name:

    GO_LIFECYCLE_MANAGER=… python -m benchmarks.go_lifecycle_manager [--kymas 100] [--quiet-seconds 310]
"""

import argparse
import asyncio
import base64
import itertools
import json
import os
import statistics
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote

import httpx
import uvloop

from benchmarks.figures import Figure, print_all
from benchmarks.processes.fleet import (
    Answer,
    FleetProcess,
    LifecycleManagerProcess,
    run_controlled,
    run_lifecycle_manager,
    user_of,
)
from kube_runtime import Client, ClientOptions
from kyma_local.clusters import LocalClusters
from kyma_local.ports import free_port
from kyma_local.processes import tail
from kyma_local.waiting import eventually
from kyma_oci import Registries
from lifecycle_manager.contract.resources import KYMAS, SECRETS
from lifecycle_manager.process.crd_installation import apply_crds
from lifecycle_manager_api import Kyma, State, names
from tests.registries import real_registry
from tests.takeover_from_go import cert_manager, modules, surroundings
from tests.takeover_from_go.audit import GO, OURS, AuditLog
from tests.takeover_from_go.modules import GoModule
from tests.takeover_from_go.program import PROGRAM, GoLifecycleManager, definitions_of

KCP = names.KCP_NAMESPACE
OPTIONS = ClientOptions(qps=0, timeout_seconds=60, user_agent="benchmark")
TIMEOUT_SECONDS = 1_800.0
POLL_SECONDS = 0.25
SETTLE_SECONDS = 20.0
"""Longer than the record of a catalog waits for another write. Of a quiet interval that is a fifteenth."""
MODULES = tuple(GoModule(name=name, config_maps=3) for name in ("eventing", "gateways", "serverless", "telemetry"))
ADDED = GoModule(name="storage", config_maps=3)
"""The module that users add."""
CHOSEN = tuple(each.name for each in MODULES)
EVENT = {
    "watched": {"Namespace": names.SKR_NAMESPACE, "Name": names.DEFAULT_KYMA_NAME},
    "watchedGvk": {"group": names.GROUP, "version": "v1beta2", "kind": "Kyma"},
}
"""What a Watcher of the Go version sends."""
UNITS = {"cpu": "s", "seconds": "s", "memory": "MB", "applied": "ms", "ready": "ms"}
Step = Callable[[], Awaitable[None]]
Numbers = dict[str, float]
FleetContext = AbstractAsyncContextManager[FleetProcess]
Watcher = Callable[[Answer], Awaitable[None]]
"""Sends the event of a change that a user made in a cluster."""


@dataclass(eq=False)
class Site:
    """A control plane with its registry and its user clusters."""

    clusters: LocalClusters
    kcp: Client
    fleet: FleetProcess
    registry: str
    folder: Path
    kymas: list[str]
    event_port: int
    """Of the Lifecycle Manager."""

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig of the control plane's administrator."""
        return self.clusters.kcp.admin_kubeconfig


@dataclass(eq=False)
class Version:
    """One of the two versions while it runs. `watcher_of` returns what sends it the events of a cluster.

    `spent` and `peak` are the CPU time and the most memory of the processes before a restart.
    """

    name: str
    agent: str
    process: LifecycleManagerProcess
    watcher_of: Callable[[str], Awaitable[Watcher]]
    start_again: Callable[[], Awaitable[LifecycleManagerProcess]]
    numbers: dict[str, Numbers] = field(default_factory=dict)
    spent: float = 0.0
    peak: float = 0.0

    async def restart(self) -> None:
        """Stop the process in order, and wait until another one is ready."""
        self.spent, self.peak = self.cpu_seconds(), self.peak_memory()
        self.process = await self.start_again()

    def cpu_seconds(self) -> float:
        """Return the CPU time of all its processes."""
        return self.spent + self.process.cpu_seconds()

    def peak_memory(self) -> float:
        """Return the most memory of one of its processes, in MB."""
        return max(self.peak, self.process.peak_memory())


def main() -> int:
    """Measure both versions and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kymas", type=int, default=100)
    parser.add_argument("--users", type=int, default=20)
    parser.add_argument("--quiet-seconds", type=float, default=310.0, help="an interval of the Go version, and more")
    options = parser.parse_args()
    if not os.environ.get(PROGRAM):
        print(f"{PROGRAM} is not set: give the Lifecycle Manager in Go, see docs/migration.md", file=sys.stderr)
        return 2
    go = uvloop.run(_measure(options, run_go))
    ours = uvloop.run(_measure(options, run_ours))
    return print_all(figures_of(go, ours, options))


def figures_of(go: dict[str, Numbers], ours: dict[str, Numbers], options: argparse.Namespace) -> Iterator[Figure]:
    """Yield a figure for each number, that of the Go version as the peer."""
    for phase, numbers in ours.items():
        for what, value in numbers.items():
            yield Figure(
                name=f"go_lifecycle_manager_{phase}_{what}",
                unit=f"{UNITS.get(what, 'requests')}, {options.kymas} Kymas",
                value=round(value, 3),
                peer="the Go version",
                peer_value=round(go[phase][what], 3),
                bar="none given",
                met=True,
            )


async def _measure(
    options: argparse.Namespace, run: Callable[[Site, AsyncExitStack], Awaitable[Version]]
) -> dict[str, Numbers]:
    """Return the numbers of one version, by phase."""
    kymas = [f"{number:08x}-93a5-4c62-8f0e-2d5c7e1a9f44" for number in range(options.kymas)]
    async with open_site((*MODULES, ADDED), kymas) as site, AsyncExitStack() as stack:
        version = await run(site, stack)
        try:
            await _phases(site, version, options)
        except TimeoutError:
            print(tail(version.process.child.log, 20), file=sys.stderr)
            raise
    print(json.dumps({version.name: version.numbers}), file=sys.stderr)
    return version.numbers


@asynccontextmanager
async def open_site(
    catalog: Sequence[GoModule], kymas: list[str], clusters_of: Callable[[Path, int], FleetContext] | None = None
) -> AsyncIterator[Site]:
    """Start a control plane with a catalog, and the user clusters.

    `clusters_of` returns the latter for a folder and the port of events; without it there is one for each Kyma.
    """
    async with AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
        folder, port = Path(stack.enter_context(TemporaryDirectory(prefix="go-and-ours-"))), free_port()
        clusters = await stack.enter_async_context(LocalClusters.start(skrs=0, audit="Metadata"))
        kcp = await stack.enter_async_context(
            await Client.from_environment(clusters.kcp.admin_kubeconfig, options=OPTIONS)
        )
        running = run_controlled("user_clusters", *kymas) if clusters_of is None else clusters_of(folder, port)
        fleet = await stack.enter_async_context(running)
        registry = await stack.enter_async_context(real_registry(folder))
        site = Site(clusters, kcp, fleet, registry, folder, kymas, port)
        await _furnish(site, catalog)
        issuing = tasks.create_task(cert_manager.run(kcp))
        try:
            yield site
        finally:
            issuing.cancel()


async def _phases(site: Site, version: Version, options: argparse.Namespace) -> None:
    async def install() -> None:
        for name, kubeconfig in zip(site.kymas, site.fleet.kubeconfigs, strict=True):
            access = surroundings.access_of(name, json.dumps(kubeconfig))
            await surroundings.apply(site.kcp, access, "infrastructure-manager")
            labels = {names.MANAGED_BY: names.LIFECYCLE_MANAGER}
            access["metadata"]["labels"] |= labels
            await surroundings.apply(site.kcp, access, "infrastructure-manager")
            kyma = surroundings.kyma_of(name, [each.name for each in MODULES], labels)
            await surroundings.apply(site.kcp, kyma, "kyma-environment-broker")
        await await_kymas(site, lambda kyma: versions_of(kyma) == dict.fromkeys(CHOSEN, modules.OLD))

    async def wait() -> None:
        await asyncio.sleep(options.quiet_seconds)

    async def upgrade() -> None:
        for module in MODULES:
            await surroundings.apply(site.kcp, module.release_meta(regular=modules.NEW), "modulectl")
        await await_kymas(site, lambda kyma: versions_of(kyma) == dict.fromkeys(CHOSEN, modules.NEW))

    async def users_add_a_module() -> None:
        latencies = [await _add_module(site, version, name) for name in site.kymas[: options.users]]
        for position, what in enumerate(("applied", "ready")):
            changes[what] = statistics.median(each[position] for each in latencies) * 1000

    changes: Numbers = {}
    await _phase(site, version, "installation", install)
    version.numbers["installation"]["memory"] = version.process.peak_memory()
    await _phase(site, version, "quiet", wait)
    await _phase(site, version, "new_version", upgrade)
    await _phase(site, version, "user_change", users_add_a_module)
    version.numbers["user_change"] |= changes


async def _phase(site: Site, version: Version, phase: str, step: Step) -> None:
    """Carry a step out, and note what it cost."""
    audit, before = AuditLog.of(site.clusters.kcp), await site.fleet.do("counts")
    began, cpu = time.monotonic(), version.process.cpu_seconds()
    await step()
    seconds = time.monotonic() - began
    if phase != "quiet":
        await asyncio.sleep(SETTLE_SECONDS)
    after = await site.fleet.do("counts")
    version.numbers[phase] = {
        "cpu": version.process.cpu_seconds() - cpu,
        "seconds": seconds,
        "kcp_requests": sum(1 for _ in audit.requests(version.agent)),
        **{f"skr_{what}": after.get(what, 0) - before.get(what, 0) for what in ("requests", "writes", "dry_runs")},
    }
    print(json.dumps({version.name: {phase: version.numbers[phase]}}), file=sys.stderr)


async def _add_module(site: Site, version: Version, kyma: str) -> tuple[float, float]:
    """Add a module as a user; return the seconds until it is applied, and until the Kyma says that it is Ready."""
    send_event = await version.watcher_of(kyma)
    applied = site.fleet.await_applied(kyma, ADDED.name)
    edited = await site.fleet.do("add", cluster=kyma, module=ADDED.name)
    await send_event(edited)
    async with asyncio.timeout(TIMEOUT_SECONDS):
        seconds = await applied - edited["at"]
        await eventually(lambda: _has_added(site, kyma), every=0.02)
    return seconds, time.monotonic() - edited["at"]


def versions_of(kyma: Kyma) -> dict[str, str]:
    """Return the versions of the modules of a Kyma that are Ready."""
    return {each.name: each.version for each in kyma.status.modules if each.state is State.READY}


async def _has_added(site: Site, kyma: str) -> bool:
    return ADDED.name in versions_of(await site.kcp.get(KYMAS, kyma, KCP))


async def await_kymas(site: Site, reached: Callable[[Kyma], bool]) -> None:
    """Wait until all Kymas are in a state."""

    async def have_reached() -> bool:
        return all(map(reached, (await site.kcp.list(KYMAS, KCP)).items))

    async with asyncio.timeout(TIMEOUT_SECONDS):
        await eventually(have_reached, every=POLL_SECONDS)


async def _furnish(site: Site, catalog: Sequence[GoModule]) -> None:
    """Install what both versions find, and bring the modules to registry and catalog."""
    await surroundings.prepare(site.kcp, definitions_of(Path(os.environ[PROGRAM])))
    registries = Registries()
    try:
        for module in catalog:
            for version in (modules.OLD, modules.NEW):
                await module.push(registries, site.registry, version)
                await surroundings.apply(site.kcp, module.template(version), "modulectl")
            await surroundings.apply(site.kcp, module.release_meta(regular=modules.OLD), "modulectl")
    finally:
        await registries.close()


async def run_go(site: Site, stack: AsyncExitStack) -> Version:
    """Run the Go version."""
    options = {
        "oci-registry-host": f"http://{site.registry}",
        "skr-watcher-image-tag": "2.1.12",
        "log-level": "0",
        "module-upgrade-rollout-max-delay": "0",
        "max-concurrent-kyma-reconciles": "10",
        "max-concurrent-manifest-reconciles": "10",
    }
    program = Path(os.environ[PROGRAM])
    go = GoLifecycleManager(program, site.kubeconfig, site.folder, options, listener_port=site.event_port)
    stack.push_async_callback(go.stop)

    async def start_again() -> LifecycleManagerProcess:
        await go.stop()
        await go.start()
        assert go.child is not None
        return LifecycleManagerProcess(go.child, go.metrics_port)

    process = await start_again()
    client = await stack.enter_async_context(httpx.AsyncClient(timeout=30))

    async def watcher_of(kyma: str) -> Watcher:
        """Return what sends events as the gateway passes them on."""
        secret = await site.kcp.get(SECRETS, f"{kyma}-webhook-tls", cert_manager.NAMESPACE)
        certificate = quote(base64.b64decode(secret.data["tls.crt"]).decode())

        async def send_event(_: Answer) -> None:
            url = f"http://127.0.0.1:{go.listener_port}/v2/{names.LIFECYCLE_MANAGER}/event"
            headers = {"X-Forwarded-Client-Cert": f'Cert="{certificate}"'}
            (await client.post(url, json=EVENT, headers=headers)).raise_for_status()

        return send_event

    return Version("go", GO, process, watcher_of, start_again)


async def run_ours(site: Site, stack: AsyncExitStack, given: Sequence[str] = ()) -> Version:
    """Run this version, with its defaults where the Go version has them, and further options."""
    await apply_crds(site.kcp)
    more, numbers = (f"--oci-registry-host=http://{site.registry}", *given), itertools.count()
    running = await stack.enter_async_context(AsyncExitStack())

    async def start_again() -> LifecycleManagerProcess:
        await running.aclose()
        process = await running.enter_async_context(
            run_lifecycle_manager(site.kubeconfig, site.event_port, site.folder, more=more)
        )
        await process.wait_until_ready()
        return process

    process = await start_again()

    async def watcher_of(kyma: str) -> Watcher:
        """Return what sends events as the Watcher of this version does."""
        user = user_of(next(numbers), await site.kcp.get(SECRETS, f"{kyma}-webhook-tls", KCP), site.event_port)
        stack.push_async_callback(user.client.aclose)
        return user.send_event

    return Version("ours", OURS, process, watcher_of, start_again)


if __name__ == "__main__":
    sys.exit(main())
