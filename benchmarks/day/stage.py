"""All that runs in a day but the real clusters: control plane, replicas, Module Manager, Prometheus, clusters."""

import asyncio
import random
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path

import msgspec

from benchmarks.day import documents, service
from benchmarks.day.population import KCP, Population
from benchmarks.day.prometheus import Prometheus, run_prometheus
from benchmarks.day.replicas import Replicas
from benchmarks.processes.fleet import run_controlled, serve_layers
from benchmarks.processes.fleet_documents import CONFIGURED, Document, Layers
from kube_runtime import Client, ClientOptions, dump_yaml, load_yaml, parse_objects
from kyma_demo.environment import Environment, prepare_kcp
from kyma_fleet.identities import create_identity
from kyma_local.clusters import LocalClusters
from kyma_local.ports import free_port
from kyma_local.private_files import write_private
from kyma_local.processes import ChildProcess, start_child
from kyma_module_manager.rights import lease_namespace_of, roles_of
from lifecycle_manager.process.crd_installation import apply_objects
from tests.debian import NoPackage
from tests.klm import Output, run_klm

OPTIONS = ClientOptions(qps=0, timeout_seconds=60, user_agent="operators")
MAINTENANCE = "maintenance-policy.json"


@dataclass(eq=False, kw_only=True)
class Stage(Population):
    """What runs, for the actions."""

    folder: Path
    replicas: Replicas
    prometheus: Prometheus | None
    operators_token: str
    modules: int
    children: dict[str, ChildProcess] = field(default_factory=dict)
    background: list["asyncio.Future[None]"] = field(default_factory=list)

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig of an operator."""
        return self.clusters.kcp.admin_kubeconfig

    def kyma_of(self, name: str, number: int) -> Document:
        """Return the Kyma of a cluster that joins."""
        return documents.kyma(name, number, documents.modules_of(number, self.modules))

    async def klm(self, *arguments: str) -> Output:
        """Run `klm` as an operator does."""
        return await run_klm(self.kubeconfig, *arguments)

    def write_maintenance_policy(self, *, is_open: bool) -> None:
        """Write when upgrades with a downtime may be installed."""
        policy = documents.maintenance_policy(datetime.now(UTC), is_open=is_open)
        (self.folder / MAINTENANCE).write_bytes(msgspec.json.encode(policy))


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
        stage = Stage(
            folder=folder,
            clusters=clusters,
            kcp=kcp,
            fleet=fleet,
            replicas=running,
            prometheus=prometheus,
            operators_token=token,
            chance=chance,
            speed=speed,
            modules=modules,
        )
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
