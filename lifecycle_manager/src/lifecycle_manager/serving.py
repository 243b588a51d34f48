"""Runs an application on uvicorn with TLS, and passes it the peer's certificate where there is one."""

import asyncio
import hashlib
import ssl
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.types import ASGIApp

from http_guard import Bounds, GuardedProtocol, server_for
from kyma_certs import ReloadingServerContext

BOUNDS = Bounds(connections=500)
CLOSE_SECONDS = 0.1


class BodyTooLarge(Exception):
    """The body of a request is longer than its endpoint accepts."""


async def read_body(request: Request, limit: int) -> bytes:
    """Return the body of a request. Raises BodyTooLarge as soon as there are more bytes than `limit`."""
    chunks = bytearray()
    async for chunk in request.stream():
        chunks += chunk
        if len(chunks) > limit:
            raise BodyTooLarge(f"body too large: more than {limit} bytes")
    return bytes(chunks)


class Shares:
    """The connections of each certificate, up to a limit, so that no peer takes the connections of the others.

    Above the limit the peer's longest idle connection is closed, since some clients (the Go Watcher) open a connection
    for each request and close none. A new connection is refused only while all others have a request under way.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._peers: dict[bytes, _Connections] = {}

    def take(self, peer: bytes, connection: "PeerCertificateProtocol") -> bool:
        """Count a connection of a certificate; return whether it is allowed. Call `give` when it ends."""
        connections = self._peers.setdefault(_key(peer), _Connections())
        if len(connections.open) >= self._limit:
            longest_idle = next(iter(connections.idle), None)
            if longest_idle is None:
                return False
            connections.remove(longest_idle)
            longest_idle.close_idle()
        connections.open.add(connection)
        return True

    def mark(self, peer: bytes, connection: "PeerCertificateProtocol", *, idle: bool) -> None:
        """Note that a connection has answered all its requests, or has a new one."""
        connections = self._peers.get(_key(peer))
        if connections is None or connection not in connections.open:
            return
        connections.idle.pop(connection, None)
        if idle:
            connections.idle[connection] = None

    def give(self, peer: bytes, connection: "PeerCertificateProtocol") -> None:
        """Stop counting a connection."""
        key = _key(peer)
        if (connections := self._peers.get(key)) is not None:
            connections.remove(connection)
            if not connections.open:
                del self._peers[key]


@dataclass(slots=True)
class _Connections:
    """The open connections of one certificate; those without a request under way in the order in which they ended."""

    open: set["PeerCertificateProtocol"] = field(default_factory=set)
    idle: dict["PeerCertificateProtocol", None] = field(default_factory=dict)

    def remove(self, connection: "PeerCertificateProtocol") -> None:
        self.open.discard(connection)
        self.idle.pop(connection, None)


class PeerCertificateProtocol(GuardedProtocol):
    """Puts the DER form of the peer's certificate into the scope, as `extensions.tls.client_cert_der`.

    With `shares` a certificate has a limited number of connections.
    """

    def __init__(self, *args: Any, shares: Shares | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._shares = shares
        self._peer: bytes | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        tls = transport.get_extra_info("ssl_object")
        self._peer = tls.getpeercert(True) if isinstance(tls, ssl.SSLObject | ssl.SSLSocket) else None
        if self._shares is not None and self._peer is not None and not self._shares.take(self._peer, self):
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._shares is not None and self._peer is not None:
            self._shares.give(self._peer, self)
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._peer is not None:
            self.scope.setdefault("extensions", {})["tls"] = {"client_cert_der": self._peer}
            self._mark(idle=False)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._mark(idle=not self.requests_under_way)

    def close_idle(self) -> None:
        """Close the connection, soon even if the peer does not close it on its side."""
        self.transport.close()
        self.loop.call_later(CLOSE_SECONDS, self.transport.abort)

    def _mark(self, *, idle: bool) -> None:
        if self._shares is not None and self._peer is not None:
            self._shares.mark(self._peer, self, idle=idle)


async def serve(
    app: ASGIApp,
    host: str,
    port: int,
    tls: ReloadingServerContext,
    *,
    bounds: Bounds = BOUNDS,
    max_connections_per_peer: int | None = None,
) -> None:
    """Serve until cancelled; requests in progress are finished then."""
    shares = Shares(max_connections_per_peer) if max_connections_per_peer is not None else None
    protocol = partial(PeerCertificateProtocol, shares=shares)
    server = server_for(app, host, port, bounds=bounds, tls=tls.ssl_context, protocol=protocol)
    async with asyncio.TaskGroup() as tasks:
        following = tasks.create_task(tls.run())
        serving = tasks.create_task(server.serve())
        try:
            await asyncio.shield(serving)
        except asyncio.CancelledError:
            server.should_exit = True
            await serving
            raise
        finally:
            following.cancel()


def _key(peer: bytes) -> bytes:
    return hashlib.blake2b(peer, digest_size=16).digest()
