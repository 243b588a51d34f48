"""Network policies, as an agent on the nodes enforces them: each allows what the product needs, and nothing else."""

import asyncio
import subprocess
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from kube_runtime import Client
from kyma_demo.pods import EVENT_PORT, PODS
from kyma_demo.walkthrough import NETWORK_POLICIES
from kyma_local.nodes.network import API_SERVER_PORT
from kyma_local.nodes.programs import find_programs
from kyma_local.nodes.settings import DNS_ADDRESS, KUBELET_PORT
from lifecycle_manager_api import names
from tests.nodes.clusters import NodeClusters, is_ready, kubectl, pods_of
from tests.users import changing
from tests.waiting import eventually

VISITOR, VISITORS = "visitor", "default"
IN_FORCE_SECONDS = 20.0
ENFORCED_SECONDS = 20.0
OTHER_PORT = 9999  # where these tests listen in each Pod
LISTEN = f"""
import socket
server = socket.create_server(("", {OTHER_PORT}))
server.settimeout(300)
print("listening", flush=True)
while True:
    server.accept()
"""
CONNECT = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=2)
except OSError:
    print("refused")
else:
    print("connected")
"""


@dataclass(frozen=True, eq=False)
class Place:
    """A Pod to connect from or to."""

    kubeconfig: Path
    pod: dict[str, Any]

    @property
    def address(self) -> str:
        return str(self.pod["status"]["podIP"])

    def port(self, name: str) -> int:
        (container,) = self.pod["spec"]["containers"]
        return next(int(each["containerPort"]) for each in container["ports"] if each["name"] == name)

    @property
    def python(self) -> tuple[str, ...]:
        """The arguments of kubectl to run Python here."""
        metadata = self.pod["metadata"]
        return (f"--namespace={metadata['namespace']}", "exec", metadata["name"], "--", "python3", "-c")

    async def connects(self, address: str, port: int) -> bool:
        """Return whether a connection from here is accepted."""
        printed = await kubectl(self.kubeconfig, *self.python, CONNECT, address, str(port))
        assert printed in {"connected\n", "refused\n"}
        return printed == "connected\n"

    @asynccontextmanager
    async def listening(self) -> AsyncGenerator[None, None]:
        """Listen on OTHER_PORT here."""
        command = (str(find_programs() / "kubectl"), f"--kubeconfig={self.kubeconfig}", *self.python, LISTEN)
        process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
        assert process.stdout is not None
        try:
            assert await process.stdout.readline() == b"listening\n"
            yield
        finally:
            process.kill()
            await process.wait()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def places(world: NodeClusters) -> AsyncIterator[dict[str, Place]]:
    """A Pod of each program, and a foreign one in each cluster; in the namespaces of the product all is denied."""
    kcp, skr = world.clusters.kcp.admin_kubeconfig, world.clusters.skrs[0].admin_kubeconfig
    clusters = {"kcp": (world.kcp, kcp, names.KCP_NAMESPACE), "skr": (world.skr, skr, names.SKR_NAMESPACE)}
    found = {}
    for client, _, namespace in clusters.values():
        await client.create(PODS, _visitor(await _image_of(client, namespace)), VISITORS, field_manager="test")
        await client.create(NETWORK_POLICIES, DENY_ALL, namespace, field_manager="test")
    for name, cluster, namespace, pod in (
        ("lifecycle-manager", "kcp", names.KCP_NAMESPACE, "lifecycle-manager"),
        ("module-manager", "kcp", names.KCP_NAMESPACE, "cloud-resources"),
        ("kcp visitor", "kcp", VISITORS, VISITOR),
        ("watcher", "skr", names.SKR_NAMESPACE, "skr-webhook"),
        ("skr visitor", "skr", VISITORS, VISITOR),
    ):
        client, kubeconfig, _ = clusters[cluster]
        found[name] = Place(kubeconfig, await eventually(partial(_ready, client, namespace, pod), what=name))
    async with AsyncExitStack() as stack:
        for each in found.values():
            await stack.enter_async_context(each.listening())
        yield found
    for client, _, namespace in clusters.values():
        await client.delete(NETWORK_POLICIES, "deny-all", namespace)
        await client.delete(PODS, VISITOR, VISITORS)


@pytest.mark.parametrize(
    ("start", "end", "port", "allowed"),
    [
        ("kcp visitor", "lifecycle-manager", "events", True),
        ("kcp visitor", "lifecycle-manager", "metrics", True),
        ("kcp visitor", "lifecycle-manager", "replicas", False),
        ("kcp visitor", "lifecycle-manager", OTHER_PORT, False),
        ("kcp visitor", "module-manager", "health", True),
        ("kcp visitor", "module-manager", OTHER_PORT, False),
        ("skr visitor", "watcher", 8443, True),
        ("skr visitor", "watcher", 2112, True),
        ("skr visitor", "watcher", OTHER_PORT, False),
        ("skr visitor", "lifecycle-manager", "metrics", False),
        ("skr visitor", "kcp visitor", OTHER_PORT, True),
    ],
)
async def test_only_ports_that_a_policy_names_are_reached(
    places: dict[str, Place], start: str, end: str, port: str | int, allowed: bool
) -> None:
    number = places[end].port(port) if isinstance(port, str) else port
    await _enforced(places[start], places[end].address, number, allowed)


@pytest.mark.parametrize(
    ("start", "port", "allowed"),
    [
        ("lifecycle-manager", API_SERVER_PORT, True),
        ("lifecycle-manager", KUBELET_PORT, False),
        ("module-manager", API_SERVER_PORT, True),
        ("module-manager", KUBELET_PORT, False),
        ("watcher", EVENT_PORT, True),
        ("watcher", API_SERVER_PORT, False),
        ("watcher", KUBELET_PORT, False),
        ("skr visitor", KUBELET_PORT, True),
    ],
)
async def test_a_pod_leaves_only_for_ports_that_its_policy_names(
    world: NodeClusters, places: dict[str, Place], start: str, port: int, allowed: bool
) -> None:
    await _enforced(places[start], world.kcp_node.network.address, port, allowed)


@pytest.mark.parametrize("start", ["lifecycle-manager", "module-manager", "watcher"])
async def test_dns_is_reached_beside_a_policy_that_denies_all(places: dict[str, Place], start: str) -> None:
    await _enforced(places[start], DNS_ADDRESS, 53, True)


async def test_changes_are_in_force_beside_policies_that_deny_all(
    world: NodeClusters, places: dict[str, Place]
) -> None:
    await _enforced(places["kcp visitor"], places["lifecycle-manager"].address, OTHER_PORT, False)
    async with changing(world.walkthrough, within=IN_FORCE_SECONDS) as users:
        await users.make(10, within=10 * IN_FORCE_SECONDS)


async def _enforced(start: Place, address: str, port: int, allowed: bool) -> None:
    """Wait until a connection is accepted or refused, as policies want, which the agent follows after a moment."""

    async def as_wanted() -> bool:
        return await start.connects(address, port) == allowed

    what = f"a connection to {address}:{port} that is {'accepted' if allowed else 'refused'}"
    await eventually(as_wanted, what=what, within=ENFORCED_SECONDS, every=0.5)


DENY_ALL = {
    "apiVersion": "networking.k8s.io/v1",
    "kind": "NetworkPolicy",
    "metadata": {"name": "deny-all"},
    "spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]},
}


def _visitor(image: str) -> dict[str, Any]:
    container = {
        "name": VISITOR,
        "image": image,
        "imagePullPolicy": "Never",
        "command": ["python3", "-c", "import signal; signal.pause()"],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": VISITOR},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0},
    }


async def _image_of(client: Client, namespace: str) -> str:
    pod, *_ = (await client.list(PODS, namespace)).items
    return str(pod["spec"]["containers"][0]["image"])


async def _ready(client: Client, namespace: str, name: str) -> dict[str, Any] | None:
    return next((each for each in await pods_of(client, namespace, name) if is_ready(each)), None)
