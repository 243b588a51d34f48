"""Runs an application on uvicorn with TLS, and passes it the peer's certificate where there is one."""

import asyncio
import ssl
from collections.abc import Callable
from functools import partial
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp

from http_guard import Bounds, GuardedProtocol, close_longest_idle, server_for
from kyma_certs import ReloadingServerContext

BOUNDS = Bounds(connections=500)


class BodyTooLarge(Exception):
    """The body of a request is longer than its endpoint accepts."""


async def read_body(request: Request, limit: int, take: Callable[[int], None] = lambda _: None) -> bytes:
    """Return the body of a request. `take` is called with the size of each part.

    Raises BodyTooLarge as soon as there are more bytes than `limit`, ClientDisconnect, and what `take` raises.
    """
    chunks, has_more = bytearray(), True
    while has_more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        chunk, has_more = message.get("body", b""), message.get("more_body", False)
        if len(chunks) + len(chunk) > limit:
            raise BodyTooLarge(f"body too large: more than {limit} bytes")
        take(len(chunk))
        chunks += chunk
    return bytes(chunks)


class ConnectionShares:
    """The connections of each certificate, up to a limit, so that no peer takes the connections of the others.

    Above the limit the peer's longest idle connection is closed, since some clients (the Go Watcher) open a connection
    for each request and close none. A new connection is refused only while all others are busy.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._taken: dict[bytes, set[PeerCertificateProtocol]] = {}

    def take(self, peer: bytes, connection: "PeerCertificateProtocol") -> bool:
        """Count a connection of a certificate; return whether it is allowed. Call `give` when it ends."""
        taken = self._taken.setdefault(peer, set())
        taken.add(connection)
        return sum(not each.transport.is_closing() for each in taken) <= self._limit or close_longest_idle(taken)

    def give(self, peer: bytes, connection: "PeerCertificateProtocol") -> None:
        """Stop counting a connection."""
        self._taken[peer].discard(connection)
        if not self._taken[peer]:
            del self._taken[peer]


class PeerCertificateProtocol(GuardedProtocol):
    """Puts the DER form of the peer's certificate into the scope, as `extensions.tls.client_cert_der`.

    With `shares` a certificate has a limited number of connections. Those of a certificate that `admits` refuses are
    closed after the handshake.
    """

    def __init__(
        self,
        *args: Any,
        shares: ConnectionShares | None = None,
        admits: Callable[[bytes], bool] = lambda _: True,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._admits = admits
        self._shares = shares
        self._peer: bytes | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        if transport.is_closing():
            return
        tls = transport.get_extra_info("ssl_object")
        self._peer = tls.getpeercert(True) if isinstance(tls, ssl.SSLObject | ssl.SSLSocket) else None
        if self._peer is None:
            return
        has_share = self._shares is None or self._shares.take(self._peer, self)
        if not has_share or not self._admits(self._peer):
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._shares is not None and self._peer is not None:
            self._shares.give(self._peer, self)
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._peer is not None:
            self.scope.setdefault("extensions", {})["tls"] = {"client_cert_der": self._peer}


async def serve(
    app: ASGIApp,
    host: str,
    port: int,
    tls: ReloadingServerContext,
    *,
    bounds: Bounds = BOUNDS,
    max_connections_per_peer: int | None = None,
    admits: Callable[[bytes], bool] = lambda _: True,
) -> None:
    """Serve until cancelled; requests in progress are finished then. `admits`: which certificates may connect."""
    shares = ConnectionShares(max_connections_per_peer) if max_connections_per_peer is not None else None
    protocol = partial(PeerCertificateProtocol, shares=shares, admits=admits)
    server = server_for(app, host, port, bounds=bounds, tls=tls.ssl_context, protocol=protocol)
    async with asyncio.TaskGroup() as tasks:
        following = tasks.create_task(tls.run())
        try:
            await server.serve_until_cancelled()
        finally:
            following.cancel()
