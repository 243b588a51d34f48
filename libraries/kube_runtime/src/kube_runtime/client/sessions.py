"""The connections of one client, in HTTP sessions that it may share with others."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from weakref import ref

import aiohttp

from kube_runtime.client.http_session import OPENING, HttpSession
from kube_runtime.client.options import ClientOptions

_CLOSING_TURNS = 4


class Sessions:
    """Lends an HTTP session to one client, and closes the connections of that client alone."""

    __slots__ = ("_http", "_is_closed", "_options", "_sockets")

    def __init__(self, options: ClientOptions) -> None:
        self._options = options
        self._http = options.session or HttpSession()
        self._sockets: list[ref[socket.socket]] = []
        self._is_closed = False

    @contextmanager
    def lend(self) -> Iterator[aiohttp.ClientSession]:
        """Lend the session, to a stream until that is open. Raises RuntimeError after `close`."""
        if self._is_closed:
            raise RuntimeError("the client is closed")
        before = OPENING.set(self._note)
        try:
            options = self._options
            yield self._http.opened(
                keep_alive_seconds=options.keep_alive_seconds,
                read_buffer_bytes=options.read_buffer_bytes,
            )
        finally:
            OPENING.reset(before)

    async def close(self) -> None:
        """Close every connection.

        An attempt that is cancelled just before its TLS handshake goes on in asyncio, owned by nobody: closing its
        transport does nothing as long as its protocol does not know of it. So what is left open is shut down.
        """
        self._is_closed = True
        if self._options.session is None:
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
