"""The product in Pods of real nodes, as the charts install it: with restricted Pod Security, and within its limits."""

import asyncio

from kube_runtime import Client
from kyma_local.nodes.node import LocalNode
from lifecycle_manager_api import names
from tests.nodes.clusters import NodeClusters, is_ready, kubectl, pods_of, working_set_of
from tests.waiting import eventually

MARGIN = 0.8
UNITS = {"Mi": 2**20, "Gi": 2**30}
CHANGES = 5
IN_FORCE_SECONDS = 20.0  # reconciles at intervals are minutes apart
END_SECONDS = 5.0


def bytes_of(quantity: str) -> int:
    return int(quantity[:-2]) * UNITS[quantity[-2:]]


async def test_change_of_a_user_is_in_force_through_the_pods_and_services(world: NodeClusters) -> None:
    async with asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(world.walkthrough.object_watcher.run())
        await world.walkthrough.object_watcher.ready(IN_FORCE_SECONDS)
        for number in range(1, CHANGES + 1):
            await world.walkthrough.change_volume(f"{number}Gi", within=IN_FORCE_SECONDS)
        watching.cancel()


async def test_every_pod_is_restricted_and_has_memory_left(world: NodeClusters) -> None:
    wanted: tuple[tuple[Client, LocalNode, str, str, int], ...] = (
        (world.kcp, world.kcp_node, names.KCP_NAMESPACE, "lifecycle-manager", 2),
        (world.kcp, world.kcp_node, names.KCP_NAMESPACE, "cloud-resources", 2),
        (world.skr, world.skr_node, names.SKR_NAMESPACE, "skr-webhook", 1),
    )
    for client, node, namespace, name, count in wanted:
        pods = await pods_of(client, namespace, name)
        assert len(pods) == count
        for pod in pods:
            (container,) = pod["spec"]["containers"]
            (status,) = pod["status"]["containerStatuses"]
            assert container["securityContext"]["readOnlyRootFilesystem"]
            assert (is_ready(pod), status["restartCount"]) == (True, 0)
            used, limit = working_set_of(node, pod), bytes_of(container["resources"]["limits"]["memory"])
            assert used < MARGIN * limit, f"{name} uses {used} of {limit} bytes"


async def test_watcher_ends_on_sigterm_as_process_1(world: NodeClusters) -> None:
    (before,) = await pods_of(world.skr, names.SKR_NAMESPACE, "skr-webhook")
    name = before["metadata"]["name"]
    kubeconfig = world.clusters.skrs[0].admin_kubeconfig
    stop = ("python3", "-c", "import os; os.kill(1, 15)")
    await kubectl(kubeconfig, f"--namespace={names.SKR_NAMESPACE}", "exec", name, "--", *stop)

    async def ended_with() -> int | None:
        (pod,) = await pods_of(world.skr, names.SKR_NAMESPACE, name)
        (status,) = pod["status"]["containerStatuses"]
        ended = status["lastState"].get("terminated") or status["state"].get("terminated")
        return None if ended is None else ended["exitCode"] + 1

    assert await eventually(ended_with, what="the end of the Watcher", within=END_SECONDS) == 1

    async def runs_again() -> bool:
        (pod,) = await pods_of(world.skr, names.SKR_NAMESPACE, name)
        (status,) = pod["status"]["containerStatuses"]
        return bool(status["restartCount"]) and status["ready"]

    await eventually(runs_again, what="the Watcher after its restart")
