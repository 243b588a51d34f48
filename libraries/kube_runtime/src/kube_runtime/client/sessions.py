"""The connections of one client: a warm one that is kept, and spare ones for bursts that are not.

A spare connection is gone a few seconds after the last request that needed one. So a process with many clients that are
mostly idle keeps little for each.
"""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from weakref import ref

import aiohttp

from kube_runtime.client.http_sessions import OPENING, HttpSessions
from kube_runtime.client.options import ClientOptions

_CLOSING_TURNS = 4


class Sessions:
    """Lends the HTTP sessions to one client, and closes the connections of that client alone."""

    __slots__ = ("_http", "_is_closed", "_is_lent", "_options", "_sockets")

    def __init__(self, options: ClientOptions) -> None:
        self._options = options
        self._http = options.sessions or HttpSessions()
        self._sockets: list[ref[socket.socket]] = []
        self._is_lent = False
        self._is_closed = False

    @contextmanager
    def lend(self) -> Iterator[aiohttp.ClientSession]:
        """Lend the session of the warm connection or, while that is in use, the one of spare connections.

        To a stream it is lent until that is open. Raises RuntimeError after `close`.
        """
        if self._is_closed:
            raise RuntimeError("the client is closed")
        options = self._options
        spare_seconds = options.spare_seconds if self._is_lent else None
        before, self._is_lent = OPENING.set(self._note), True
        try:
            yield self._http.session(
                options.keep_alive_seconds if spare_seconds is None else spare_seconds,
                read_buffer_bytes=options.read_buffer_bytes,
                decompress=options.compression,
            )
        finally:
            OPENING.reset(before)
            if spare_seconds is None:
                self._is_lent = False

    async def close(self) -> None:
        """Close every connection.

        An attempt that is cancelled just before its TLS handshake goes on in asyncio, owned by nobody: closing its
        transport does nothing as long as its protocol does not know of it. So what is left open is shut down.
        """
        self._is_closed = True
        if self._options.sessions is None:
            await self._http.close()
            await _finish_closing()
        left = [known for each in self._sockets if (known := each()) is not None and known.fileno() >= 0]
        for each in left:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        if left:
            await _finish_closing()

    def _note(self, made: socket.socket) -> None:
        """Take a new connection as one of this client. Raises OSError where the client is closed."""
        if self._is_closed:  # aiohttp repeats requests whose connection was closed
            made.close()
            raise OSError("the client is closed")
        self._sockets = [each for each in self._sockets if (known := each()) is not None and known.fileno() >= 0]
        self._sockets.append(ref(made))


async def _finish_closing() -> None:
    """Give closing connections the iterations of the event loop in which they release their sockets."""
    for _ in range(_CLOSING_TURNS):
        await asyncio.sleep(0)
