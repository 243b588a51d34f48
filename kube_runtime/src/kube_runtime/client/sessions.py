"""The connections of one client: a warm one that is kept, and spare ones for bursts that are not.

A spare connection, and all that was made for it, is gone a few seconds after the last request that needed one. So a
process with many clients that are mostly idle keeps little for each.
"""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from weakref import WeakSet

import aiohttp

from kube_runtime.client.options import ClientOptions

__all__ = ["Sessions"]

_CLOSING_TURNS = 4


class Sessions:
    """Lends the sessions of one client. Make it on a running event loop and close it."""

    def __init__(self, options: ClientOptions) -> None:
        self._options = options
        self._sockets: WeakSet[socket.socket] = WeakSet()
        self.warm = self._open(options.keep_alive_seconds)
        self._is_lent = False
        self._spare: aiohttp.ClientSession | None = None
        self._spare_users = 0
        self._end_of_spare: asyncio.TimerHandle | None = None
        self._closing: asyncio.Task[None] | None = None

    @contextmanager
    def lend(self) -> Iterator[aiohttp.ClientSession]:
        """Lend the session of the warm connection or, while that is in use, the one of spare connections."""
        if self._options.spare_seconds is None:
            yield self.warm
        elif self._is_lent:
            with self._lend_spare(self._options.spare_seconds) as spare:
                yield spare
        else:
            self._is_lent = True
            try:
                yield self.warm
            finally:
                self._is_lent = False

    async def close(self) -> None:
        """Close every connection."""
        if self._end_of_spare is not None:
            self._end_of_spare.cancel()
        await self.warm.close()
        if self._spare is not None:
            await self._spare.close()
        if self._closing is not None:
            await self._closing
        await _finish_closing()
        abandoned = [each for each in self._sockets if each.fileno() >= 0]
        for each in abandoned:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        if abandoned:
            await _finish_closing()

    @contextmanager
    def _lend_spare(self, seconds: float) -> Iterator[aiohttp.ClientSession]:
        if self._end_of_spare is not None:
            self._end_of_spare.cancel()
            self._end_of_spare = None
        if self._spare is None:
            self._spare = self._open(seconds)
        self._spare_users += 1
        try:
            yield self._spare
        finally:
            self._spare_users -= 1
            if not self._spare_users and not self._spare.closed:
                self._end_of_spare = asyncio.get_running_loop().call_later(seconds, self._close_spare)

    def _close_spare(self) -> None:
        if self._spare is not None:
            self._closing = asyncio.get_running_loop().create_task(self._spare.close())
        self._spare = self._end_of_spare = None

    def _open(self, keep_alive_seconds: float) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0, keepalive_timeout=keep_alive_seconds, ttl_dns_cache=30, socket_factory=self._socket
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            read_bufsize=self._options.read_buffer_bytes,
            auto_decompress=self._options.compression,
        )

    def _socket(self, address: tuple[Any, ...]) -> socket.socket:
        """Return a socket for a new connection, and remember it.

        An attempt that is cancelled just before its TLS handshake goes on in asyncio, owned by nobody: closing its
        transport does nothing as long as its protocol does not know of it. `close` ends such connections.
        """
        made = _socket(address)
        self._sockets.add(made)
        return made


async def _finish_closing() -> None:
    """Give closing connections the iterations of the event loop in which they release their sockets."""
    for _ in range(_CLOSING_TURNS):
        await asyncio.sleep(0)


def _socket(address: tuple[Any, ...]) -> socket.socket:
    """Return a socket that sends at once, and notices after a minute that its peer is gone."""
    family, kind, protocol = address[:3]
    made = socket.socket(family=family, type=kind, proto=protocol)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return made
