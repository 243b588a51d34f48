"""Real API servers on this machine: one etcd, a control plane (KCP) and user clusters (SKRs), all on loopback."""

import asyncio
import os
import shutil
import socket
import ssl
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from kube_runtime import Client, NotFound, Resource, dump_yaml
from local.binaries import Binaries, find_binaries
from local.egress import EgressProxy, Route, add_route
from local.pki import Authority, Pem, encode, service_account_key
from local.processes import ChildProcess, start_child, tail

START_SECONDS = 60.0
SERVICES: Resource[dict[str, Any]] = Resource.dynamic("", "v1", "Service", "services", namespaced=True)
ADMINISTRATORS = ("system:masters",)


class StartFailed(Exception):
    """A program did not come up; its log says why."""

    def __init__(self, child: ChildProcess) -> None:
        super().__init__(f"{child.name} did not become ready; the end of its log {child.log}:\n{tail(child.log)}")


@dataclass(eq=False)
class LocalCluster:
    """One cluster: an API server and, where asked for, a controller manager."""

    name: str
    directory: Path
    binaries: Binaries
    authority: Authority
    etcd_url: str
    with_controllers: bool
    port: int
    audit: bool = False
    _children: dict[str, ChildProcess] = field(default_factory=dict, init=False)

    @property
    def server(self) -> str:
        """The API server's URL."""
        return f"https://127.0.0.1:{self.port}"

    @property
    def admin_kubeconfig(self) -> Path:
        """A kubeconfig of an administrator."""
        return self.directory / "kubeconfig"

    def kubeconfig_for(self, user: str, groups: tuple[str, ...] = ()) -> Path:
        """Write a kubeconfig of an identity, with its certificate inline; return its path."""
        path = self.directory / f"{user.replace(':', '-')}.kubeconfig"
        _write_private(path, self._kubeconfig(user, self.authority.issue(user, groups)))
        return path

    async def route_service(self, namespace: str, name: str, port: int, host: str, target_port: int) -> None:
        """Have the API server reach a Service's port at a local process."""
        add_route(self.directory / "routes", Route(namespace, name, port, host, target_port))

    async def start(self) -> None:
        """Start the cluster and wait until it is ready. Raises StartFailed."""
        self.directory.mkdir(parents=True, exist_ok=True)
        _write_private(self.admin_kubeconfig, self._kubeconfig("admin", self.authority.issue("admin", ADMINISTRATORS)))
        self.authority.issue("kube-apiserver").write(self.directory, "server")
        (self.directory / "ca.crt").write_bytes(self.authority.certificate)
        (self.directory / "service-account.key").write_bytes(service_account_key())
        (self.directory / "egress.yaml").write_text(_EGRESS.format(socket=self._socket))
        await self.start_api_server()
        if self.with_controllers:
            await self._start_controllers()

    async def start_api_server(self) -> None:
        """Start the API server, with the state it had. Raises StartFailed."""
        command = [str(self.binaries.kube_apiserver), *self._api_server_flags()]
        child = await start_child(f"kube-apiserver of {self.name}", command, self.directory / "kube-apiserver.log")
        self._children["kube-apiserver"] = child
        await self._wait_ready(child)

    async def stop_api_server(self) -> None:
        """Stop the API server; what it stored stays."""
        await self._children.pop("kube-apiserver").stop()

    async def restart_controllers(self) -> None:
        """Restart the controller manager: its garbage collector learns of new kinds at its start, and then only
        every 30 s."""
        await self._children.pop("kube-controller-manager").stop()
        await self._start_controllers()

    async def stop(self) -> None:
        """Stop every process of the cluster."""
        for child in reversed(self._children.values()):
            await child.stop()

    async def serve_egress(self) -> None:
        """Connect the API server to Services until cancelled."""
        async with await Client.from_kubeconfig(
            self._kubeconfig("admin", self.authority.issue("admin", ADMINISTRATORS))
        ) as admin:

            async def address_of(namespace: str, name: str) -> str | None:
                try:
                    service = await admin.get(SERVICES, name, namespace)
                except NotFound:
                    return None
                return str(service["spec"].get("clusterIP") or "") or None

            await EgressProxy(self._socket, self.directory / "routes", address_of).serve()

    @property
    def _socket(self) -> Path:
        return self.directory / "egress.sock"

    def _api_server_flags(self) -> list[str]:
        at = self.directory
        flags = [
            "--bind-address=127.0.0.1",
            f"--secure-port={self.port}",
            f"--etcd-servers={self.etcd_url}",
            f"--etcd-prefix=/{self.name}",
            f"--tls-cert-file={at / 'server.crt'}",
            f"--tls-private-key-file={at / 'server.key'}",
            f"--client-ca-file={at / 'ca.crt'}",
            f"--service-account-key-file={at / 'service-account.key'}",
            f"--service-account-signing-key-file={at / 'service-account.key'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.0.0.0/16",
            "--endpoint-reconciler-type=none",
            f"--egress-selector-config-file={at / 'egress.yaml'}",
            "--profiling=false",
            "--v=1",
        ]
        if not self.with_controllers:
            # Its finalizer is for a controller to remove, and there is none here.
            flags.append("--disable-admission-plugins=StorageObjectInUseProtection")
        if self.audit:
            policy = at / "audit-policy.yaml"
            policy.write_text("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n")
            flags += [f"--audit-policy-file={policy}", f"--audit-log-path={at / 'audit.log'}"]
        return flags

    async def _start_controllers(self) -> None:
        command = [
            str(self.binaries.kube_controller_manager),
            f"--kubeconfig={self.admin_kubeconfig}",
            "--controllers=garbage-collector-controller,namespace-controller",
            "--leader-elect=false",
            "--secure-port=0",
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
        ]
        log = self.directory / "kube-controller-manager.log"
        self._children["kube-controller-manager"] = await start_child("kube-controller-manager", command, log)

    async def _wait_ready(self, child: ChildProcess) -> None:
        url = f"{self.server}/readyz"
        context = ssl.create_default_context(cafile=str(self.directory / "ca.crt"))
        async with httpx.AsyncClient(verify=context, trust_env=False) as client:
            try:
                async with asyncio.timeout(START_SECONDS):
                    while not await _answers(client, url):
                        if child.returncode is not None:
                            raise StartFailed(child)
                        await asyncio.sleep(0.05)
            except TimeoutError:
                raise StartFailed(child) from None

    def _kubeconfig(self, user: str, pem: Pem) -> str:
        cluster = {"server": self.server, "certificate-authority-data": encode(self.authority.certificate)}
        credentials = {
            "client-certificate-data": encode(pem.certificate),
            "client-key-data": encode(pem.key),
        }
        return dump_yaml(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": self.name,
                "contexts": [{"name": self.name, "context": {"cluster": self.name, "user": user}}],
                "clusters": [{"name": self.name, "cluster": cluster}],
                "users": [{"name": user, "user": credentials}],
            }
        )


@dataclass(eq=False)
class LocalClusters:
    """A control plane and its user clusters."""

    directory: Path
    kcp: LocalCluster
    skrs: tuple[LocalCluster, ...]

    @classmethod
    @asynccontextmanager
    async def start(
        cls, *, skrs: int = 1, directory: Path | None = None, audit: bool = False
    ) -> AsyncIterator["LocalClusters"]:
        """Start etcd and the API servers, all at once; stop them at the end. Raises StartFailed, BinariesMissing."""
        binaries = await asyncio.to_thread(find_binaries)
        own = directory is None
        folder = Path(tempfile.mkdtemp(prefix="klm-local-")) if directory is None else directory
        folder.mkdir(parents=True, exist_ok=True)
        async with AsyncExitStack() as stack:
            if own:
                stack.callback(shutil.rmtree, folder, ignore_errors=True)
            etcd_url = await _start_etcd(binaries, folder, stack)
            authority = Authority()
            names = ["kcp", *(f"skr-{number}" for number in range(1, skrs + 1))]
            clusters = [
                LocalCluster(name, folder / name, binaries, authority, etcd_url, name == "kcp", free_port(), audit)
                for name in names
            ]
            for cluster in clusters:
                stack.push_async_callback(cluster.stop)
            async with asyncio.TaskGroup() as tasks:
                for cluster in clusters:
                    tasks.create_task(cluster.start())
            async with asyncio.TaskGroup() as tasks:
                egress = [tasks.create_task(cluster.serve_egress()) for cluster in clusters]
                yield cls(folder, clusters[0], tuple(clusters[1:]))
                for task in egress:
                    task.cancel()


def free_port() -> int:
    """Return a loopback port that is free now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


_EGRESS = """apiVersion: apiserver.k8s.io/v1beta1
kind: EgressSelectorConfiguration
egressSelections:
  - name: cluster
    connection:
      proxyProtocol: HTTPConnect
      transport:
        uds:
          udsName: {socket}
"""


async def _start_etcd(binaries: Binaries, folder: Path, stack: AsyncExitStack) -> str:
    client, peer = free_port(), free_port()
    url = f"http://127.0.0.1:{client}"
    command = [
        str(binaries.etcd),
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-urls={url}",
        f"--advertise-client-urls={url}",
        f"--listen-peer-urls=http://127.0.0.1:{peer}",
        f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
        f"--initial-cluster=default=http://127.0.0.1:{peer}",
        "--unsafe-no-fsync",
        "--log-level=error",
    ]
    child = await start_child("etcd", command, folder / "etcd.log")
    stack.push_async_callback(child.stop)
    async with httpx.AsyncClient(trust_env=False) as http, asyncio.timeout(START_SECONDS):
        while not await _answers(http, f"{url}/health"):
            if child.returncode is not None:
                raise StartFailed(child)
            await asyncio.sleep(0.05)
    return url


async def _answers(client: httpx.AsyncClient, url: str) -> bool:
    try:
        return (await client.get(url, timeout=2)).status_code == 200
    except httpx.HTTPError:
        return False


def _write_private(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
