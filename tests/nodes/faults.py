"""Faults of Pods and nodes: each function causes one, and returns when it has passed."""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from kube_runtime import Client
from kyma_demo import names
from kyma_demo.pods import LIFECYCLE_MANAGER, PODS, WATCHER, PodGroup
from kyma_local.helm import WAITING
from kyma_local.nodes.folders import CGROUPS
from tests.nodes.clusters import NodeClusters, kubectl, pods_of
from tests.waiting import consistently, eventually

ROLLOUT_SECONDS = 200.0
DNS_SECONDS = 60.0
FAULT_SECONDS = 120.0
TAKE_MEMORY = "import os, sys; open(sys.argv[1], 'w').write(str(os.getpid())); print(len(b'x' * 2**31))"
NOT_PULLED = {"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull"}
COREDNS = ("--namespace=kube-system", "scale", "deployment/coredns")

Fault = Callable[[NodeClusters], Awaitable[None]]


async def roll_lifecycle_manager(world: NodeClusters) -> None:
    await _roll(world.clusters.kcp.admin_kubeconfig, names.KCP_NAMESPACE, LIFECYCLE_MANAGER)


async def roll_watcher(world: NodeClusters) -> None:
    await _roll(world.clusters.skrs[0].admin_kubeconfig, names.SKR_NAMESPACE, WATCHER)


async def upgrade_charts(world: NodeClusters) -> None:
    """Upgrade the releases in KCP, which has other Pods then, and roll them back."""
    for release, arguments in _releases(world).items():
        other = f"--set=podAnnotations.upgraded=at-{time.time():.0f}"
        await world.pods.helm.run("upgrade", release, *arguments, other, *WAITING)
        await world.pods.helm.run("rollback", release, f"--namespace={names.KCP_NAMESPACE}", *WAITING)


async def restart_node(world: NodeClusters) -> None:
    await world.skr_node.stop()
    await world.skr_node.start()
    await eventually(_watcher(world).is_ready, what="the Watcher on the restarted node", within=FAULT_SECONDS)


async def evict_watcher(world: NodeClusters) -> None:
    await _evict(world.skr, _watcher(world))


async def evict_lifecycle_manager(world: NodeClusters) -> None:
    await _evict(world.kcp, world.pods.groups[0])


async def exhaust_memory_of_watcher(world: NodeClusters) -> None:
    """Take memory in the cgroup of the Watcher, until the kernel kills the Watcher and then what takes the memory."""
    (pod,) = await _watcher(world).pods()
    (cgroup,) = (CGROUPS / "memory" / world.skr_node.cgroup).rglob(_container(pod))
    taking = await asyncio.create_subprocess_exec(sys.executable, "-c", TAKE_MEMORY, cgroup / "cgroup.procs")
    await taking.wait()
    before = _restarts(pod)

    async def killed() -> bool:
        (found,) = await _watcher(world).pods()
        (status,) = found["status"]["containerStatuses"]
        last = status["lastState"].get("terminated", {})
        return bool(status["ready"]) and _restarts(found) > before and last.get("reason") == "OOMKilled"

    await eventually(killed, what="the Watcher after an OOM kill", within=FAULT_SECONDS)


async def upgrade_to_missing_image(world: NodeClusters) -> None:
    """Upgrade the Lifecycle Manager to an image that is nowhere, and roll it back."""
    helm, arguments = world.pods.helm, world.pods.lifecycle_manager_arguments()
    await helm.run("upgrade", LIFECYCLE_MANAGER, *arguments, "--set=image.tag=missing")

    async def not_pulled() -> bool:
        waiting = [
            status["state"].get("waiting", {}).get("reason")
            for pod in await world.pods.groups[0].pods()
            for status in pod["status"].get("containerStatuses", ())
        ]
        return not NOT_PULLED.isdisjoint(waiting)

    await eventually(not_pulled, what="a Pod without its image", within=FAULT_SECONDS)
    await helm.run("rollback", LIFECYCLE_MANAGER, f"--namespace={names.KCP_NAMESPACE}", *WAITING)


async def stop_dns(world: NodeClusters) -> None:
    """Stop the DNS of both clusters for a minute."""
    kubeconfigs = [world.clusters.kcp.admin_kubeconfig, world.clusters.skrs[0].admin_kubeconfig]
    for each in kubeconfigs:
        await kubectl(each, *COREDNS, "--replicas=0")

    async def gone() -> bool:
        return not any([await pods_of(client, "kube-system", "coredns") for client in (world.kcp, world.skr)])

    await eventually(gone, what="the end of CoreDNS")
    await consistently(gone, lasting=DNS_SECONDS, what="no CoreDNS")
    for each in kubeconfigs:
        await kubectl(each, *COREDNS, "--replicas=1")
        await _rolled_out(each, "kube-system", "coredns")


FAULTS: tuple[Fault, ...] = (
    roll_lifecycle_manager,
    roll_watcher,
    upgrade_charts,
    restart_node,
    evict_watcher,
    evict_lifecycle_manager,
    exhaust_memory_of_watcher,
    upgrade_to_missing_image,
    stop_dns,
)


def _watcher(world: NodeClusters) -> PodGroup:
    return world.pods.groups[2]


def _releases(world: NodeClusters) -> dict[str, tuple[str, ...]]:
    pods = world.pods
    return {LIFECYCLE_MANAGER: pods.lifecycle_manager_arguments(), names.MODULE: pods.module_manager_arguments()}


async def _roll(kubeconfig: Path, namespace: str, deployment: str) -> None:
    await kubectl(kubeconfig, f"--namespace={namespace}", "rollout", "restart", f"deployment/{deployment}")
    await _rolled_out(kubeconfig, namespace, deployment)


async def _rolled_out(kubeconfig: Path, namespace: str, deployment: str) -> None:
    status = ("rollout", "status", f"deployment/{deployment}", f"--timeout={ROLLOUT_SECONDS:.0f}s")
    await kubectl(kubeconfig, f"--namespace={namespace}", *status, within=ROLLOUT_SECONDS + 10)


async def _evict(client: Client, group: PodGroup) -> None:
    pod, *_ = await group.pods()
    name = pod["metadata"]["name"]
    eviction = b'{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "%s"}}' % name.encode()
    await client.raw("POST", f"{PODS.path(group.namespace)}/{name}/eviction", body=eviction)
    await _replaced(group, name)


async def _replaced(group: PodGroup, name: str) -> None:
    async def replaced() -> bool:
        live = [each["metadata"]["name"] for each in await group.pods()]
        return name not in live and await group.is_ready()

    await eventually(replaced, what=f"the replacement of {name}", within=FAULT_SECONDS)


def _restarts(pod: dict[str, Any]) -> int:
    (status,) = pod["status"]["containerStatuses"]
    return int(status["restartCount"])


def _container(pod: dict[str, Any]) -> str:
    (status,) = pod["status"]["containerStatuses"]
    return str(status["containerID"]).rpartition("/")[2]
