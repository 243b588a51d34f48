"""A uvicorn server as part of a program, with the options common to all our servers."""

import asyncio
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import uvicorn

from http_guard.handshakes import Handshakes
from http_guard.protocol import Bounds, GuardedProtocol

BACKLOG = 512


class EmbeddedServer(uvicorn.Server):
    """A server on a given socket that leaves signals to the program.

    An application that streams answers for as long as clients listen checks `request.state.is_stopping()`, and closes
    the streams when the server stops.
    """

    def __init__(
        self, config: uvicorn.Config, listening: socket.socket, bounds: Bounds, on_refusal: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._listening = listening
        self._accepting: asyncio.Task[None] | None = None
        tls = config.ssl
        self._handshakes = Handshakes(tls, bounds, self._begin_http, on_refusal) if tls is not None else None

    @property
    def port(self) -> int:
        """The port on which it listens."""
        number: int = self._listening.getsockname()[1]
        return number

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until `should_exit` is set, or cancelled."""
        with self._listening:
            async with asyncio.TaskGroup() as tasks:
                if self._handshakes is not None:
                    self._accepting = tasks.create_task(self._handshakes.accept(self._listening))
                await super().serve()

    async def serve_until_cancelled(self) -> None:
        """Serve until cancelled; requests in progress are finished then."""
        serving = asyncio.create_task(self.serve())
        try:
            await asyncio.shield(serving)
        except asyncio.CancelledError:
            self.should_exit = True
            await serving
            raise

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to accept connections as uvicorn does. For TLS `serve` does so, since uvicorn bounds no handshakes."""
        self.servers = []
        if self._handshakes is None:
            loop = asyncio.get_running_loop()
            self.servers = [await loop.create_server(self._begin_http, sock=self._listening, backlog=BACKLOG)]
        self.lifespan.state["is_stopping"] = lambda: self.should_exit
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting connections, and finish the requests in progress."""
        if self._accepting is not None:
            self._accepting.cancel()
        await super().shutdown([self._listening])

    def _begin_http(self) -> asyncio.Protocol:
        protocol: Any = self.config.http_protocol_class
        http: asyncio.Protocol = protocol(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return http

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


def server_for(
    app: Any,
    host: str,
    port: int,
    *,
    bounds: Bounds,
    tls: ssl.SSLContext | None = None,
    protocol: Callable[..., GuardedProtocol] = GuardedProtocol,
    on_refusal: Callable[[], None] = lambda: None,
    idle_seconds: int = 75,
) -> EmbeddedServer:
    """Return a server with an open port, not started yet; without a host on every address, IPv4 and IPv6.

    It stops when `should_exit` is set, after the requests in progress.
    """
    options: dict[str, Any] = {
        "http": partial(protocol, bounds=bounds, on_refusal=on_refusal),
        "ws": "none",
        "access_log": False,
        "log_config": None,
        "server_header": False,
        "proxy_headers": False,  # otherwise a header could fake the address of the client
        "lifespan": "off",
        "timeout_keep_alive": idle_seconds,
        "timeout_graceful_shutdown": 5,
    }
    config = uvicorn.Config(app, host=host, port=port, **options)
    config.load()
    config.ssl = tls
    return EmbeddedServer(config, _listening_on(host, port, bounds.receive_bytes), bounds, on_refusal)


def _listening_on(host: str, port: int, receive_bytes: int) -> socket.socket:
    """Return a listening socket whose connections have small buffers, and so small reads.

    By default uvloop reads up to 256 KiB at a time and keeps several such buffers for each connection.
    """
    has_both = not host and socket.has_dualstack_ipv6()
    listening = socket.socket(socket.AF_INET6 if has_both or ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        if has_both:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        listening.bind((host, port))
        listening.listen(BACKLOG)
    except BaseException:
        listening.close()
        raise
    return listening
