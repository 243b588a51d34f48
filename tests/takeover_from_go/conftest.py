"""Two clusters with seven modules, installed by the Lifecycle Manager in Go, and then in other hands.

`GO_LIFECYCLE_MANAGER` names the program; `RECORD_GO_LIFECYCLE_MANAGER=1` writes the recording anew. To build it:

1. Check out kyma-project/lifecycle-manager and open-component-model/ocm, the latter at the version that `go.mod` of the
   first names.
2. In the first, replace the module `ocm.software/ocm` by the second checkout (`go mod edit -replace`): the module proxy
   refuses that one. Then `go build -mod=mod -o bin/manager ./cmd`.
3. Leave the program in `bin` of its checkout: it reads `skr-webhook`, and the tests read the CRDs in `config`.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from kube_runtime import Client, ClientOptions
from kyma_local.clusters import LocalClusters
from kyma_local.ports import free_port
from kyma_oci import Registries
from lifecycle_manager.app import lifecycle_manager
from lifecycle_manager.contract.resources import KYMAS, MANIFESTS
from lifecycle_manager.settings import Settings
from lifecycle_manager_api import Kyma, Manifest, names
from tests.kinds import DEPLOYMENTS
from tests.registries import real_registry
from tests.reused_clusters import ReusedClusters
from tests.takeover_from_go import cert_manager, modules, played, recorder, restored, surroundings
from tests.takeover_from_go.audit import AuditLog
from tests.takeover_from_go.modules import GoModule
from tests.takeover_from_go.program import PROGRAM, GoLifecycleManager, definitions_of, find_program
from tests.takeover_from_go.recordings import recorded
from tests.takeover_from_go.restored import Certificates, Contents

OPTIONS = ClientOptions(qps=0, timeout_seconds=60, user_agent="test")
KCP, SKR = names.KCP_NAMESPACE, names.SKR_NAMESPACE
GO_OPTIONS = {
    "skr-watcher-image-tag": "2.1.12",
    "log-level": "0",
    "module-upgrade-rollout-max-delay": "0",
    "skr-image-pull-secret": surroundings.PULL_SECRET,
    "max-concurrent-kyma-reconciles": "10",
    "max-concurrent-manifest-reconciles": "10",
    "failure-max-delay": "2s",
    "failure-base-delay": "200ms",
    "kyma-requeue-success-interval": "3s",
    "kyma-requeue-busy-interval": "1s",
    "manifest-requeue-success-interval": "3s",
    "manifest-requeue-busy-interval": "1s",
    "mandatory-module-requeue-success-interval": "3s",
}
"""Shorter intervals than in production: what it does at its next turn shall be seen."""
ELECTION = {
    "leader-election-lease-duration": "6s",
    "leader-election-renew-deadline": "4s",
    "leader-election-retry-period": "1s",
}
OURS = {
    "leader_elect": False,
    "self_signed_cert_issuer_namespace": cert_manager.NAMESPACE,
    "allow_unprotected_modules": True,
    "module_upgrade_rollout_max_delay": "0s",
    "manifest_requeue_busy_interval": "200ms",
    "kyma_requeue_busy_interval": "200ms",
    "failure_max_delay": "1s",
    "skr_image_pull_secret": surroundings.PULL_SECRET,
    "watcher_silence": "1h",  # no Watcher runs here
    "watcher_canary_interval": "1h",
    "watcher_canary_timeout": "1h",
}


def pytest_itemcollected(item: pytest.Item) -> None:
    """Run the tests of a file in their order: they are the steps of one takeover. All files share the clusters."""
    item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)
    item.add_marker(pytest.mark.xdist_group("takeover_from_go"))
    if isinstance(item, pytest.Function) and "go" in item.fixturenames and find_program() is None:
        reason = f"{PROGRAM} is not set: give the Lifecycle Manager in Go, see docs/migration.md"
        item.add_marker(pytest.mark.skip(reason=reason))


@dataclass(eq=False)
class Stage:
    """A control plane with two clusters, the Go version, and the registry with the modules."""

    clusters: LocalClusters
    kcp: Client
    skrs: tuple[Client, ...]
    registry: str
    go: GoLifecycleManager | None
    """None where the clusters are as it was recorded to have left them."""
    secrets: dict[str, Contents] = field(default_factory=dict)
    """What the Secrets of a recorded Go version contain, by cluster."""
    event_port: int = field(default_factory=free_port)
    logs: list[AuditLog] = field(init=False)
    """What is written to the clusters, for all the time of the stage."""

    def __post_init__(self) -> None:
        self.logs = self.audit()

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig of the control plane's administrator."""
        return self.clusters.kcp.admin_kubeconfig

    @property
    def by_name(self) -> dict[str, Client]:
        """The clients of all clusters, by the name that a cluster has in the recording."""
        return {"kcp": self.kcp, **{f"skr-{number}": each for number, each in enumerate(self.skrs, start=1)}}

    @property
    def our_options(self) -> dict[str, Any]:
        """The options of this version."""
        bound = {
            each: f"127.0.0.1:{free_port()}"
            for each in ("metrics_bind_address", "health_probe_bind_address", "replica_bind_address")
        }
        events = f"127.0.0.1:{self.event_port}"
        addresses = {"kyma_skr_listener_bind_address": events, "event_address": events}
        return {**OURS, **bound, **addresses, "oci_registry_host": f"http://{self.registry}"}

    def audit(self) -> list[AuditLog]:
        """Return what is written to the clusters from now on."""
        return [AuditLog.of(each) for each in (self.clusters.kcp, *self.clusters.skrs)]

    @asynccontextmanager
    async def ours(self, **options: Any) -> AsyncGenerator[None, None]:
        """Run this version until the block ends."""
        stopping = asyncio.Event()
        settings = Settings({**self.our_options, **options})
        async with (
            await Client.from_environment(self.kubeconfig, options=ClientOptions(qps=0)) as kcp,
            lifecycle_manager(settings, kcp) as manager,
            asyncio.TaskGroup() as tasks,
        ):
            running = tasks.create_task(manager.run(stopping))
            yield
            stopping.set()
            await running

    async def kyma(self, number: int) -> Kyma:
        return await self.kcp.get(KYMAS, surroundings.RUNTIMES[number], KCP)

    async def manifests(self, number: int) -> dict[str, Manifest]:
        """Return the Manifests of a Kyma, by module."""
        selector = f"{names.KYMA_NAME}={surroundings.RUNTIMES[number]}"
        found = (await self.kcp.list(MANIFESTS, KCP, label_selector=selector)).items
        return {each.metadata.labels[names.MODULE_NAME]: each for each in found}

    async def identities(self) -> dict[str, str]:
        """Return the uids of all objects in all clusters, by cluster, kind and name."""
        found = {}
        for name, cluster in self.by_name.items():
            for each in await recorder.objects_of(cluster):
                found[f"{name}/{recorder.name_of(each)}"] = each["metadata"]["uid"]
        return found

    async def recording(self) -> dict[str, str]:
        """Return all objects of all clusters as they are recorded, by file."""
        return await recorder.recording_of(self.by_name, self.registry)

    async def states(self, number: int) -> dict[str, str]:
        """Return the states of the modules of a Kyma, and its own, as its status has them."""
        status = (await self.kyma(number)).status
        return {"": str(status.state), **{each.name: str(each.state) for each in status.modules}}

    async def choose(self, number: int, chosen: Mapping[str, Mapping[str, Any]]) -> None:
        """Have a user choose modules: names with what is said of each."""
        listed = [{"name": name, **more} for name, more in chosen.items()]
        await self.skrs[number].merge_patch(
            KYMAS, names.DEFAULT_KYMA_NAME, {"spec": {"modules": listed}}, SKR, field_manager="user"
        )

    async def push(self, module: GoModule, version: str) -> None:
        """Bring a version of a module to the registry."""
        registries = Registries()
        try:
            await module.push(registries, self.registry, version)
        finally:
            await registries.close()

    async def publish(self, module: GoModule, version: str, **channels: str) -> None:
        """Bring a version of a module to the registry and the catalog."""
        await self.push(module, version)
        await surroundings.apply(self.kcp, module.template(version), "modulectl")
        await surroundings.apply(self.kcp, module.release_meta(**channels), "modulectl")

    async def replicas(self) -> int:
        """Return how many replicas of the Go version run."""
        deployment = await self.kcp.get(DEPLOYMENTS, surroundings.DEPLOYMENT, KCP)
        return int(deployment["status"].get("replicas", 0))

    async def follow_deployment(self) -> None:
        """Run the Go version, if there is one, while its Deployment has a replica, until cancelled."""
        try:
            while True:
                if self.go is not None:
                    deployment = await self.kcp.get(DEPLOYMENTS, surroundings.DEPLOYMENT, KCP)
                    await (self.go.start() if deployment["spec"]["replicas"] else self.go.stop())
                await played.run_deployments(self.kcp)
                await asyncio.sleep(played.POLL_SECONDS)
        finally:
            if self.go is not None:
                await self.go.stop()


@pytest.fixture(scope="module")
def pod() -> str:
    """The name of the Pod in which the Go version runs; empty where it runs in none, and elects no leader."""
    return ""


@pytest.fixture(scope="module")
def program() -> Path | None:
    """The Go version; None for clusters as it was recorded to have left them."""
    return find_program()


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def reused() -> AsyncIterator[ReusedClusters]:
    async with ReusedClusters.start(skrs=2, audit="Request") as clusters:
        yield clusters


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def stage(
    reused: ReusedClusters, tmp_path_factory: pytest.TempPathFactory, program: Path | None, pod: str
) -> AsyncIterator[Stage]:
    """A control plane with two Kymas: the Go version starts there, or was recorded to have left it so."""
    folder = tmp_path_factory.mktemp("go")
    async with (
        reused.lent() as clusters,
        real_registry(folder) as registry,
        AsyncExitStack() as stack,
        asyncio.TaskGroup() as tasks,
    ):
        kcp, *skrs = [
            await stack.enter_async_context(await Client.from_environment(each.admin_kubeconfig, options=OPTIONS))
            for each in (clusters.kcp, *clusters.skrs)
        ]
        options = {**GO_OPTIONS, **(ELECTION if pod else {}), "oci-registry-host": f"http://{registry}"}
        kubeconfig = clusters.kcp.admin_kubeconfig
        go = GoLifecycleManager(program, kubeconfig, folder, options, pod) if program else None
        stage = Stage(clusters, kcp, tuple(skrs), registry, go)
        await (_furnish(stage, go) if go else _restore(stage))
        everything = (*modules.INSTALLED, modules.LATER)
        playing = [
            tasks.create_task(each)
            for each in (
                cert_manager.run(kcp),
                stage.follow_deployment(),
                *(played.run_cluster(each, everything) for each in skrs),
            )
        ]
        try:
            yield stage
        finally:
            for each in playing:
                each.cancel()


@pytest.fixture
def go(stage: Stage) -> GoLifecycleManager:
    assert stage.go is not None
    return stage.go


async def _restore(stage: Stage) -> None:
    accesses = [each.admin_kubeconfig.read_text() for each in stage.clusters.skrs]
    secrets = restored.secrets_of(dict(zip(surroundings.RUNTIMES, accesses, strict=True)), Certificates.issue())
    stage.secrets = secrets
    for module in modules.INSTALLED:
        await stage.push(module, modules.OLD)
    async with asyncio.TaskGroup() as tasks:
        for name, client in stage.by_name.items():
            tasks.create_task(restored.restore_cluster(client, recorded(name), secrets[name], stage.registry))


async def _furnish(stage: Stage, go: GoLifecycleManager) -> None:
    await surroundings.prepare(stage.kcp, definitions_of(go.program))
    await stage.clusters.kcp.restart_controllers()
    for module in modules.INSTALLED:
        await stage.publish(module, modules.OLD, regular=modules.OLD, fast=modules.OLD)
    for number, cluster in enumerate(stage.clusters.skrs):
        runtime = surroundings.RUNTIMES[number]
        access = surroundings.access_of(runtime, cluster.admin_kubeconfig.read_text())
        await surroundings.apply(stage.kcp, access, "infrastructure-manager")
        kyma = surroundings.kyma_of(runtime, modules.CHOSEN[number], surroundings.LABELS[number])
        await surroundings.apply(stage.kcp, kyma, "kyma-environment-broker")
    deployment = surroundings.deployment_of(go.arguments)
    await surroundings.apply(stage.kcp, deployment, "kustomize")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def before(stage: Stage) -> dict[str, str]:
    """The uids of all objects that the Go version left."""
    return await stage.identities()
