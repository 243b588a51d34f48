"""One connection, with bounds to its time and size.

A request has one deadline for all of it, head and body: a sender of one byte a second never looks idle, and is closed
all the same. The bound on a body's size is the application's, which alone knows what it expects.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class HeadTooLarge(Exception):
    """The head of a request is larger than it may be."""


class TrailerRefused(Exception):
    """A header field came after the body. None of ours sends any, and uvicorn would keep any number of them."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How many connections there may be, how long a request may take to arrive, and how large its head may be.

    A TLS handshake may take `tls_seconds`, and so may its end; so many `handshakes` may be under way.
    `receive_bytes` is how much of a connection's data waits in the kernel, and so how much is read at once.
    """

    connections: int
    request_seconds: float = 10.0
    tls_seconds: float = 5.0
    handshakes: int = 1000
    head_bytes: int = 32 * 1024
    receive_bytes: int = 16 * 1024


class GuardedProtocol(HttpToolsProtocol):
    """Closes a connection that is one too many, whose request is slow to arrive, or whose head is too large.

    `on_refusal` is told of each connection that was one too many.
    """

    def __init__(
        self, *args: Any, bounds: Bounds, on_refusal: Callable[[], None] = lambda: None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self._bounds = bounds
        self._on_refusal = on_refusal
        self._deadline: asyncio.TimerHandle | None = None
        self._answering = False
        self._in_head = True
        self._came_on = False
        self._bytes_beside_body = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Take the connection, or close it where there are too many."""
        super().connection_made(transport)
        if len(self.connections) > self._bounds.connections:
            self._on_refusal()
            transport.abort()
            return
        self._expect_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._expect_nothing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Feed the parser, under a deadline from a request's first byte to its last."""
        if self.transport.is_closing():
            return
        if self._deadline is None and not self._answering:
            self._expect_request()
        self._came_on = False
        super().data_received(data)
        if (self._in_head or not self._came_on) and not self.transport.is_closing():
            self._bytes_beside_body += len(data)
            if self._bytes_beside_body > self._bounds.head_bytes:
                self.send_400_response("The head of the request is too large, or what follows its body.")

    def on_message_begin(self) -> None:
        """Begin a request; one that follows in the same breath as another has its deadline too."""
        if self._deadline is None:
            self._expect_request()
        self._in_head, self._bytes_beside_body = True, 0
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header field. Raises TrailerRefused, which the parser turns into the answer 400."""
        if not self._in_head:
            raise TrailerRefused
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Have the request answered. Raises HeadTooLarge, which the parser turns into the answer 400."""
        self._in_head, self._came_on = False, True
        if sum(len(name) + len(value) for name, value in self.headers) + len(self.url) > self._bounds.head_bytes:
            raise HeadTooLarge
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        self._came_on, self._bytes_beside_body = True, 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Lift the deadline; that of a request that was answered before its end stays, and closes the connection."""
        self._came_on = True
        super().on_message_complete()
        if not self.cycle.response_complete:
            self._answering = True
            self._expect_nothing()

    def on_response_complete(self) -> None:
        """Wait for the next request; an idle connection is closed by uvicorn."""
        self._answering = False
        super().on_response_complete()

    def _expect_request(self) -> None:
        self._deadline = self.loop.call_later(self._bounds.request_seconds, self.transport.abort)

    def _expect_nothing(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
