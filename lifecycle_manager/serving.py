"""Runs an application on uvicorn with TLS, and shows it the peer's certificate where there is one."""

import asyncio
import ssl

from starlette.requests import Request
from starlette.types import ASGIApp

from certs import ReloadingServerContext
from guarded_http import Bounds, GuardedProtocol, server_for

BOUNDS = Bounds(connections=500)


class BodyTooLarge(Exception):
    """A request's body is longer than its endpoint takes."""


async def read_body(request: Request, most: int) -> bytes:
    """Return the body of a request, of so many bytes at most. Raises BodyTooLarge as soon as there are more."""
    chunks = bytearray()
    async for chunk in request.stream():
        chunks += chunk
        if len(chunks) > most:
            raise BodyTooLarge(f"the body is larger than {most} bytes")
    return bytes(chunks)


class PeerCertificateProtocol(GuardedProtocol):
    """Puts the DER form of the peer's certificate into the scope, as `extensions.tls.client_cert_der`."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        tls = transport.get_extra_info("ssl_object")
        self._peer = tls.getpeercert(True) if isinstance(tls, ssl.SSLObject | ssl.SSLSocket) else None

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._peer is not None:
            self.scope.setdefault("extensions", {})["tls"] = {"client_cert_der": self._peer}


async def serve(app: ASGIApp, host: str, port: int, tls: ReloadingServerContext, *, bounds: Bounds = BOUNDS) -> None:
    """Serve until cancelled; what is under way then is finished."""
    server = server_for(app, host, port, bounds=bounds, tls=tls.ssl_context, protocol=PeerCertificateProtocol)
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
