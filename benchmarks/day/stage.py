"""All that runs in a day but the real clusters: control plane, replicas, Module Manager, Prometheus, clusters."""

import asyncio
import random
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.day import documents, service
from benchmarks.day.prometheus import Prometheus, run_prometheus
from benchmarks.day.replicas import Replicas
from benchmarks.processes.fleet import FleetProcess, run_controlled, serve_layers
from benchmarks.processes.fleet_documents import CONFIGURED, Document, Layers, kyma_name
from kube_runtime import (
    Client,
    ClientOptions,
    ClusterUnreachable,
    NotFound,
    Resource,
    dump_yaml,
    load_yaml,
    parse_objects,
)
from kyma_demo.environment import Environment, prepare_kcp
from kyma_fleet.identities import create_identity
from kyma_local.clusters import LocalClusters
from kyma_local.ports import free_port
from kyma_local.private_files import write_private
from kyma_local.processes import ChildProcess, start_child
from kyma_local.waiting import eventually
from kyma_module_manager.rights import lease_namespace_of, roles_of
from lifecycle_manager.contract.resources import KYMAS, SECRETS
from lifecycle_manager.process.crd_installation import apply_objects
from lifecycle_manager_api import names
from tests.debian import NoPackage
from tests.klm import Output, run_klm

KCP = names.KCP_NAMESPACE
OPTIONS = ClientOptions(qps=0, timeout_seconds=60, user_agent="operators")
JOINS_AT_A_TIME = 10
MAINTENANCE = "maintenance-policy.json"


@dataclass(eq=False)
class Stage:
    """What runs, for the actions. `touched` are the times at which something was done to a cluster."""

    folder: Path
    clusters: LocalClusters
    kcp: Client
    fleet: FleetProcess
    replicas: Replicas
    prometheus: Prometheus | None
    operators_token: str
    chance: random.Random
    speed: float
    modules: int
    children: dict[str, ChildProcess] = field(default_factory=dict)
    joined: set[str] = field(default_factory=set)
    hostile: set[str] = field(default_factory=set)
    leaving: set[str] = field(default_factory=set)
    left: set[str] = field(default_factory=set)
    touched: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    numbers: int = 0
    background: list["asyncio.Future[None]"] = field(default_factory=list)

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig of an operator."""
        return self.clusters.kcp.admin_kubeconfig

    async def klm(self, *arguments: str) -> Output:
        """Run `klm` as an operator does."""
        return await run_klm(self.kubeconfig, *arguments)

    def write_maintenance_policy(self, *, is_open: bool) -> None:
        """Write when upgrades with a downtime may be installed."""
        policy = documents.maintenance_policy(datetime.now(UTC), is_open=is_open)
        (self.folder / MAINTENANCE).write_bytes(msgspec.json.encode(policy))

    async def patch(self, resource: Resource[Any], name: str, patch: Document, *, by: str) -> None:
        """Change an object of the control plane; while that does not answer, people repeat it."""

        async def is_done() -> bool:
            try:
                await self.kcp.merge_patch(resource, name, patch, KCP, field_manager=by)
            except ClusterUnreachable:
                return False
            return True

        await eventually(is_done, every=1.0)

    async def pause(self, minutes: float, at_least: float = 0.0) -> None:
        """Wait for some minutes of the day."""
        await asyncio.sleep(max(minutes * 60 / self.speed, at_least))

    async def join(self, count: int) -> list[str]:
        """Let clusters join, as a broker registers them."""
        first, self.numbers = self.numbers, self.numbers + count
        turns = asyncio.Semaphore(JOINS_AT_A_TIME)

        async def join_one(number: int) -> str:
            name = kyma_name(number)
            async with turns:
                given = await self.fleet.do("join", name=name, number=number)
                secret = documents.access_secret(name, given["kubeconfig"])
                kyma = documents.kyma(name, number, documents.modules_of(number, self.modules))
                await self.kcp.create(SECRETS, secret, KCP, field_manager="broker")
                await self.kcp.create(KYMAS, kyma, KCP, field_manager="broker")
            self.joined.add(name)
            self.touched[name].append(time.time())
            return name

        return list(await asyncio.gather(*map(join_one, range(first, first + count))))

    async def leave(self, name: str) -> list[str]:
        """Let a cluster leave, as a broker does; return what is left in it."""
        self.joined.discard(name)
        self.leaving.add(name)
        self.touched[name].append(time.time())
        await self._delete(KYMAS, name)
        await eventually(lambda: self._is_gone(name), every=0.5)
        await self._delete(SECRETS, f"kubeconfig-{name}")
        self.leaving.discard(name)
        self.left.add(name)
        return list((await self.fleet.do("remove", name=name))["remaining"])

    async def _delete(self, resource: Resource[Any], name: str) -> None:
        """Delete an object that may be gone; while the control plane does not answer, a broker repeats it."""
        while True:
            with suppress(ClusterUnreachable):
                with suppress(NotFound):
                    await self.kcp.delete(resource, name, KCP)
                return
            await asyncio.sleep(1)

    async def forget_those_that_left(self) -> None:
        """Delete again what a restored control plane knows of clusters that have left, or are leaving."""
        for name in sorted(self.left | self.leaving):
            await self._delete(KYMAS, name)
            if name in self.left:
                await self._delete(SECRETS, f"kubeconfig-{name}")

    async def _is_gone(self, name: str) -> bool:
        try:
            await self.kcp.get(KYMAS, name, KCP)
        except NotFound:
            return True
        except ClusterUnreachable:  # the API server is restarted
            pass
        return False


@asynccontextmanager
async def open_stage(folder: Path, *, seed: int, speed: float, modules: int, replicas: int) -> AsyncIterator[Stage]:
    """Start everything but the clusters' registration."""
    async with AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
        layers = await stack.enter_async_context(serve_layers(folder, documents.VERSIONS))
        clusters = await stack.enter_async_context(
            LocalClusters.start(skrs=0, directory=folder / "clusters", audit="Metadata", fsync=True)
        )
        kcp = await stack.enter_async_context(
            await Client.from_environment(clusters.kcp.admin_kubeconfig, options=OPTIONS)
        )
        catalog = documents.entries(msgspec.json.decode(layers.read_bytes(), type=Layers))
        entries = [*catalog, documents.policy(), *documents.strategies(600 / speed)]
        manager, module, token = await _prepare(clusters, kcp, folder, entries)
        event_port, admission_port = free_port(), free_port()
        fleet = await stack.enter_async_context(
            run_controlled(
                "clusters", f"--folder={folder}", f"--port={event_port}", f"--seed={seed}", package="benchmarks.day"
            )
        )
        grace = f"--self-signed-ca-rotation-grace={max(1, round(600 / speed))}s"
        more = (grace, f"--maintenance-policy={folder / MAINTENANCE}")
        running = Replicas(manager, folder, event_port, more)
        chance = random.Random(seed)  # noqa: S311 - the same day each time
        prometheus = await _prometheus(folder, stack)
        stage = Stage(folder, clusters, kcp, fleet, running, prometheus, token, chance, speed, modules)
        stage.write_maintenance_policy(is_open=False)
        background = [
            tasks.create_task(running.probe()),
            tasks.create_task(service.serve(event_port, lambda: running.ready("events"))),
            tasks.create_task(service.serve(admission_port, lambda: running.ready("admission"))),
        ]
        await clusters.kcp.route_service(KCP, "lifecycle-manager-webhook", 443, "127.0.0.1", admission_port)
        stack.push_async_callback(running.close)
        await asyncio.gather(*(running.start() for _ in range(replicas)))
        stage.children["module-manager"] = await _start_module_manager(stage, module)
        stack.push_async_callback(stage.children["module-manager"].stop)
        try:
            yield stage
        finally:
            for task in background:
                task.cancel()


async def _prometheus(folder: Path, stack: AsyncExitStack) -> Prometheus | None:
    try:
        return await stack.enter_async_context(run_prometheus(folder / "prometheus"))
    except NoPackage as error:
        print(f"no alerts are evaluated: {error}", file=sys.__stderr__, flush=True)
        return None


async def _prepare(
    clusters: LocalClusters, kcp: Client, folder: Path, entries: list[Document]
) -> tuple[Path, Path, str]:
    """Prepare the control plane as the demo does.

    Return the kubeconfigs of Lifecycle Manager and Module Manager, and the token of operators who read.
    """
    kubeconfig = clusters.kcp.admin_kubeconfig
    manager, _ = await prepare_kcp(Environment(kcp, kcp, kubeconfig, kubeconfig, folder, clusters))
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": lease_namespace_of(CONFIGURED)}}
    await apply_objects(kcp, "---\n".join(map(dump_yaml, [namespace, *entries])))
    module = await create_identity(kcp, kubeconfig, name="module-configured", namespace=KCP, roles=roles_of(CONFIGURED))
    texts = files("kyma_fleet").joinpath("rbac.yaml").read_text()
    roles = [each.document for each in parse_objects(texts) if each.name == "klm-viewer"]
    viewer = await create_identity(kcp, kubeconfig, name="operators", namespace=KCP, roles=roles)
    token = str(load_yaml(viewer)["users"][0]["user"]["token"])
    return manager, write_private(folder / "module-configured.kubeconfig", module), token


async def _start_module_manager(stage: Stage, kubeconfig: Path) -> ChildProcess:
    command = [
        str(Path(sys.executable).with_name("kyma-module-manager")),
        "run",
        "benchmarks.day.module:objects",
        f"--kubeconfig={kubeconfig}",
        "--health-address=127.0.0.1:0",
    ]
    return await start_child("module-manager", command, stage.folder / "module-manager.log")
