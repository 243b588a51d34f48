"""The node of a local cluster: its namespaces, its programs, and the objects that a cluster with a node needs."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kube_runtime import Client, Resource
from kyma_local.cluster import ADMINISTRATORS, LocalCluster
from kyma_local.nodes.folders import node_folder
from kyma_local.nodes.images import write_images
from kyma_local.nodes.init import READY
from kyma_local.nodes.network import NodeNetwork
from kyma_local.nodes.objects import DNS, NAMESPACE, system_objects
from kyma_local.nodes.settings import SETTINGS, write_settings
from kyma_local.private_files import write_private
from kyma_local.processes import ChildProcess, start_child
from kyma_local.starting import start_server

NODES: Resource[dict[str, Any]] = Resource.dynamic("", "v1", "Node", "nodes", namespaced=False)
DEPLOYMENTS: Resource[dict[str, Any]] = Resource.dynamic("apps", "v1", "Deployment", "deployments", namespaced=True)
OWNER = "klm-local"
WATCHER_ARCHIVE = "skr-watcher.tar"
STOP_SECONDS = 10.0
READY_SECONDS = 180.0


@dataclass(frozen=True, slots=True)
class Nodes:
    """The folder of the programs of nodes, and the images (OCI archives) for each kind of cluster."""

    programs: Path
    kcp_images: tuple[Path, ...] = ()
    skr_images: tuple[Path, ...] = ()

    @classmethod
    def with_images_in(cls, folder: Path, programs: Path) -> "Nodes":
        """Return nodes with the images of a folder: the Watcher's in user clusters, all others in the control plane."""
        archives = sorted(folder.glob("*.tar"))
        return cls(
            programs,
            kcp_images=tuple(each for each in archives if each.name != WATCHER_ARCHIVE),
            skr_images=tuple(each for each in archives if each.name == WATCHER_ARCHIVE),
        )


@dataclass(eq=False)
class LocalNode:
    """A node. Its programs run in a PID namespace, and end with its process 1; `folder` has their state."""

    cluster: LocalCluster
    network: NodeNetwork
    programs: Path
    images: tuple[Path, ...]
    folder: Path
    _children: list[ChildProcess] = field(default_factory=list, init=False)

    @property
    def children(self) -> tuple[ChildProcess, ...]:
        """Its processes; the others are children of process 1 of the node."""
        return tuple(self._children)

    @property
    def process(self) -> int:
        """Its process 1, as this machine counts: it has the namespaces of the node."""
        (process,) = _children_of(self._children[-1].pid)
        return process

    @property
    def cgroup(self) -> str:
        """The cgroup of its Pods, below the root of each hierarchy."""
        return self.folder.name

    async def start(self) -> None:
        """Start it, also after a stop, and wait until it is ready, and CoreDNS on it. Raises StartFailed."""
        (self.folder / READY).unlink(missing_ok=True)
        first_images = await asyncio.to_thread(write_images, self.programs, self.folder)
        self._write_kubeconfigs()
        logs = self.cluster.directory / "node"
        logs.mkdir(exist_ok=True)
        settings = write_settings(
            self.folder,
            name=self.cluster.name,
            network=self.network,
            programs=self.programs,
            first_images=first_images,
            images=self.images,
            logs=logs,
        )
        log = logs / "node.log"
        scheduler = [str(self.programs / "kube-scheduler"), f"--kubeconfig={self.cluster.admin_kubeconfig}"]
        scheduler += ["--leader-elect=false", "--secure-port=0"]
        self._children.append(await start_child("kube-scheduler", scheduler, logs / "kube-scheduler.log"))
        async with await Client.from_kubeconfig(self.cluster.admin_kubeconfig.read_text()) as admin:
            for document in system_objects(self.network.address):
                await _apply(admin, document)
            command = ["nsenter", f"--net={self.network.path}", "unshare", "--mount", "--pid", "--fork", "--kill-child"]
            command += ["--mount-proc", sys.executable, "-m", "kyma_local.nodes.init", str(settings)]
            name = f"the node of {self.cluster.name}"
            self._children.append(
                await start_server(name, command, log, lambda: self._is_ready(admin), within=READY_SECONDS)
            )

    async def stop(self) -> None:
        """End all of its processes."""
        for child in reversed(self._children):
            for process in _children_of(child.pid):
                os.kill(process, signal.SIGKILL)  # process 1 of the node, and with it all others
            await child.stop(STOP_SECONDS)
        self._children.clear()

    async def _is_ready(self, admin: Client) -> bool:
        """Return whether the images are loaded, the node is ready, and CoreDNS runs."""
        if not (self.folder / READY).exists():
            return False
        # The state of an earlier run is kept, and with it what that node reported last.
        since = datetime.fromtimestamp((self.folder / SETTINGS).stat().st_mtime, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        nodes = (await admin.list(NODES)).items
        conditions = [each for node in nodes for each in node.get("status", {}).get("conditions", ())]
        recent = [each for each in conditions if each["lastHeartbeatTime"] >= since]
        if not any(each["type"] == "Ready" and each["status"] == "True" for each in recent):
            return False
        dns = await admin.get(DEPLOYMENTS, DNS, NAMESPACE)
        return bool(dns.get("status", {}).get("availableReplicas"))

    def _write_kubeconfigs(self) -> None:
        (self.folder / "ca.crt").write_bytes(self.cluster.ca.certificate_pem)
        server = self.cluster.server_for_pods
        for user, groups in (("kubelet", ADMINISTRATORS), ("kube-proxy", ()), ("network-policies", ())):
            write_private(self.folder / f"{user}.kubeconfig", self.cluster.kubeconfig(user, groups, server=server))


@asynccontextmanager
async def running_nodes(
    clusters: tuple[LocalCluster, ...], nodes: Nodes
) -> AsyncGenerator[tuple[LocalNode, ...], None]:
    """Run a node for each cluster, and stop all at the end. Raises StartFailed."""
    async with AsyncExitStack() as stack:
        running = []
        for cluster in clusters:
            if cluster.node is None:
                continue
            await stack.enter_async_context(cluster.node.forwarding(cluster.port))
            images = nodes.kcp_images if cluster is clusters[0] else nodes.skr_images
            folder = stack.enter_context(node_folder())
            node = LocalNode(cluster, cluster.node, nodes.programs, images, folder)
            stack.push_async_callback(node.stop)
            running.append(node)
        try:
            async with asyncio.TaskGroup() as starting:
                for node in running:
                    starting.create_task(node.start())
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None
        yield tuple(running)


async def _apply(admin: Client, document: dict[str, Any]) -> None:
    metadata = document["metadata"]
    resource = await admin.mapper.resource(document["apiVersion"], document["kind"])
    await admin.apply(resource, metadata["name"], document, metadata.get("namespace"), field_manager=OWNER)


def _children_of(process: int) -> list[int]:
    children = Path(f"/proc/{process}/task/{process}/children")
    return [int(each) for each in children.read_text().split()] if children.exists() else []
