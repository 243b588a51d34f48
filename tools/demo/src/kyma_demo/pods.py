"""The programs of the demo as Pods of real nodes: installed by Helm into KCP, the Watcher by the Lifecycle Manager."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kube_runtime import Client, KubeError, NotFound, Resource, dump_yaml
from kyma_demo import names
from kyma_demo.environment import offer_module, prepare_skr
from kyma_demo.programs import Programs
from kyma_local.clusters import LocalClusters
from kyma_local.helm import WAITING, Helm
from kyma_local.kubectl import kubectl_command
from kyma_local.waiting import eventually
from lifecycle_manager.process.crd_installation import apply_objects

EVENT_PORT = 32_000
PODS: Resource[dict[str, Any]] = Resource.dynamic("", "v1", "Pod", "pods", namespaced=True)
DEPLOYMENTS: Resource[dict[str, Any]] = Resource.dynamic("apps", "v1", "Deployment", "deployments", namespaced=True)
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
LIFECYCLE_MANAGER, WATCHER = "lifecycle-manager", "skr-webhook"
ENDED = {"Succeeded", "Failed"}


@dataclass(frozen=True, slots=True)
class PodGroup:
    """The Pods of one Deployment, and the name of their log file."""

    client: Client
    namespace: str
    deployment: str
    log: str

    async def is_ready(self) -> bool:
        """Return whether all replicas are available."""
        try:
            found = await self.client.get(DEPLOYMENTS, self.deployment, self.namespace)
        except NotFound:
            return False
        return bool(found["status"].get("availableReplicas", 0) == found["spec"]["replicas"])

    async def pods(self) -> list[dict[str, Any]]:
        """Return the Pods that are not being deleted and have not ended, as one has that the kubelet evicted."""
        found = (await self.client.list(PODS, self.namespace)).items
        return [
            each
            for each in found
            if each["metadata"]["name"].startswith(f"{self.deployment}-")
            and "deletionTimestamp" not in each["metadata"]
            and each["status"].get("phase") not in ENDED
        ]

    async def logs(self) -> AsyncIterator[bytes]:
        """Yield what each container has logged."""
        for pod in await self.pods():
            target = f"{PODS.path(self.namespace)}/{pod['metadata']['name']}/log"
            try:
                yield await self.client.raw("GET", target, accept="*/*")
            except KubeError:  # it has not started yet
                continue


@dataclass(eq=False)
class Pods(Programs):
    """The programs of the demo, in Pods of `clusters`. `charts` has the charts, `helm` runs as administrator of KCP."""

    clusters: LocalClusters = field(kw_only=True)
    charts: Path = field(kw_only=True)
    helm: Helm = field(kw_only=True)

    @property
    def groups(self) -> tuple[PodGroup, ...]:
        """The Pods of each program."""
        kcp, skr = self.environment.kcp, self.environment.skr
        return (
            PodGroup(kcp, names.KCP_NAMESPACE, LIFECYCLE_MANAGER, "lifecycle-manager"),
            PodGroup(kcp, names.KCP_NAMESPACE, f"{names.MODULE}-module-manager", "module-manager"),
            PodGroup(skr, names.SKR_NAMESPACE, WATCHER, "skr-watcher"),
        )

    async def prepare(self) -> None:
        """Install the chart of the Lifecycle Manager, with CRDs and roles; its Pods start meanwhile."""
        kcp, skr = self.environment.kcp, self.environment.skr
        for client, name in ((kcp, names.KCP_NAMESPACE), (skr, names.SKR_NAMESPACE)):
            metadata = {"name": name, "labels": RESTRICTED}
            await apply_objects(client, dump_yaml({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}))
        scratch = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": names.SCRATCH_NAMESPACE}}
        await apply_objects(kcp, dump_yaml(scratch))
        await self.helm.run("upgrade", "--install", LIFECYCLE_MANAGER, *self.lifecycle_manager_arguments())
        await self.clusters.kcp.restart_controllers()

    async def prepare_user_cluster(self) -> None:
        """Prepare the user cluster; Pods reach its API server at the address of the node."""
        (skr,) = self.clusters.skrs
        self.skr_access = (await prepare_skr(self.environment)).replace(skr.server, skr.server_for_pods)

    async def start_control_plane(self) -> None:
        """Install the chart of the Module Manager, wait until all replicas are ready, and offer the module."""
        await self.helm.run("upgrade", "--install", names.MODULE, *self.module_manager_arguments(), *WAITING)
        manager, _, _ = self.groups
        await eventually(manager.is_ready)
        await offer_module(self.environment)

    async def start_watcher(self) -> None:
        """Wait until the Watcher's Pod is ready, which the Lifecycle Manager installs."""
        *_, watcher = self.groups
        await eventually(watcher.is_ready)

    async def collect_logs(self) -> None:
        """Write the logs of all Pods into the folder of logs."""
        for group in self.groups:
            logs = [each async for each in group.logs()]
            await asyncio.to_thread((self.environment.logs / f"{group.log}.log").write_bytes, b"".join(logs))

    def next_commands(self) -> str:
        """Return what can be tried with the Pods, for a console."""
        in_kcp, in_skr = map(kubectl_command, (self.environment.kcp_kubeconfig, self.environment.skr_kubeconfig))
        return (
            "and with the Pods:\n"
            f"  [bold]{in_kcp} -n kcp-system get pods[/]\n"
            f"  [bold]{in_skr} -n kyma-system logs deployment/skr-webhook[/]\n"
        )

    async def ended(self) -> str:
        """Return which Pods are not ready, and why; empty if all are."""
        lines = []
        for group in self.groups:
            for pod in await group.pods():
                conditions = pod.get("status", {}).get("conditions", ())
                lines += [
                    f"\nPod {pod['metadata']['name']} is not ready: {each.get('message', '')}"
                    for each in conditions
                    if each["type"] == "Ready" and each["status"] != "True"
                ]
        return "".join(lines)

    def lifecycle_manager_arguments(self) -> tuple[str, ...]:
        """Return the arguments of Helm: the chart and its values."""
        host = self.clusters.nodes[0].network.address
        return (
            str(self.charts / "lifecycle-manager"),
            f"--namespace={names.KCP_NAMESPACE}",
            "--set=image.registry=localhost",
            f"--set=events.address={host}:{EVENT_PORT}",
            f"--set=events.service.type=NodePort,events.service.nodePort={EVENT_PORT}",
            "--set=options.module-upgrade-rollout-max-delay=0s",
        )

    def module_manager_arguments(self) -> tuple[str, ...]:
        """Return the arguments of Helm: the chart and its values."""
        chart = self.charts / "module-manager"
        return (
            str(chart),
            f"--namespace={names.KCP_NAMESPACE}",
            f"--values={chart / 'ci/cloud-resources-values.yaml'}",
            "--set=image.registry=localhost",
        )
