"""The HTTP session of a client, or of many clients that share it.

A session of aiohttp takes as much memory as the connection in it. So a process with clients of many servers has one
session, and what a client adds is its connections.
"""

import socket
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import aiohttp

OPENING: ContextVar[Callable[[socket.socket], None] | None] = ContextVar("opening", default=None)
"""Takes note of each connection that is opened, before anything is sent on it."""


class HttpSession:
    """Opened on the running event loop by the first request. Whoever made it closes it."""

    def __init__(self) -> None:
        self._open: aiohttp.ClientSession | None = None

    def opened(self, *, keep_alive_seconds: float, read_buffer_bytes: int) -> aiohttp.ClientSession:
        """Return the session. Clients that share it have the same options but for the server."""
        if self._open is None:
            self._open = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=0, keepalive_timeout=keep_alive_seconds, ttl_dns_cache=30, socket_factory=_socket
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
                read_bufsize=read_buffer_bytes,
                auto_decompress=False,
            )
        return self._open

    async def close(self) -> None:
        """Close every connection."""
        if self._open is not None:
            await self._open.close()


def _socket(address: tuple[Any, ...]) -> socket.socket:
    """Return a socket that sends at once, and notices after a minute that its peer is gone."""
    family, kind, protocol = address[:3]
    made = socket.socket(family=family, type=kind, proto=protocol)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    note = OPENING.get()
    if note is not None:
        note(made)
    return made
