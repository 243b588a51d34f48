"""The Watcher's certificate is renewed in a Secret that a kubelet mounts, and updates when it likes."""

import asyncio
from base64 import b64decode
from itertools import count

from prometheus_client.parser import text_string_to_metric_families

from kube_runtime import Client
from kyma_demo import names as demo_names
from kyma_demo.walkthrough import Walkthrough
from lifecycle_manager.contract.resources import KYMAS, SECRETS
from lifecycle_manager_api import names
from tests.nodes.clusters import NodeClusters, kubectl, pods_of
from tests.waiting import eventually

IN_FORCE_SECONDS = 10.0  # reconciles at intervals are minutes apart
UPDATE_SECONDS = 150.0  # the kubelet's sync period, and its cache
CHANGES = 50


class Changing:
    """Changes one Module CR without pause, and waits for each until it is in force."""

    def __init__(self, walkthrough: Walkthrough) -> None:
        self._walkthrough = walkthrough
        self.made = 0

    async def run(self) -> None:
        await self._walkthrough.object_watcher.ready(IN_FORCE_SECONDS)
        for number in count(1_000):
            await self._walkthrough.change_volume(f"{number}Gi", within=IN_FORCE_SECONDS)
            self.made += 1


async def total(client: Client, target: str, name: str) -> float:
    """Return the sum of a metric."""
    text = (await client.raw("GET", target, accept="text/plain")).decode()
    families = list(text_string_to_metric_families(text))
    assert any(f"{family.name}_total" == name for family in families), f"{target} has no {name}"
    return sum(sample.value for family in families for sample in family.samples if sample.name == name)


async def test_no_change_is_missed_while_the_certificate_is_renewed(world: NodeClusters) -> None:
    (pod,) = await pods_of(world.skr, names.SKR_NAMESPACE, "skr-webhook")
    name = pod["metadata"]["name"]
    metrics = f"/api/v1/namespaces/{names.SKR_NAMESPACE}/pods/{name}:2112/proxy/metrics"
    kubeconfig = world.clusters.skrs[0].admin_kubeconfig
    read = ("exec", name, "--", "python3", "-c", "print(open('/tls/tls.crt').read(), end='')")

    async def issued() -> bytes:
        secret = await world.skr.get(SECRETS, "skr-webhook-tls", names.SKR_NAMESPACE)
        return b64decode(secret.data["tls.crt"])

    async def lost() -> tuple[float, float]:
        return (
            await total(world.skr, metrics, "watcher_admission_request_shed_total"),
            await total(world.skr, metrics, "watcher_failed_kcp_total"),
        )

    former, before = await issued(), await lost()
    changes = Changing(world.walkthrough)
    async with asyncio.TaskGroup() as tasks:
        working = [tasks.create_task(world.walkthrough.object_watcher.run()), tasks.create_task(changes.run())]
        await eventually(lambda: changes.made >= CHANGES, what="changes before")
        other_name = {"metadata": {"annotations": {names.SKR_DOMAIN: "renewed.example.com"}}}
        await world.kcp.merge_patch(KYMAS, demo_names.KYMA, other_name, names.KCP_NAMESPACE, field_manager="test")

        async def mounted() -> bool:
            now = await issued()
            printed = await kubectl(kubeconfig, f"--namespace={names.SKR_NAMESPACE}", *read)
            return now != former and printed.encode() == now

        await eventually(mounted, what="the renewed certificate in the Pod", within=UPDATE_SECONDS, every=1)
        goal = changes.made + CHANGES
        await eventually(lambda: changes.made >= goal, what="changes after")
        for task in working:
            task.cancel()
    assert await lost() == before
    (after,) = await pods_of(world.skr, names.SKR_NAMESPACE, "skr-webhook")
    assert after["metadata"]["name"] == name, "the Watcher need not restart for it"
