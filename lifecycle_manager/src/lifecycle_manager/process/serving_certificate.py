"""The certificate of an endpoint of this process: issued by the CA of KCP, and never stored there.

Each replica issues its own at start and renews it daily. The files that TLS needs are in a folder that only this
process can read, and that is deleted with the process.
"""

import asyncio
import ssl
from dataclasses import dataclass
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path

from kube_runtime import Clock
from kyma_certs import CAs, LeafRequest, ReloadingClientContext, ReloadingServerContext, Usage, issue

LIFETIME = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class ServingCertificate:
    """Writes an endpoint's certificate files into a folder. `hosts` are the names that others connect to."""

    directory: Path
    hosts: tuple[str, ...]
    clock: Clock
    usages: frozenset[Usage] = frozenset({Usage.SERVER})

    @property
    def files(self) -> tuple[Path, Path, Path]:
        """The certificate, its private key, and the CAs whose client certificates are accepted; each in PEM."""
        return (self.directory / "tls.crt", self.directory / "tls.key", self.directory / "ca.crt")

    def server_context(
        self, clients: ssl.VerifyMode = ssl.CERT_REQUIRED, client_ca: Path | None = None
    ) -> ReloadingServerContext:
        """Return a TLS context for a server that reloads these files, with another CA of its clients if given."""
        certificate, key, trust = self.files
        return ReloadingServerContext(certificate, key, client_ca or trust, clients=clients)

    def client_context(self) -> ReloadingClientContext:
        return ReloadingClientContext(*self.files)

    async def write(self, cas: CAs) -> None:
        """Issue a certificate and replace the files; the TLS contexts reload them."""
        self.directory.mkdir(mode=0o700, exist_ok=True)
        request = server_request(self.hosts, self.usages)
        pair = await asyncio.to_thread(issue, cas.signing, request, now=self.clock.now())
        certificate, key, trust = self.files
        for path, content in ((trust, cas.trusted), (key, pair.key_pem), (certificate, pair.certificate_pem)):
            temporary = path.with_suffix(".new")
            temporary.touch(mode=0o600)
            temporary.write_bytes(content)
            temporary.replace(path)


def server_request(hosts: tuple[str, ...], usages: frozenset[Usage] = frozenset({Usage.SERVER})) -> LeafRequest:
    """Return the contents of the certificate of a server with these names and addresses."""
    addresses = {host: _address_of(host) for host in hosts}
    return LeafRequest(
        common_name="lifecycle-manager",
        dns_names=tuple(host for host, address in addresses.items() if not address),
        ip_addresses=tuple(filter(None, addresses.values())),
        lifetime=LIFETIME,
        usages=usages,
    )


def _address_of(host: str) -> str:
    """Return an address as a certificate shows it, however it is written; empty for a name."""
    try:
        return str(ip_address(host))
    except ValueError:
        return ""
