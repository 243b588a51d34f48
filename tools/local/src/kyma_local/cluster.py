"""One cluster on this machine: a real kube-apiserver with RBAC on loopback, Services without kube-proxy."""

import base64
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import httpx

from kube_runtime import Client, NotFound, Resource, dump_yaml
from kyma_certs import KeyPair
from kyma_local.cache import Binaries
from kyma_local.certificates import issue_for, write_key_pair
from kyma_local.egress import EgressProxy, Route, add_route
from kyma_local.etcd import LocalEtcd
from kyma_local.nodes.network import API_SERVER_PORT, SERVICE_ADDRESSES, NodeNetwork
from kyma_local.ports import free_port
from kyma_local.private_files import write_private
from kyma_local.processes import STOP_SECONDS, ChildProcess, start_child
from kyma_local.starting import answers, start_on_free_ports, start_server

GARBAGE_CONTROLLERS = ("garbage-collector-controller", "namespace-controller")
WORKLOAD_CONTROLLERS = ("deployment-controller", "replicaset-controller", "garbage-collector-controller")
SERVICES: Resource[dict[str, Any]] = Resource.dynamic("", "v1", "Service", "services", namespaced=True)
ADMINISTRATORS = ("system:masters",)
AuditLevel = Literal["Metadata", "Request"]
"""What the audit log has of each request: who sent which and the status, or the body too."""


@dataclass(eq=False)
class LocalCluster:
    """One cluster: an API server and, optionally, a controller manager and an audit log.

    `with_controllers` runs the garbage collector and the namespace controller, `with_workloads` the controllers that
    create Pods of Deployments; with a `node`, whose network this is, all controllers run.
    """

    name: str
    directory: Path
    binaries: Binaries
    ca: KeyPair
    etcd: LocalEtcd
    egress_socket: Path
    with_controllers: bool = False
    with_workloads: bool = False
    audit: AuditLevel | None = None
    node: NodeNetwork | None = None
    flags: tuple[str, ...] = ()
    """Further options of the API server."""
    port: int = field(default_factory=free_port)
    _children: dict[str, ChildProcess] = field(default_factory=dict, init=False)

    @property
    def server(self) -> str:
        """The API server's URL."""
        return f"https://127.0.0.1:{self.port}"

    @property
    def server_for_pods(self) -> str:
        """The API server's URL on the nodes of all clusters, if this one has a node."""
        return self.server if self.node is None else f"https://{self.node.address}:{API_SERVER_PORT}"

    @property
    def children(self) -> tuple[ChildProcess, ...]:
        """The programs of this cluster."""
        return tuple(self._children.values())

    @property
    def admin_kubeconfig(self) -> Path:
        """The kubeconfig of an administrator."""
        return self.directory / "kubeconfig"

    def kubeconfig_for(self, user: str, groups: tuple[str, ...] = ()) -> Path:
        """Write a kubeconfig for a user, with its certificate inline; return its path."""
        return write_private(self.directory / f"{user}.kubeconfig", self.kubeconfig(user, groups))

    def kubeconfig(self, user: str, groups: tuple[str, ...] = (), *, server: str | None = None) -> str:
        """Return a kubeconfig for a user, with its certificate inline."""
        pair = issue_for(self.ca, user, groups)
        cluster = {
            "server": server or self.server,
            "certificate-authority-data": _encoded(self.ca.certificate_pem),
        }
        credentials = {
            "client-certificate-data": _encoded(pair.certificate_pem),
            "client-key-data": _encoded(pair.key_pem),
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

    async def route_service(self, namespace: str, name: str, port: int, host: str, target_port: int) -> None:
        """Route a Service's port to a local process."""
        add_route(self.directory / "routes", Route(namespace, name, port, host, target_port))

    async def start(self) -> None:
        """Start the cluster and wait until it is ready. Raises StartFailed."""
        self.directory.mkdir(parents=True, exist_ok=True)
        addresses = () if self.node is None else (self.node.address,)
        write_key_pair(issue_for(self.ca, "kube-apiserver", addresses=addresses), self.directory, "server")
        write_key_pair(issue_for(self.ca, "service-accounts"), self.directory, "service-account")
        (self.directory / "ca.crt").write_bytes(self.ca.certificate_pem)
        (self.directory / "egress.yaml").write_text(_EGRESS.format(socket=self.egress_socket))
        write_private(self.admin_kubeconfig, self.kubeconfig("admin", ADMINISTRATORS))
        await start_on_free_ports(self.start_api_server, self._choose_port)
        if self._controllers():
            await self._start_controllers()

    async def start_api_server(self) -> None:
        """Start the API server with its previous state and port. Raises StartFailed."""
        command = [str(self.binaries.kube_apiserver), *self._api_server_flags()]
        log = self.directory / "kube-apiserver.log"
        context = ssl.create_default_context(cafile=str(self.directory / "ca.crt"))
        async with httpx.AsyncClient(verify=context, trust_env=False) as client:
            self._children["kube-apiserver"] = await start_server(
                f"kube-apiserver of {self.name}", command, log, lambda: answers(client, f"{self.server}/readyz")
            )

    async def stop_api_server(self, *, grace_seconds: float = STOP_SECONDS) -> None:
        """Stop the API server, by SIGKILL after the grace time; its state is kept."""
        await self._children.pop("kube-apiserver").stop(grace_seconds)

    async def restart_controllers(self) -> None:
        """Restart the controller manager: its garbage collector finds new kinds at its start, later only every 30 s."""
        await self._children.pop("kube-controller-manager").stop()
        await self._start_controllers()

    async def stop(self) -> None:
        """Stop every process of the cluster."""
        while self._children:
            _, child = self._children.popitem()
            await child.stop()

    async def serve_egress(self, listening: Callable[[], None] = lambda: None) -> None:
        """Connect the API server to Services until cancelled. `listening` is called when connections are accepted."""
        connect = None if self.node is None else self.node.connect
        async with await Client.from_kubeconfig(self.kubeconfig("admin", ADMINISTRATORS)) as admin:

            async def address_of(namespace: str, name: str) -> str | None:
                try:
                    service = await admin.get(SERVICES, name, namespace)
                except NotFound:
                    return None
                return str(service["spec"].get("clusterIP") or "") or None

            proxy = EgressProxy(self.egress_socket, self.directory / "routes", address_of, connect=connect)
            await proxy.serve(listening)

    def _choose_port(self) -> None:
        self.port = free_port()
        write_private(self.admin_kubeconfig, self.kubeconfig("admin", ADMINISTRATORS))

    def _api_server_flags(self) -> list[str]:
        at = self.directory
        flags = [
            "--bind-address=127.0.0.1",
            f"--secure-port={self.port}",
            *self.etcd.client_flags,
            f"--etcd-prefix=/{self.name}",
            f"--tls-cert-file={at / 'server.crt'}",
            f"--tls-private-key-file={at / 'server.key'}",
            f"--client-ca-file={at / 'ca.crt'}",
            f"--service-account-key-file={at / 'service-account.crt'}",
            f"--service-account-signing-key-file={at / 'service-account.key'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--authorization-mode=RBAC",
            "--allow-privileged=true",  # as in every cluster: storage and networks need it
            f"--service-cluster-ip-range={SERVICE_ADDRESSES}",
            "--endpoint-reconciler-type=none",
            f"--egress-selector-config-file={at / 'egress.yaml'}",
            "--shutdown-watch-termination-grace-period=1s",  # by default it waits a minute for its watches to end
            "--profiling=false",
            "--v=1",
            *self.flags,
        ]
        if self.node is not None:
            files = write_key_pair(issue_for(self.ca, "kube-apiserver", ADMINISTRATORS), at, "kubelet-client")
            flags += [
                f"--kubelet-client-certificate={files[0]}",
                f"--kubelet-client-key={files[1]}",
                "--kubelet-preferred-address-types=InternalIP",
            ]
        else:
            # It adds a finalizer that only a controller removes, and that one runs with a node alone.
            flags.append("--disable-admission-plugins=StorageObjectInUseProtection")
        if self.audit is not None:
            policy = at / "audit-policy.yaml"
            policy.write_text(f"apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{{level: {self.audit}}}]\n")
            flags += [
                f"--audit-policy-file={policy}",
                f"--audit-log-path={at / 'audit.log'}",
                "--audit-log-maxsize=4096",
            ]
        return flags

    def _controllers(self) -> tuple[str, ...]:
        if self.node is not None:
            return ("*",)
        chosen = (*GARBAGE_CONTROLLERS * self.with_controllers, *WORKLOAD_CONTROLLERS * self.with_workloads)
        return tuple(dict.fromkeys(chosen))

    async def _start_controllers(self) -> None:
        command = [
            str(self.binaries.kube_controller_manager),
            f"--kubeconfig={self.admin_kubeconfig}",
            f"--controllers={','.join(self._controllers())}",
            "--leader-elect=false",
            "--secure-port=0",
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
        ]
        if self.node is not None:
            command += [
                f"--service-account-private-key-file={self.directory / 'service-account.key'}",
                f"--root-ca-file={self.directory / 'ca.crt'}",
            ]
        log = self.directory / "kube-controller-manager.log"
        self._children["kube-controller-manager"] = await start_child("kube-controller-manager", command, log)


def _encoded(content: bytes) -> str:
    """Return bytes as a kubeconfig holds them."""
    return base64.b64encode(content).decode()


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
