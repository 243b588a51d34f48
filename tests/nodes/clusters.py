"""Two clusters with nodes, and in their Pods the product, installed by Helm from the images of `make images`."""

import asyncio
import subprocess
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kube_runtime import Client
from kyma_demo.environment import open_environment
from kyma_demo.pods import PODS, Pods
from kyma_demo.walkthrough import Walkthrough
from kyma_local.clusters import LocalClusters
from kyma_local.nodes.folders import CGROUPS
from kyma_local.nodes.node import LocalNode, Nodes
from kyma_local.nodes.programs import find_programs
from tests.integration.charts.helm import CHARTS, Helm

IMAGES = Path(".local/images")
SET_UP_SECONDS = 240.0


@dataclass(frozen=True, eq=False)
class NodeClusters:
    """KCP and one SKR with a node each; the user has enabled the module."""

    clusters: LocalClusters
    kcp: Client
    skr: Client
    walkthrough: Walkthrough
    pods: Pods

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


async def kubectl(kubeconfig: Path, *arguments: str, within: float = 60) -> str:
    """Run kubectl and return its output."""
    process = await asyncio.create_subprocess_exec(
        find_programs() / "kubectl", f"--kubeconfig={kubeconfig}", *arguments, stdout=subprocess.PIPE
    )
    async with asyncio.timeout(within):
        printed, _ = await process.communicate()
    assert process.returncode == 0
    return printed.decode()


@asynccontextmanager
async def open_clusters(folder: Path, helm: Path) -> AsyncGenerator[NodeClusters, None]:
    """Start the clusters and install the product, as the demo does."""
    nodes = Nodes.with_images_in(IMAGES, find_programs())
    async with open_environment(folder / "demo", None, None, nodes) as environment, AsyncExitStack() as stack:
        assert environment.clusters is not None
        administrator = Helm(helm, folder, environment.kcp_kubeconfig)
        pods = Pods(environment, stack, clusters=environment.clusters, charts=CHARTS, helm=administrator)
        walkthrough = Walkthrough(environment, pods)
        await walkthrough.set_up(SET_UP_SECONDS)
        yield NodeClusters(environment.clusters, environment.kcp, environment.skr, walkthrough, pods)
