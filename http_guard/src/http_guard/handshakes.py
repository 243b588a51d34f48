"""TLS handshakes, with bounds to their time and number.

What has not ended its handshake is no connection yet for `protocol`, and the event loop would wait a minute for each of
any number. Here it has seconds, and where there are too many, the one that has taken longest gives way: whoever is slow
on purpose can't keep out those who are not.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress

from http_guard.protocol import Bounds

log = logging.getLogger(__name__)

NO_ROOM_SECONDS = 0.5


class Handshakes:
    """Accepts connections and has each do its handshake; HTTP begins on it with what `begin_http` makes.

    `on_refusal` is told of each connection that had to give way.
    """

    def __init__(
        self,
        tls: ssl.SSLContext,
        bounds: Bounds,
        begin_http: Callable[[], asyncio.Protocol],
        on_refusal: Callable[[], None] = lambda: None,
    ) -> None:
        self._tls = tls
        self._bounds = bounds
        self._begin_http = begin_http
        self._on_refusal = on_refusal
        self._under_way: dict[socket.socket, None] = {}

    async def accept(self, listening: socket.socket) -> None:
        """Accept connections until cancelled; what has not ended its handshake by then is closed."""
        listening.setblocking(False)
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as tasks:
            while True:
                try:
                    connection, _ = await loop.sock_accept(listening)
                except OSError as error:  # gone before it was accepted, or the process has too many files open
                    log.warning("a connection could not be accepted: %s", error)
                    await asyncio.sleep(NO_ROOM_SECONDS)
                    continue
                self._make_room()
                self._under_way[connection] = None
                tasks.create_task(self._shake_hands(connection))

    def _make_room(self) -> None:
        """Have the oldest handshake give way where there are too many; it fails as if the other side had gone."""
        if len(self._under_way) >= self._bounds.handshakes:
            oldest = next(iter(self._under_way))
            del self._under_way[oldest]
            with suppress(OSError):
                oldest.shutdown(socket.SHUT_RDWR)
            self._on_refusal()

    async def _shake_hands(self, connection: socket.socket) -> None:
        seconds = self._bounds.tls_seconds
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                self._begin_http,
                connection,
                ssl=self._tls,
                ssl_handshake_timeout=seconds,
                ssl_shutdown_timeout=seconds,
            )
        except OSError:  # of TLS, of the network, or of the deadline
            connection.close()
        finally:
            self._under_way.pop(connection, None)
