"""A control plane and a cluster on real API servers as the former version leaves them, and ours in this process."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from kube_runtime import Client, ClientOptions, KindUnknown, Manager, NotFound
from kyma_local.clusters import LocalCluster, LocalClusters
from kyma_local.ports import free_port
from lifecycle_manager.app import lifecycle_manager
from lifecycle_manager.contract.resources import KYMAS, MANIFESTS
from lifecycle_manager.process.crd_installation import apply_crds, apply_objects
from lifecycle_manager.settings import Settings
from lifecycle_manager_api import Kyma, Manifest, names
from tests.integration.takeover import seeding
from tests.registries import BlobServer, blob_server, packed
from tests.waiting import eventually

OPTIONS = ClientOptions(qps=0, timeout_seconds=60)
KCP, SKR = names.KCP_NAMESPACE, names.SKR_NAMESPACE
FAST = {
    "leader_elect": False,
    "self_signed_cert_issuer_namespace": "istio-system",
    "allow_unprotected_modules": True,
    "module_upgrade_rollout_max_delay": "0s",
    "manifest_requeue_busy_interval": "100ms",
    "kyma_requeue_busy_interval": "100ms",
    "failure_max_delay": "500ms",
    "skr_image_pull_secret": seeding.PULL_SECRET,
}


GONE = (
    ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "skr-webhook"),
    ("apps/v1", "Deployment", "skr-webhook"),
    ("v1", "Secret", "skr-webhook-tls"),
    ("v1", "Secret", seeding.PULL_SECRET),
    ("v1", "Service", "skr-webhook"),
    ("v1", "Service", "skr-webhook-metrics"),
    ("networking.k8s.io/v1", "NetworkPolicy", "kyma-project.io--watcher-to-dns"),
    ("scheduling.k8s.io/v1", "PriorityClass", "skr-webhook-priority"),
    ("apps/v1", "Deployment", seeding.MODULE),
    ("v1", "ConfigMap", seeding.MODULE),
    ("rbac.authorization.k8s.io/v1", "ClusterRole", seeding.MODULE),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition", "samples.template.example.com"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition", "moduletemplates.operator.kyma-project.io"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition", "kymas.operator.kyma-project.io"),
)
"""What no cluster has whose Kyma was deleted."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the tests of a file in their order, in one event loop and one worker: they are the steps of one takeover."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.asyncio(loop_scope="module"), append=False)
            item.add_marker(pytest.mark.xdist_group(f"takeover_{item.path.stem}"))


@dataclass(eq=False)
class Takeover:
    kcp: Client
    skr: Client
    clusters: LocalClusters
    layers: BlobServer
    seed: seeding.Seed
    event_port: int = field(default_factory=free_port)

    @asynccontextmanager
    async def running(self, **options: Any) -> AsyncGenerator[Manager, None]:
        """Run ours until the block ends."""
        bound = {
            each: f"127.0.0.1:{free_port()}"
            for each in ("metrics_bind_address", "health_probe_bind_address", "replica_bind_address")
        }
        events = f"127.0.0.1:{self.event_port}"
        given = {**FAST, **bound, "kyma_skr_listener_bind_address": events, "event_address": events, **options}
        stopping = asyncio.Event()
        async with lifecycle_manager(Settings(given), self.kcp) as manager, asyncio.TaskGroup() as tasks:
            running = tasks.create_task(manager.run(stopping))
            yield manager
            stopping.set()
            await running

    async def manifest(self) -> Manifest | None:
        """Return the Manifest of the module, if there is one."""
        found = (await self.kcp.list(MANIFESTS, KCP)).items
        return found[0] if found else None

    async def kyma(self) -> Kyma:
        return await self.kcp.get(KYMAS, seeding.KYMA, KCP)

    async def live(self, api_version: str, kind: str, name: str) -> dict[str, Any] | None:
        """Return an object in the cluster, None where it does not exist."""
        try:
            resource = await self.skr.mapper.resource(api_version, kind)
            return await self.skr.get(resource, name, SKR if resource.namespaced else None)
        except (NotFound, KindUnknown):
            return None

    async def choose(self, channel: str, *modules: str) -> None:
        chosen = [{"name": each, "managed": True} for each in modules]
        patch = {"spec": {"channel": channel, "modules": chosen}}
        await self.skr.merge_patch(KYMAS, names.DEFAULT_KYMA_NAME, patch, SKR, field_manager="user")

    async def until_nothing_is_left(self) -> None:
        """Wait until the Kyma is gone, and check that nothing of either version is left in the cluster."""

        async def is_gone() -> bool:
            try:
                await self.kyma()
            except NotFound:
                return True
            return False

        await eventually(is_gone, what="the Kyma is gone", within=90)
        assert await self.manifest() is None
        for version, kind, name in GONE:

            async def has_left(version: str = version, kind: str = kind, name: str = name) -> bool:
                return await self.live(version, kind, name) is None

            await eventually(has_left, what=f"{kind} {name} is gone", within=20)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world() -> AsyncIterator[Takeover]:
    """What the former version leaves behind."""
    async with LocalClusters.start(skrs=1) as clusters, blob_server() as layers:
        kcp, skr = (each.admin_kubeconfig for each in (clusters.kcp, clusters.skrs[0]))
        async with (
            await Client.from_environment(kcp, options=OPTIONS) as kcp_client,
            await Client.from_environment(skr, options=OPTIONS) as skr_client,
        ):
            yield await left_behind(Takeover(kcp_client, skr_client, clusters, layers, seeding.Seed()))


async def left_behind(world: Takeover) -> Takeover:
    """Write what the former version leaves behind."""
    digests = tuple(world.layers.hold(packed({"all.yaml": seeding.module_text(number)})) for number in (1, 2))
    kubeconfig = access_of(world.clusters.skrs[0])
    world.seed = seeding.Seed(registry=world.layers.host, layers=(digests[0], digests[1]), kubeconfig=kubeconfig)
    await apply_objects(world.kcp, namespaces(KCP, names.KCP_LEASE_NAMESPACE, "istio-system"))
    await apply_crds(world.kcp)
    await world.clusters.kcp.restart_controllers()
    await seeding.write(world.kcp, "shared", world.seed)
    await seeding.write(world.kcp, "catalog", world.seed)
    kyma, *others = seeding.writes_of("control_plane", world.seed)
    await seeding.carry_out(world.kcp, kyma)
    world.seed = seeding.Seed(
        registry=world.seed.registry,
        layers=world.seed.layers,
        kubeconfig=kubeconfig,
        kyma_uid=(await world.kyma()).metadata.uid,
    )
    for each in seeding.writes_of("control_plane", world.seed)[1:]:
        await seeding.carry_out(world.kcp, each)
    assert others
    await seeding.apply_crds_of_the_cluster(world.skr)
    first, *rest = seeding.writes_of("cluster", world.seed)
    await seeding.carry_out(world.skr, first)
    await seeding.install_module(world.skr)
    await eventually(lambda: are_served(world.skr))
    for each in rest:
        await seeding.carry_out(world.skr, each)
    await seeding.write(world.skr, "watcher", world.seed)
    return world


async def are_served(skr: Client) -> bool:
    try:
        for version, kind in ((KYMAS.api_version, "Kyma"), ("template.example.com/v1alpha1", "Sample")):
            await skr.list(await skr.mapper.resource(version, kind), SKR)
    except (KindUnknown, NotFound):
        return False
    return True


def namespaces(*wanted: str) -> str:
    return "---\n".join(f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n" for name in wanted)


def access_of(cluster: LocalCluster) -> str:
    return cluster.admin_kubeconfig.read_text()
