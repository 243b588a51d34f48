"""Two clusters with nodes, and in their Pods the product, installed by Helm from the images of `make images`."""

import asyncio
import subprocess
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kube_runtime import Client, ClientOptions, NotFound, Resource, dump_yaml
from kyma_demo import names as demo_names
from kyma_demo.environment import SAMPLE, Environment, create_kyma, prepare_skr
from kyma_demo.programs import Programs
from kyma_demo.report import NoOutput
from kyma_demo.walkthrough import Walkthrough
from kyma_local.clusters import LocalClusters
from kyma_local.nodes.folders import CGROUPS
from kyma_local.nodes.node import LocalNode, Nodes
from kyma_local.nodes.programs import find_programs
from lifecycle_manager.process.crd_installation import apply_objects
from lifecycle_manager_api import names
from tests.integration.charts.helm import LIFECYCLE_MANAGER, MODULE_MANAGER, WAITING, Helm
from tests.kinds import WEBHOOKS
from tests.waiting import eventually

IMAGES = Path(".local/images")
EVENT_PORT = 32_000
PODS: Resource[dict[str, Any]] = Resource.dynamic("", "v1", "Pod", "pods", namespaced=True)
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
READY_SECONDS = 120.0


@dataclass(frozen=True, eq=False)
class NodeClusters:
    """KCP and one SKR with a node each; the user has enabled the module."""

    clusters: LocalClusters
    kcp: Client
    skr: Client
    walkthrough: Walkthrough

    @property
    def kcp_node(self) -> LocalNode:
        return self.clusters.nodes[0]

    @property
    def skr_node(self) -> LocalNode:
        return self.clusters.nodes[1]


async def pods_of(client: Client, namespace: str, name: str) -> list[dict[str, Any]]:
    """Return the Pods whose names start so and that are not being deleted."""
    found = (await client.list(PODS, namespace)).items
    return [
        each
        for each in found
        if each["metadata"]["name"].startswith(name) and "deletionTimestamp" not in each["metadata"]
    ]


def is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod.get("status", {}).get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def working_set_of(node: LocalNode, pod: dict[str, Any]) -> int:
    """Return the bytes of memory that the kubelet counts for a Pod: without file pages that can be dropped at once."""
    (cgroup,) = (CGROUPS / "memory" / node.cgroup).rglob(f"pod{pod['metadata']['uid']}")
    used = int((cgroup / "memory.usage_in_bytes").read_text())
    statistics = dict(line.split() for line in (cgroup / "memory.stat").read_text().splitlines())
    return used - int(statistics["total_inactive_file"])


async def kubectl(kubeconfig: Path, *arguments: str) -> str:
    """Run kubectl and return its output."""
    process = await asyncio.create_subprocess_exec(
        find_programs() / "kubectl", f"--kubeconfig={kubeconfig}", *arguments, stdout=subprocess.PIPE
    )
    async with asyncio.timeout(60):
        printed, _ = await process.communicate()
    assert process.returncode == 0
    return printed.decode()


@asynccontextmanager
async def open_clusters(folder: Path, helm: Helm) -> AsyncGenerator[NodeClusters, None]:
    async with AsyncExitStack() as stack:
        nodes = Nodes.with_images_in(IMAGES, find_programs())
        clusters = await stack.enter_async_context(LocalClusters.start(directory=folder / "clusters", nodes=nodes))
        (skr_cluster,) = clusters.skrs
        options = ClientOptions(qps=0, timeout_seconds=60)
        kcp, skr = [
            await stack.enter_async_context(await Client.from_environment(cluster.admin_kubeconfig, options=options))
            for cluster in (clusters.kcp, skr_cluster)
        ]
        for client, namespace in ((kcp, names.KCP_NAMESPACE), (skr, names.SKR_NAMESPACE)):
            metadata = {"name": namespace, "labels": RESTRICTED}
            await apply_objects(client, dump_yaml({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}))
        kubeconfigs = (clusters.kcp.admin_kubeconfig, skr_cluster.admin_kubeconfig)
        environment = Environment(kcp, skr, *kubeconfigs, folder / "demo", clusters.kcp)
        walkthrough = Walkthrough(environment, Programs(environment, stack), NoOutput())
        world = NodeClusters(clusters, kcp, skr, walkthrough)
        await _install(world, Helm(helm.program, helm.home, clusters.kcp.admin_kubeconfig))
        access = (await prepare_skr(environment)).replace(skr_cluster.server, skr_cluster.server_for_pods)
        await create_kyma(environment, access)
        await _enable_the_module(world)
        yield world


async def _install(world: NodeClusters, helm: Helm) -> None:
    """Install Lifecycle Manager and the sample's Module Manager, and wait until both are ready."""
    await helm.run(
        "install",
        "lifecycle-manager",
        str(LIFECYCLE_MANAGER),
        "--namespace=kcp-system",
        "--set=image.registry=localhost",
        f"--set=events.address={world.kcp_node.network.address}:{EVENT_PORT}",
        f"--set=events.service.type=NodePort,events.service.nodePort={EVENT_PORT}",
        "--set=options.module-upgrade-rollout-max-delay=0s",
        *WAITING,
    )
    catalog = ("module-template.yaml", "module-release-meta.yaml", "module-policy.yaml")
    await apply_objects(world.kcp, "\n---\n".join(SAMPLE.joinpath(name).read_text() for name in catalog))
    await helm.run(
        "install",
        "cloud-resources",
        str(MODULE_MANAGER),
        "--namespace=kcp-system",
        f"--values={MODULE_MANAGER / 'ci/cloud-resources-values.yaml'}",
        "--set=image.registry=localhost",
        *WAITING,
    )


async def _enable_the_module(world: NodeClusters) -> None:
    """Enable the module as the user, when the Watcher runs, and wait until its Module CRs are watched."""

    async def watcher_is_ready() -> bool:
        return any(map(is_ready, await pods_of(world.skr, names.SKR_NAMESPACE, "skr-webhook")))

    async def watched() -> bool:
        try:
            found = await world.skr.get(WEBHOOKS, "skr-webhook")
        except NotFound:
            return False
        return any("infrastructures" in rule["resources"] for hook in found["webhooks"] for rule in hook["rules"])

    await eventually(watcher_is_ready, what="the Watcher's Pod", within=READY_SECONDS, every=0.2)
    await world.walkthrough.set_modules([{"name": demo_names.MODULE, "managed": True}])
    await eventually(watched, what="the webhook for the module", within=READY_SECONDS, every=0.2)
