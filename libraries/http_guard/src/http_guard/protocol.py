"""One connection, with bounds on time and size.

One deadline covers a whole request, head and body: a client that sends one byte per second is never idle, but is
closed. The application bounds the size of the body, since it alone knows what it expects. As long may a client read
nothing of an answer that is too large for the buffers.

A request that begins before the one before it is answered is refused: uvicorn would keep any number of them.

If there are too many connections, the longest idle one is closed: otherwise whoever holds all of them, without
requests, would keep out everybody else.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

CLOSE_SECONDS = 0.1


class HeadTooLarge(Exception):
    """The head of a request is too large."""


class TrailerRefused(Exception):
    """A header field follows the body (a trailer). No client here needs one, and uvicorn would keep any number."""


class PipeliningRefused(Exception):
    """A request begins before the one before it is answered. No client here does that."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The maximum number of connections, seconds for a request to arrive, and bytes of its head.

    A TLS handshake may take `tls_seconds`, and so may the TLS shutdown; up to `handshakes` may be in progress.
    `receive_bytes` is the kernel's receive buffer of a connection, and so the maximum of one read.
    """

    connections: int
    request_seconds: float = 10.0
    tls_seconds: float = 5.0
    handshakes: int = 1000
    head_bytes: int = 32 * 1024
    receive_bytes: int = 16 * 1024


class GuardedProtocol(HttpToolsProtocol):
    """Closes a connection with a slow request or with a head that is too large, and idle ones above the maximum number.

    While all others are busy, a new connection above the maximum number is refused. `on_refusal` is called for each
    that is closed for their number: on an idle one, too, a request may be on its way, which clients do not repeat.
    """

    def __init__(
        self, *args: Any, bounds: Bounds, on_refusal: Callable[[], None] = lambda: None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self._bounds = bounds
        self._on_refusal = on_refusal
        self._deadline: asyncio.TimerHandle | None = None
        self._reading_deadline: asyncio.TimerHandle | None = None
        self._answering = False
        self._in_head = True
        self._progressed = False
        self._bytes_outside_body = 0
        self._requests_under_way = 0
        self.idle_since: float | None = None
        """When the connection began, or all requests were answered; None while one is under way."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # the signature of uvicorn
        """Accept the connection; if there are too many, close the longest idle one, or this one if all are busy."""
        super().connection_made(transport)
        if len(self.connections) > self._bounds.connections:
            self._on_refusal()
            if not close_longest_idle(self.connections):
                transport.abort()
                return
        self.idle_since = self.loop.time()
        self._start_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the deadlines."""
        self._cancel_deadline()
        self._cancel_reading_deadline()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Begin a deadline for the client to read: the buffers are full."""
        super().pause_writing()
        self._start_reading_deadline()

    def resume_writing(self) -> None:
        """Cancel the deadline: the client has read."""
        self._cancel_reading_deadline()
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        """Feed the parser, with a deadline for a request of which there is more to come."""
        if self.transport.is_closing():
            return
        self._progressed = False
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._deadline is None and not self._answering:
            self._start_deadline()
        if self._in_head or not self._progressed:
            self._bytes_outside_body += len(data)
            if self._bytes_outside_body > self._bounds.head_bytes:
                self.send_400_response("The head or the trailer of the request is too large.")

    def on_message_begin(self) -> None:
        """Begin a request. Raises PipeliningRefused, for which the parser answers 400."""
        if self._requests_under_way:
            raise PipeliningRefused
        self._in_head, self._bytes_outside_body = True, 0
        self._requests_under_way += 1
        self.idle_since = None
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Accept a header field. Raises TrailerRefused, for which the parser answers 400."""
        if not self._in_head:
            raise TrailerRefused
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Pass the request to the application. Raises HeadTooLarge, for which the parser answers 400."""
        self._in_head, self._progressed = False, True
        if sum(map(len, chain.from_iterable(self.headers))) + len(self.url) > self._bounds.head_bytes:
            raise HeadTooLarge
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Accept a part of the body."""
        self._progressed, self._bytes_outside_body = True, 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Cancel the deadline, unless the request was answered before its end: then it closes the connection."""
        self._progressed = True
        super().on_message_complete()
        if not self.cycle.response_complete:
            self._answering = True
            self._cancel_deadline()

    def on_response_complete(self) -> None:
        """Wait for the next request, without what uvicorn keeps of this one; it closes idle connections."""
        self._requests_under_way -= 1
        if not self._requests_under_way:
            self.idle_since = self.loop.time()
            if self._answering:  # it was read to its end
                self.cycle = self.scope = self.headers = None  # type: ignore[assignment]  # as before the first
        self._answering = False
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer and close the connection, in time even if the client reads nothing."""
        super().send_400_response(msg)
        if self._deadline is None:
            self._start_deadline()

    def _unsupported_upgrade_warning(self) -> None:
        """Close the connection after the answer: the parser reads no request after one that asks for an upgrade."""
        self.cycle.keep_alive = False

    def close_idle(self) -> None:
        """Close the connection, soon even if the client does not close it on its side."""
        self.idle_since = None
        self.transport.close()
        self.loop.call_later(CLOSE_SECONDS, self.transport.abort)

    def _start_deadline(self) -> None:
        self._deadline = self.loop.call_later(self._bounds.request_seconds, self.transport.abort)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _start_reading_deadline(self, left: int | None = None) -> None:
        """Close the connection once the client has read nothing for so long: a slow one may take long for a lot."""
        self._cancel_reading_deadline()
        now_left = self.transport.get_write_buffer_size()
        if left is not None and now_left >= left:
            self.transport.abort()
        else:
            self._reading_deadline = self.loop.call_later(
                self._bounds.request_seconds, self._start_reading_deadline, now_left
            )

    def _cancel_reading_deadline(self) -> None:
        if self._reading_deadline is not None:
            self._reading_deadline.cancel()
            self._reading_deadline = None


def close_longest_idle(connections: Iterable[object]) -> bool:
    """Close the connection that has had no request for longest; return whether there was one."""
    idle = [each for each in connections if isinstance(each, GuardedProtocol) and each.idle_since is not None]
    if not idle:
        return False
    min(idle, key=lambda each: each.idle_since or 0.0).close_idle()
    return True
