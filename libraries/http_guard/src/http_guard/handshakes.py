"""TLS handshakes with bounds on their time and number.

`protocol` sees a connection only after its handshake, and the event loop alone would wait a minute for each of any
number. Here a handshake has seconds. Above the maximum number the oldest one is closed, so deliberately slow clients
cannot keep out others.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress

from http_guard.protocol import Bounds

log = logging.getLogger(__name__)

ACCEPT_RETRY_SECONDS = 0.5


class Handshakes:
    """Accepts connections and does their handshakes; the protocol that `begin_http` returns takes over from there.

    `on_refusal` is called for each connection that is closed because there are too many.
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
        self._in_progress: dict[socket.socket, None] = {}

    async def accept(self, listening: socket.socket) -> None:
        """Accept connections until cancelled; unfinished handshakes are then closed."""
        listening.setblocking(False)
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as tasks:
            while True:
                try:
                    connection, _ = await loop.sock_accept(listening)
                except OSError as error:  # closed by the client already, or too many open files
                    log.warning("cannot accept a connection: %s", error)
                    await asyncio.sleep(ACCEPT_RETRY_SECONDS)
                    continue
                self._close_excess()
                self._in_progress[connection] = None
                tasks.create_task(self._do_handshake(connection))

    def _close_excess(self) -> None:
        """Close the oldest handshake if there are too many; it fails as if the client had closed the connection."""
        if len(self._in_progress) >= self._bounds.handshakes:
            oldest = next(iter(self._in_progress))
            del self._in_progress[oldest]
            with suppress(OSError):
                oldest.shutdown(socket.SHUT_RDWR)
            self._on_refusal()

    async def _do_handshake(self, connection: socket.socket) -> None:
        seconds = self._bounds.tls_seconds
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                self._begin_http,
                connection,
                ssl=self._tls,
                ssl_handshake_timeout=seconds,
                ssl_shutdown_timeout=seconds,
            )
        except OSError:  # TLS, network, or deadline
            connection.close()
        except Exception:  # whatever it is, it concerns this connection alone
            log.exception("a handshake failed")
            connection.close()
        finally:
            self._in_progress.pop(connection, None)
