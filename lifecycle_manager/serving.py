"""Runs an application on uvicorn with TLS, and shows it the peer's certificate where there is one."""

import asyncio
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from fastapi import FastAPI
from starlette.requests import Request
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from certs import ReloadingServerContext


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


class PeerCertificateProtocol(HttpToolsProtocol):
    """Puts the DER form of the peer's certificate into the scope, as `extensions.tls.client_cert_der`."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)  # type: ignore[arg-type]  # uvicorn narrows what asyncio promises
        tls = transport.get_extra_info("ssl_object")
        self._peer = tls.getpeercert(True) if isinstance(tls, ssl.SSLObject | ssl.SSLSocket) else None

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._peer is not None:
            self.scope.setdefault("extensions", {})["tls"] = {"client_cert_der": self._peer}


class EmbeddedServer(uvicorn.Server):
    """A server that leaves signals to the program it is part of."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


async def serve(app: FastAPI, host: str, port: int, tls: ReloadingServerContext) -> None:
    """Serve until cancelled; what is under way then is finished."""
    config: dict[str, Any] = {
        "http": PeerCertificateProtocol,
        "access_log": False,
        "log_config": None,
        "server_header": False,
        "proxy_headers": False,  # or a header would say from which address a request comes
        "lifespan": "off",
        "timeout_keep_alive": 75,
        "timeout_graceful_shutdown": 5,
        "limit_concurrency": 2000,
    }
    server_config = uvicorn.Config(app, host=host, port=port, **config)
    server_config.load()
    server_config.ssl = tls.ssl_context
    server_config.loaded = True
    server = EmbeddedServer(server_config)
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
