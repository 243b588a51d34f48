"""Two clusters in which Pods run as processes, with the product in them, installed by Helm alone."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from types import MappingProxyType
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from kube_runtime import Client, ClientOptions, NotFound, NotServed, Resource, dump_yaml
from kyma_demo import names as demo_names
from kyma_demo.environment import Environment, create_kyma, prepare_skr
from kyma_demo.programs import Programs
from kyma_demo.walkthrough import Walkthrough
from kyma_local.clusters import LocalClusters
from kyma_local.helm import WAITING
from lifecycle_manager.contract.resources import KYMAS
from lifecycle_manager.process.crd_installation import apply_objects
from lifecycle_manager_api import find, names
from tests.integration.charts.helm import LIFECYCLE_MANAGER, MODULE_MANAGER, Helm
from tests.kinds import WEBHOOKS
from tests.node_agent.agent import NodeAgent
from tests.waiting import eventually

NAMESPACE = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}},
}
SAMPLE = files("kyma_module_manager.samples.cloud_resources")


@dataclass(frozen=True, eq=False)
class HelmClusters:
    """KCP and one SKR with their nodes, and Helm as the administrator of each."""

    clusters: LocalClusters
    kcp: Client
    skr: Client
    kcp_node: NodeAgent
    skr_node: NodeAgent
    kcp_helm: Helm
    skr_helm: Helm
    walkthrough: Walkthrough
    event_port: int

    async def install_lifecycle_manager(
        self, *arguments: str, command: str = "install", chart: Path = LIFECYCLE_MANAGER
    ) -> None:
        """Install or upgrade the Lifecycle Manager, and wait until it is ready."""
        await self.kcp_helm.run(
            command,
            "lifecycle-manager",
            str(chart),
            "--namespace=kcp-system",
            f"--set=events.address=127.0.0.1:{self.event_port}",
            "--set=options.module-upgrade-rollout-max-delay=0s",
            *WAITING,
            *arguments,
        )

    async def install_module_manager(
        self, *arguments: str, command: str = "install", chart: Path = MODULE_MANAGER
    ) -> None:
        """Install or upgrade the sample's Module Manager, and wait until it is ready."""
        await self.kcp_helm.run(
            command,
            "cloud-resources",
            str(chart),
            "--namespace=kcp-system",
            f"--values={chart / 'ci/cloud-resources-values.yaml'}",
            *WAITING,
            *arguments,
        )

    async def offer_the_module(self, sample: Traversable = SAMPLE) -> None:
        """Apply the ModuleTemplate, the ModuleReleaseMeta and the ModulePolicy of the module, as its team does."""
        texts = [
            sample.joinpath(name).read_text()
            for name in ("module-template.yaml", "module-release-meta.yaml", "module-policy.yaml")
        ]
        await apply_objects(self.kcp, "\n---\n".join(texts))

    async def manage_the_user_cluster(self) -> None:
        """Create the Kyma as the environment broker does, and wait until the Watcher reports changes of users."""
        await create_kyma(self.walkthrough.environment, await prepare_skr(self.walkthrough.environment))

        async def ready() -> bool:
            """Tell whether the condition holds that docs/install.md waits for; then users can enable modules."""
            kyma = await _found(self.kcp, KYMAS, demo_names.KYMA, names.KCP_NAMESPACE)
            condition = find(kyma.status.conditions, "Ready") if kyma is not None else None
            return condition is not None and condition.status == "True"

        await eventually(ready, what="a managed cluster")
        await self._enable_the_module()

        async def watched() -> bool:
            found = await _found(self.skr, WEBHOOKS, "skr-webhook", None)
            rules = [rule for hook in (found or {}).get("webhooks", ()) for rule in hook["rules"]]
            return any("infrastructures" in rule["resources"] for rule in rules)

        await eventually(watched, what="the Watcher's webhook for the module")

    async def _enable_the_module(self) -> None:
        """Enable the module as the user, and make sure that the Watcher reports it: on a machine that stalls, the API
        server may not reach the Watcher within two seconds, and the change would be found minutes later."""
        while True:
            before = await self._admitted_without_answer()
            await self.walkthrough.set_modules([{"name": demo_names.MODULE, "managed": True}])
            if await self._admitted_without_answer() == before:
                return
            await self.walkthrough.set_modules([])

    async def _admitted_without_answer(self) -> float:
        """Return how many changes the API server of the SKR has admitted without an answer of a webhook."""
        text = (await self.skr.raw("GET", "/metrics", accept="text/plain")).decode()
        return sum(
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == "apiserver_admission_webhook_fail_open_count_total"
        )


@asynccontextmanager
async def open_world(
    folder: Path, helm: Helm, versions: Mapping[str, Path] = MappingProxyType({})
) -> AsyncGenerator[HelmClusters, None]:
    """Start the clusters and their nodes, without any release. `versions` maps tags of images to programs."""
    async with AsyncExitStack() as stack:
        clusters = await stack.enter_async_context(
            LocalClusters.start(directory=folder / "clusters", workloads=True, audit="Metadata")
        )
        (skr_cluster,) = clusters.skrs
        options = ClientOptions(qps=0, timeout_seconds=60)
        kcp, skr = [
            await stack.enter_async_context(await Client.from_environment(cluster.admin_kubeconfig, options=options))
            for cluster in (clusters.kcp, skr_cluster)
        ]
        for client, namespace in ((kcp, names.KCP_NAMESPACE), (skr, names.SKR_NAMESPACE)):
            metadata = {**NAMESPACE["metadata"], "name": namespace}  # type: ignore[dict-item]  # it is a mapping
            await apply_objects(client, dump_yaml({**NAMESPACE, "metadata": metadata}))
        environment = Environment(
            kcp, skr, clusters.kcp.admin_kubeconfig, skr_cluster.admin_kubeconfig, folder / "demo", clusters
        )
        walkthrough = Walkthrough(environment, Programs(environment, stack))
        kcp_node = NodeAgent(clusters.kcp, kcp, folder / "kcp-pods", versions)
        skr_node = NodeAgent(skr_cluster, skr, folder / "skr-pods", versions)
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(work.run()) for work in (kcp_node, skr_node, walkthrough.object_watcher)]
            async with kcp_node.load_balancer("kcp-system", "lifecycle-manager-events", 443) as port:
                yield HelmClusters(
                    clusters,
                    kcp,
                    skr,
                    kcp_node,
                    skr_node,
                    Helm(helm.program, helm.home, environment.kcp_kubeconfig),
                    Helm(helm.program, helm.home, environment.skr_kubeconfig),
                    walkthrough,
                    port,
                )
                for task in reversed(running):  # Watchers end while there is somebody to deliver to
                    task.cancel()
                    await asyncio.wait([task])


async def _found(client: Client, resource: Resource[Any], name: str, namespace: str | None) -> Any:
    try:
        return await client.get(resource, name, namespace)
    except (NotFound, NotServed):
        return None
