"""The certificate that an endpoint of this process serves with: issued by its own authority, never stored.

Each replica makes its own at start and again at half of its life. The files that TLS needs are in a folder that only
this process may read, and it goes with the process.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from kyma_certs import Authorities, LeafRequest, ReloadingClientContext, ReloadingServerContext, Usage, issue

LIFETIME = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class ServingCertificate:
    """Writes an endpoint's certificate files into a folder. `hosts` are the names that others connect to."""

    directory: Path
    hosts: tuple[str, ...]
    clock: Callable[[], datetime]
    usages: frozenset[Usage] = frozenset({Usage.SERVER})

    @property
    def certificate_file(self) -> Path:
        """The certificate in PEM."""
        return self.directory / "tls.crt"

    @property
    def key_file(self) -> Path:
        """Its private key in PEM."""
        return self.directory / "tls.key"

    @property
    def trust_file(self) -> Path:
        """Whose client certificates are accepted, in PEM."""
        return self.directory / "ca.crt"

    def server_context(
        self, *, require_client_certificate: bool, ask_for_client_certificate: bool = False
    ) -> ReloadingServerContext:
        """Return a TLS context that serves with these files and follows them."""
        return ReloadingServerContext(
            self.certificate_file,
            self.key_file,
            self.trust_file,
            require_client_certificate=require_client_certificate,
            ask_for_client_certificate=ask_for_client_certificate,
        )

    def client_context(self) -> ReloadingClientContext:
        """Return a TLS context that connects to others with these files and follows them."""
        return ReloadingClientContext(self.certificate_file, self.key_file, self.trust_file)

    async def write(self, authorities: Authorities) -> None:
        """Issue a certificate and put it in place; whoever follows the files has it from then on."""
        self.directory.mkdir(mode=0o700, exist_ok=True)
        addresses = tuple(host for host in self.hosts if _is_address(host))
        request = LeafRequest(
            common_name="lifecycle-manager",
            dns_names=tuple(host for host in self.hosts if host not in addresses),
            ip_addresses=addresses,
            lifetime=LIFETIME,
            usages=self.usages,
        )
        pair = await asyncio.to_thread(issue, authorities.signing, request, now=self.clock())
        for path, content in (
            (self.trust_file, authorities.trusted),
            (self.key_file, pair.key_pem),
            (self.certificate_file, pair.certificate_pem),
        ):
            fresh = path.with_suffix(".new")
            fresh.touch(mode=0o600)
            fresh.write_bytes(content)
            fresh.replace(path)


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
