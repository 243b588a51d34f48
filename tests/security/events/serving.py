"""An event endpoint on a real socket with TLS of its own, and clients with certificates."""

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx

from http_guard import Bounds
from kube_runtime import SYSTEM_CLOCK, Clock
from kyma_certs import CAs, KeyPair, LeafRequest, ReloadingServerContext, create_ca, issue
from kyma_local.ports import free_port
from lifecycle_manager.events.endpoint import EndpointOptions, EventEndpoint, VerifiedEvent
from lifecycle_manager.events.problems import Reason
from lifecycle_manager.process.serving import serve
from lifecycle_manager.process.serving_certificate import ServingCertificate
from tests.security.events.subscribers import into
from tests.waiting import eventually

LONG_TIMEOUTS = Bounds(connections=500, request_seconds=60.0, tls_seconds=60.0)


def now() -> datetime:
    return datetime.now(UTC)


def new_ca() -> KeyPair:
    return create_ca("ca", lifetime=timedelta(days=10), now=now())


def leaf(ca: KeyPair, runtime: str) -> KeyPair:
    return issue(ca, LeafRequest(common_name=runtime, dns_names=("a.example",)), now=now())


def write_files(folder: Path, pair: KeyPair, trust: bytes) -> tuple[Path, Path, Path]:
    """Write certificate, key and trust as a mounted Secret has them."""
    folder.mkdir(exist_ok=True)
    files = (folder / "tls.crt", folder / "tls.key", folder / "ca.crt")
    for path, content in zip(files, (pair.certificate_pem, pair.key_pem, trust), strict=True):
        fresh = path.with_suffix(".new")
        fresh.write_bytes(content)
        fresh.replace(path)
    return files


@dataclass(eq=False)
class ServedEndpoint:
    """An endpoint that is being served. `cas` is what it trusts and is certified by."""

    folder: Path
    cas: CAs
    options: EndpointOptions
    port: int = field(default_factory=free_port)
    taken: list[VerifiedEvent] = field(default_factory=list)
    refused: list[Reason] = field(default_factory=list)
    delay_seconds: float = 0.0
    requests: int = 0

    runtimes: frozenset[str] = frozenset()
    max_connections_per_peer: int | None = None
    instead: Any = None
    """An ASGI application to serve in place of the endpoint."""
    clock: Clock = SYSTEM_CLOCK
    bounds: Bounds = LONG_TIMEOUTS
    """What is asked of a connection: where that is not the point, time enough for a machine that stands still."""

    def __post_init__(self) -> None:
        self.certificate = ServingCertificate(self.folder / "endpoint", ("127.0.0.1",), SYSTEM_CLOCK)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def adopt(self, cas: CAs) -> None:
        """Follow other CAs, as the Lifecycle Manager does."""
        self.cas = cas
        await self.certificate.write(cas)
        self.tls.check()

    @asynccontextmanager
    async def served(self, clients: ssl.VerifyMode = ssl.CERT_REQUIRED) -> AsyncGenerator[None, None]:
        await self.certificate.write(self.cas)
        self.tls: ReloadingServerContext = self.certificate.server_context(clients)
        app: Any = EventEndpoint(
            trust=lambda: self.cas.trusted,
            subscriber=into(self.taken),
            ready=lambda: True,
            count_refusal=self.refused.append,
            is_runtime=lambda runtime: runtime in self.runtimes,
            options=self.options,
            clock=self.clock,
        )

        async def delayed(scope: Any, receive: Any, send: Any) -> None:
            self.requests += 1
            await asyncio.sleep(self.delay_seconds)
            await (self.instead or app)(scope, receive, send)

        serving = asyncio.create_task(
            serve(
                delayed,
                "127.0.0.1",
                self.port,
                self.tls,
                bounds=self.bounds,
                max_connections_per_peer=self.max_connections_per_peer,
            )
        )
        try:
            await eventually(self._listens)
            yield
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)

    def client(self, pair: KeyPair | None) -> httpx.AsyncClient:
        """Return a client that trusts the endpoint and shows a certificate, if any."""
        context = self.client_context(pair)
        return httpx.AsyncClient(verify=context, base_url=f"https://{self.address}", trust_env=False, timeout=60)

    def client_context(self, pair: KeyPair | None) -> ssl.SSLContext:
        """Return a context that trusts the endpoint and shows a certificate, if any."""
        context = ssl.create_default_context(cadata=self.cas.trusted.decode())
        if pair is not None:
            certificate, key, _ = write_files(self.folder / "client", pair, self.cas.trusted)
            context.load_cert_chain(certificate, key)
        return context

    async def _listens(self) -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            return False
        writer.close()
        with suppress(OSError):  # it may be the endpoint that closes first
            await writer.wait_closed()
        return True
