"""The storage of the local clusters: one etcd on loopback, which keeps its ports and data across restarts.

It holds every Secret, and other users of the machine reach its ports. So it answers only clients with a certificate of
a CA of its own: that of the clusters signs the certificates of their users, too.
"""

import ssl
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from kyma_certs import KeyPair
from kyma_local.cache import Binaries
from kyma_local.certificates import create_local_ca, issue_for, write_key_pair
from kyma_local.ports import free_port
from kyma_local.processes import ChildProcess
from kyma_local.starting import answers, start_on_free_ports, start_server


@dataclass(eq=False)
class LocalEtcd:
    """One etcd for all API servers of a run."""

    binaries: Binaries
    directory: Path
    fsync: bool = False
    """Whether what it answers is on the disk, as in production; without, it is faster."""
    port: int = field(default_factory=free_port)
    peer_port: int = field(default_factory=free_port)
    _ca: KeyPair = field(default_factory=create_local_ca, init=False)
    _child: ChildProcess | None = field(default=None, init=False)

    @property
    def url(self) -> str:
        """The URL for the API servers."""
        return f"https://127.0.0.1:{self.port}"

    @property
    def client_flags(self) -> tuple[str, ...]:
        """The flags by which an API server reaches it."""
        ca, certificate, key = self._files("client")
        return (
            f"--etcd-servers={self.url}",
            f"--etcd-cafile={ca}",
            f"--etcd-certfile={certificate}",
            f"--etcd-keyfile={key}",
        )

    @property
    def children(self) -> tuple[ChildProcess, ...]:
        """Its process, while it runs."""
        return () if self._child is None else (self._child,)

    async def start(self) -> None:
        """Start it for the first time, on free ports. Raises StartFailed."""
        await start_on_free_ports(self.start_again, self._choose_ports)

    async def start_again(self) -> None:
        """Start it with its previous data and ports. Raises StartFailed."""
        self._write_certificates()
        peer = f"https://127.0.0.1:{self.peer_port}"
        ca, certificate, key = self._files("server")
        command = [
            str(self.binaries.etcd),
            f"--data-dir={self.directory / 'etcd'}",
            f"--listen-client-urls={self.url}",
            f"--advertise-client-urls={self.url}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            *([] if self.fsync else ["--unsafe-no-fsync"]),
            "--log-level=error",
        ]
        for of in ("", "peer-"):
            files = [f"--{of}trusted-ca-file={ca}", f"--{of}cert-file={certificate}", f"--{of}key-file={key}"]
            command += [f"--{of}client-cert-auth", *files]
        log = self.directory / "etcd.log"
        async with httpx.AsyncClient(verify=self._context(), trust_env=False) as client:
            self._child = await start_server("etcd", command, log, lambda: answers(client, f"{self.url}/health"))

    async def stop(self) -> None:
        """Stop it; its data is kept."""
        child, self._child = self._child, None
        if child is not None:
            await child.stop()

    def _choose_ports(self) -> None:
        self.port, self.peer_port = free_port(), free_port()

    def _write_certificates(self) -> None:
        folder = self.directory / "etcd-certificates"
        folder.mkdir(mode=0o700, exist_ok=True)
        (folder / "ca.crt").write_bytes(self._ca.certificate_pem)
        for name in ("server", "client"):
            write_key_pair(issue_for(self._ca, f"etcd-{name}"), folder, name)

    def _files(self, name: str) -> tuple[Path, Path, Path]:
        """Return the files of the CA, and of the certificate and the key of that name."""
        folder = self.directory / "etcd-certificates"
        return folder / "ca.crt", folder / f"{name}.crt", folder / f"{name}.key"

    def _context(self) -> ssl.SSLContext:
        ca, certificate, key = self._files("client")
        context = ssl.create_default_context(cafile=str(ca))
        context.load_cert_chain(certificate, key)
        return context
