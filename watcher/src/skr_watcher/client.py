"""An HTTP/1.1 client for one server over TLS, with bounds on all that it receives.

Admission and delivery share one event loop, so a request must cost little: a general client takes ten times the CPU
time. This one sends what it is given, never follows, decodes or stores anything, and opens one connection at a time.

    RequestFailed           no usable response
    ├── ConnectError        no connection: name, network or TLS
    ├── ConnectionLost      the connection was closed before the response was complete
    ├── ResponseTimeout     the response was not complete in time
    └── ResponseRefused     not HTTP, encoded, or its head is too large
"""

import asyncio
import codecs
import socket
import ssl
from dataclasses import dataclass

import httptools

CONNECT_SECONDS = 10.0
ADDRESS_SECONDS = 3.0
RESPONSE_SECONDS = 10.0
IDLE_SECONDS = 60.0  # servers close idle connections after 75 s and more
MAX_RESPONSE_BYTES = 16 * 1024
MAX_BODY_BYTES = 4 * 1024


class RequestFailed(Exception):
    """A request has no usable response. The server may have received the request nevertheless."""


class ConnectError(RequestFailed):
    """No connection: the name was not resolved, or TCP or TLS failed."""


class ConnectionLost(RequestFailed):
    """The connection was closed before the response was complete."""


class ResponseTimeout(RequestFailed):
    """The response was not complete in time, even if each byte was."""


class ResponseRefused(RequestFailed):
    """The response is not HTTP, is encoded, or its head is too large."""


@dataclass(frozen=True, slots=True)
class Response:
    """Status, header fields by their names in lower case, and the first bytes of the body."""

    status: int
    fields: dict[str, str]
    body: bytes


class EventClient:
    """Sends requests over kept connections to one server. `address` is host:port."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._address = address
        self._host, self._port = host.strip("[]"), int(port)
        self._kept: list[_Connection] = []
        self._opening = asyncio.Lock()
        self._failed_at = -1.0
        self._failure = ""
        codecs.lookup("idna")  # TLS encodes the host by it; its import would take milliseconds of the first connection

    async def post(self, path: str, fields: dict[str, str], body: bytes, tls: ssl.SSLContext) -> Response:
        """Send a POST over a connection that was made with this context. Raises RequestFailed."""
        head = {"Host": self._address, "Accept-Encoding": "identity", **fields, "Content-Length": str(len(body))}
        lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
        connection = self._take_kept(tls) or await self._open(tls)
        try:
            async with asyncio.timeout(RESPONSE_SECONDS):
                response = await connection.exchange(f"POST {path} HTTP/1.1\r\n{lines}\r\n".encode() + body)
        except TimeoutError:
            raise ResponseTimeout(f"request to {self._address} timed out after {RESPONSE_SECONDS:g} s") from None
        if connection.usable:
            self._kept.append(connection)
        return response

    def close(self) -> None:
        """Close the connections that are not in use."""
        while self._kept:
            self._kept.pop().close()

    def _take_kept(self, tls: ssl.SSLContext) -> "_Connection | None":
        """Return the connection that was used last, so that a quiet client keeps only one."""
        oldest = asyncio.get_running_loop().time() - IDLE_SECONDS
        while self._kept:
            connection = self._kept.pop()
            if connection.usable and connection.tls is tls and connection.used_at > oldest:
                return connection
            connection.close()
        return None

    async def _open(self, tls: ssl.SSLContext) -> "_Connection":
        """Open a connection. Raises ConnectError, also to those that were waiting while an attempt failed."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with self._opening:
            if self._failed_at >= began:
                raise ConnectError(self._failure)
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    return self._take_kept(tls) or await self._connect(tls)
            except (OSError, ValueError) as error:  # some names no resolver is asked for
                self._failed_at = loop.time()
                self._failure = f"cannot connect to {self._address}: {error or 'timed out'}"
                raise ConnectError(self._failure) from None

    async def _connect(self, tls: ssl.SSLContext) -> "_Connection":
        """Try each address of the host in turn. Raises OSError."""
        loop = asyncio.get_running_loop()
        failure: OSError = OSError("no address")
        for family, _, _, _, address in await loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM):
            try:
                async with asyncio.timeout(ADDRESS_SECONDS):
                    _, connection = await loop.create_connection(
                        lambda: _Connection(tls),
                        str(address[0]),
                        self._port,
                        family=family,
                        ssl=tls,
                        server_hostname=self._host,
                    )
                    return connection
            except OSError as error:  # of the network, of TLS, or TimeoutError
                failure = error
        raise failure


class _Connection(asyncio.Protocol):
    """One connection with one request at a time; closed as soon as its state is uncertain."""

    def __init__(self, tls: ssl.SSLContext) -> None:
        self.tls = tls
        self.used_at = 0.0
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._response: asyncio.Future[Response] | None = None
        self._fields: dict[str, str] = {}
        self._begin()

    @property
    def usable(self) -> bool:
        """Whether another request may be sent."""
        return self._transport is not None and not self._transport.is_closing()

    async def exchange(self, request: bytes) -> Response:
        """Send a request and wait for its response. Raises RequestFailed; the connection is closed then."""
        if self._transport is None or self._transport.is_closing():
            raise ConnectionLost("the connection was closed before the request")
        self._begin()
        self._response = self._loop.create_future()
        self._transport.write(request)
        try:
            return await self._response
        except BaseException:
            self.close()
            raise
        finally:
            self._response, self.used_at = None, self._loop.time()

    def close(self) -> None:
        """Close at once: no response is awaited, or none that is of use."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = transport  # type: ignore[assignment]  # of a stream, it is a Transport

    def data_received(self, data: bytes) -> None:
        """Parse a part of the response; close a connection with bytes that nobody asked for."""
        if self._response is None or self._response.done():
            self.close()
            return
        self._received += len(data)
        try:
            self._parser.feed_data(data[:MAX_RESPONSE_BYTES])
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._refuse(f"invalid response: {error}")
        if self._received > MAX_RESPONSE_BYTES or len(self._body) > MAX_BODY_BYTES:
            self._end_early()

    def connection_lost(self, _: Exception | None) -> None:
        """End a response whose end is that of the connection; any other has failed."""
        self._transport = None
        if self._response is None or self._response.done():
            return
        if self._status and not self._fields.keys() & {"content-length", "transfer-encoding"}:
            self._finish()
        else:
            self._response.set_exception(ConnectionLost("the connection was closed before the response was complete"))

    def on_message_begin(self) -> None:
        """Begin a response, or the final one after those with a status of 1xx; called by the parser, as all below."""
        self._fields, self._status = {}, 0
        if self._response is None or self._response.done():
            self.close()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header field."""
        self._fields[name.decode("latin-1").lower()] = value.decode("latin-1").strip()

    def on_headers_complete(self) -> None:
        """Refuse a response in an encoding: none was asked for, and its size is not that of its content."""
        status = self._parser.get_status_code()
        if status < 200:
            return
        self._status = status
        if self._fields.get("content-encoding", "identity").lower() != "identity":
            self._refuse("the response has a Content-Encoding")
        elif self._fields.get("transfer-encoding", "chunked").lower() != "chunked":
            self._refuse("the response has a Transfer-Encoding other than chunked")

    def on_body(self, body: bytes) -> None:
        """Keep a part of the body."""
        self._body += body

    def on_message_complete(self) -> None:
        """Pass the response on, and keep the connection if the server does."""
        if self._status:
            self._finish()
            if not self._parser.should_keep_alive():
                self.close()

    def _begin(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._fields, self._status = {}, 0
        self._body = bytearray()
        self._received = 0

    def _finish(self) -> None:
        if self._response is not None and not self._response.done():
            self._response.set_result(Response(self._status, self._fields, bytes(self._body[:MAX_BODY_BYTES])))

    def _refuse(self, problem: str) -> None:
        if self._response is not None and not self._response.done():
            self._response.set_exception(ResponseRefused(problem))
        self.close()

    def _end_early(self) -> None:
        """Take what there is of a long body; the rest is not read."""
        if self._status:
            self._finish()
        else:
            self._refuse(f"the head of the response is longer than {MAX_RESPONSE_BYTES} bytes")
        self.close()
