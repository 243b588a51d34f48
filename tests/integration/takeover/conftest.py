"""A control plane and a cluster on real API servers as the former version leaves them, and ours in this process."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import pytest_asyncio

from kube_runtime import Client, ClientOptions, KindUnknown, Manager, NotFound
from kyma_certs import KeyPair
from kyma_local.clusters import LocalClusters
from kyma_local.ports import free_port
from kyma_oci import Registries
from lifecycle_manager.app import lifecycle_manager
from lifecycle_manager.contract.resources import KYMAS, MANIFESTS, SECRETS
from lifecycle_manager.process.crd_installation import apply_crds
from lifecycle_manager.settings import Settings
from lifecycle_manager_api import Kyma, Manifest, find, names
from tests.registries import real_registry
from tests.reused_clusters import ReusedClusters
from tests.takeover_from_go import modules, restored, surroundings
from tests.takeover_from_go.cert_manager import NAMESPACE as CA_NAMESPACE
from tests.takeover_from_go.starts import (
    DROPPED_MODULE,
    KYMA,
    MODULE,
    PURGE_FINALIZER,
    REMOVED_WATCHER,
    start,
    stopped_lease,
)
from tests.waiting import eventually, is_gone

OPTIONS = ClientOptions(qps=0, timeout_seconds=60)
KCP, SKR = names.KCP_NAMESPACE, names.SKR_NAMESPACE
FAST = {
    "leader_elect": False,
    "self_signed_cert_issuer_namespace": CA_NAMESPACE,
    "allow_unprotected_modules": True,
    "module_upgrade_rollout_max_delay": "0s",
    "manifest_requeue_busy_interval": "100ms",
    "kyma_requeue_busy_interval": "100ms",
    "kyma_requeue_success_interval": "5s",  # the Watcher is not everywhere
    "failure_max_delay": "500ms",
    "skr_image_pull_secret": surroundings.PULL_SECRET,
}
DIFFERENCES = {"kcp": (PURGE_FINALIZER,), "skr-1": (REMOVED_WATCHER, DROPPED_MODULE)}
"""Cases that no recording shows, for all tests here."""
GONE = (
    ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "skr-webhook"),
    ("apps/v1", "Deployment", "skr-webhook"),
    ("v1", "Secret", "skr-webhook-tls"),
    ("v1", "Secret", surroundings.PULL_SECRET),
    ("v1", "Service", "skr-webhook"),
    ("v1", "Service", "skr-webhook-metrics"),
    ("networking.k8s.io/v1", "NetworkPolicy", "kyma-project.io--watcher-to-dns"),
    ("scheduling.k8s.io/v1", "PriorityClass", "skr-webhook-priority"),
    ("apps/v1", "Deployment", MODULE.name),
    ("v1", "ConfigMap", MODULE.name),
    ("rbac.authorization.k8s.io/v1", "ClusterRole", MODULE.name),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition", f"samples.{MODULE.group}"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition", "moduletemplates.operator.kyma-project.io"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition", "kymas.operator.kyma-project.io"),
)
"""What no cluster has whose Kyma was deleted."""


def pytest_itemcollected(item: pytest.Item) -> None:
    """Run the tests of a file in their order: they are the steps of one takeover. All files share the clusters."""
    item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)
    item.add_marker(pytest.mark.xdist_group("takeover"))


@dataclass(eq=False)
class Takeover:
    kcp: Client
    skr: Client
    clusters: LocalClusters
    issued: restored.Certificates
    leaf: KeyPair
    registry: str
    event_port: int = field(default_factory=free_port)

    @asynccontextmanager
    async def running(self, **options: Any) -> AsyncGenerator[Manager, None]:
        """Run ours until the block ends."""
        bound = {
            each: f"127.0.0.1:{free_port()}"
            for each in ("metrics_bind_address", "health_probe_bind_address", "replica_bind_address")
        }
        events = f"127.0.0.1:{self.event_port}"
        registry = {"oci_registry_host": f"http://{self.registry}"}
        given = {
            **FAST,
            **registry,
            **bound,
            "kyma_skr_listener_bind_address": events,
            "event_address": events,
            **options,
        }
        stopping = asyncio.Event()
        async with lifecycle_manager(Settings(given), self.kcp) as manager, asyncio.TaskGroup() as tasks:
            running = tasks.create_task(manager.run(stopping))
            yield manager
            stopping.set()
            await running

    async def manifests(self) -> tuple[Manifest, ...]:
        """Return the Manifest of the module, if it has one."""
        return (await self.kcp.list(MANIFESTS, KCP)).items

    async def manifest(self) -> Manifest:
        """Return the Manifest of the module."""
        return (await self.manifests())[0]

    async def has_no_manifest(self) -> bool:
        return not await self.manifests()

    async def kyma(self) -> Kyma:
        return await self.kcp.get(KYMAS, KYMA, KCP)

    async def stored(self, api_version: str, kind: str, name: str) -> dict[str, Any]:
        """Return an object in the cluster. Raises NotFound, KindUnknown."""
        resource = await self.skr.mapper.resource(api_version, kind)
        return await self.skr.get(resource, name, SKR if resource.namespaced else None)

    async def live(self, api_version: str, kind: str, name: str) -> dict[str, Any] | None:
        """Return an object in the cluster, None where it does not exist."""
        try:
            return await self.stored(api_version, kind, name)
        except (NotFound, KindUnknown):
            return None

    async def choose(self, channel: str, *modules: str) -> None:
        chosen = [{"name": each, "managed": True} for each in modules]
        patch = {"spec": {"channel": channel, "modules": chosen}}
        await self.skr.merge_patch(KYMAS, names.DEFAULT_KYMA_NAME, patch, SKR, field_manager="user")

    async def watcher_is(self, reason: str) -> None:
        """Wait until the Kyma says this of its Watcher."""

        async def shown() -> bool:
            condition = find((await self.kyma()).status.conditions, "SKRWebhook")
            return condition is not None and condition.reason == reason

        await eventually(shown, what=f"the Watcher is {reason}")

    async def until_nothing_is_left(self) -> None:
        """Wait until the Kyma is gone, and check that nothing of either version is left in the cluster."""
        await eventually(lambda: is_gone(self.kyma()), what="the Kyma is gone", within=90)
        assert await self.has_no_manifest()
        for version, kind, name in GONE:

            async def has_left(version: str = version, kind: str = kind, name: str = name) -> bool:
                return await self.live(version, kind, name) is None

            await eventually(has_left, what=f"{kind} {name} is gone")


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def reused() -> AsyncIterator[ReusedClusters]:
    async with ReusedClusters.start(skrs=1) as clusters:
        yield clusters


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def world(reused: ReusedClusters, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Takeover]:
    """What the former version was recorded to leave behind."""
    issued = restored.Certificates.issue()
    async with (
        reused.lent() as clusters,
        real_registry(tmp_path_factory.mktemp("registry")) as registry,
        await Client.from_environment(clusters.kcp.admin_kubeconfig, options=OPTIONS) as kcp,
        await Client.from_environment(clusters.skrs[0].admin_kubeconfig, options=OPTIONS) as skr,
    ):
        world = Takeover(kcp, skr, clusters, issued, issued.leaf(KYMA), registry)
        await _leave_behind(world)
        yield world


async def _leave_behind(world: Takeover) -> None:
    """Restore both clusters, with the next version of the module in another channel, as its team published it."""
    access = world.clusters.skrs[0].admin_kubeconfig.read_text()
    issued, leaf = world.issued, world.leaf
    contents = {
        "kcp": {**issued.secrets(), **issued.secrets_of(KYMA, leaf, access)},
        "skr-1": issued.secrets_in(leaf),
    }
    for name, client in {"kcp": world.kcp, "skr-1": world.skr}.items():
        documents = start(name, *DIFFERENCES[name], chosen=(MODULE,))
        await restored.restore_cluster(client, documents, contents[name], world.registry)
    await surroundings.apply(world.kcp, stopped_lease(), "manager")
    registries = Registries()
    try:
        for version in (modules.OLD, modules.NEW):
            await MODULE.push(registries, world.registry, version)
    finally:
        await registries.close()
    await apply_crds(world.kcp)  # as the chart does
    await world.clusters.kcp.restart_controllers()
    for each in (MODULE.template(modules.NEW), MODULE.release_meta(regular=modules.OLD, fast=modules.NEW)):
        await surroundings.apply(world.kcp, each, "modulectl")
    labels = {"metadata": {"labels": {names.MANAGED_BY: names.LIFECYCLE_MANAGER}}}  # as klm adopt does
    await world.kcp.merge_patch(SECRETS, f"kubeconfig-{KYMA}", labels, KCP, field_manager="klm")
