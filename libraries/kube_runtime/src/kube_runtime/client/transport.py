"""One pooled HTTP session to one API server: bytes in, bytes out.

Every request has a timeout, a rate limit and a limit on the size of the response, which must not be compressed.
Redirects are not followed, since they would carry the credentials to any host. A request that is refused with
Retry-After is repeated a few times after that pause; everything else is retried by the caller's queue.
"""

import logging
import math
import os
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from functools import lru_cache
from typing import Any

import aiohttp
import msgspec
from aiohttp.http_exceptions import HttpProcessingError
from yarl import URL

from kube_runtime.client.answers import error_from_answer
from kube_runtime.client.bodies import Fence, RequestBody
from kube_runtime.client.circuit import Circuit
from kube_runtime.client.json_limits import JsonLimits, check_json_aside
from kube_runtime.client.kubeconfig import Connection
from kube_runtime.client.limits import RequestLimits
from kube_runtime.client.options import ClientOptions
from kube_runtime.client.sessions import Sessions
from kube_runtime.client.tls import tls_context
from kube_runtime.exceptions import (
    AlreadyExists,
    ApiError,
    ClusterUnreachable,
    Conflict,
    Gone,
    NotFound,
    ResponseInvalid,
    ResponseTooLarge,
    ServerUnavailable,
    TooManyRequests,
    Unauthorized,
)
from kube_runtime.tracing import is_traced, part

log = logging.getLogger(__name__)

_DEFAULT_RETRY_SECONDS = 1.0
_LOG_SECONDS = 60.0
"""A server that refuses all requests until later is in the log once in this time."""
_ANSWERS = (NotFound, AlreadyExists, Conflict, Gone)
"""Refusals that callers expect: they say how things are, and nothing failed."""
_NOTHING = nullcontext()
_UNREACHABLE = (aiohttp.ClientError, HttpProcessingError, OSError, TimeoutError)
_OF_PROXIES = (aiohttp.ClientProxyConnectionError, aiohttp.ClientConnectorDNSError)


class ServerResponse(msgspec.Struct, frozen=True):
    """The response to a request that was accepted."""

    code: int
    body: bytes


class Transport:
    """Sends requests to one API server. Make it on a running event loop and close it."""

    def __init__(self, connection: Connection, options: ClientOptions) -> None:
        self.options = options
        self.circuit = Circuit(options.circuit)
        self._connection = connection
        self._server = connection.server
        url = URL(connection.server)
        self._host = f"{url.host_subcomponent}:{url.port}"  # an IPv6 address in brackets
        self._limits = RequestLimits(options.qps, options.burst, options.max_in_flight, options.max_in_background)
        self._fixed = {
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "User-Agent": options.user_agent,
            **connection.impersonation,
        }
        self._timeout = _time_limit(options.connect_timeout_seconds, total=options.timeout_seconds)
        self._stream_timeout = _time_limit(options.connect_timeout_seconds, read=options.watch_silence_seconds)
        self._tls = connection.tls
        self._ssl = True if connection.tls is None else tls_context(connection.tls)
        self._sessions = Sessions(options)
        self._logs_from = 0.0
        self._extra: dict[str, Any] = {"server_hostname": connection.server_name} if connection.server_name else {}
        if connection.proxy:
            self._extra["proxy"] = connection.proxy

    async def close(self) -> None:
        """Close every connection."""
        await self._sessions.close()

    async def request(
        self,
        method: str,
        target: str,
        *,
        body: bytes | None = None,
        content_type: str = "application/json",
        fence: Fence | None = None,
        probe: bool = False,
        accept: str | None = None,
        max_bytes: int | None = None,
    ) -> ServerResponse:
        """Send a request and return its answer, as a part of the present trace.

        `target` is path and query, already quoted. The fence is checked before each attempt and when it is sent. A
        probe is sent while the circuit is open, too. `accept` requests another representation.
        `max_bytes` is a lower limit than that of this client.
        Raises ApiError, ClusterUnreachable and ResponseInvalid, and whatever the fence raises.
        """
        refused_before = distrusted_before = False
        if not probe:
            self.circuit.check()
        attempt = 0
        with _part_of_trace(method, self._host, target):
            while True:
                attempt += 1
                used = self._ssl
                try:
                    return await self._attempt(method, target, body, content_type, fence, accept, max_bytes)
                except Unauthorized:
                    if refused_before or attempt >= self.options.attempts or not await self._renew_identity(used):
                        raise
                    refused_before = True
                except (TooManyRequests, ServerUnavailable) as error:
                    self._pause_or_raise(error, attempt)
                except ClusterUnreachable as error:
                    # The CA of a server that is not trusted may have been replaced; nothing was sent.
                    is_distrusted = isinstance(error.__cause__, aiohttp.ClientConnectorCertificateError)
                    if is_distrusted and not distrusted_before and await self._renew_tls(used):
                        distrusted_before = True
                    elif not _was_closed_while_idle(error, method, attempt):
                        self.circuit.failed(error)
                        raise

    @asynccontextmanager
    async def stream(self, target: str, *, is_second: bool = False) -> AsyncIterator[aiohttp.StreamReader]:
        """Open a watch and give its bytes as they come. Raises as `request` does, while open too."""
        await self._limits.wait()
        headers = {**self._fixed, **await self._connection.credentials.headers()}
        try:
            with self._sessions.lend() as session:
                opened = await session.get(
                    self._url(target),
                    headers=headers,
                    timeout=self._stream_timeout,
                    ssl=self._ssl,
                    allow_redirects=False,
                    **self._extra,
                )
            async with opened as response:
                self._count(str(response.status), "GET")
                self._check_encoding(response)
                if response.status != 200:
                    refusal = self._refusal(response, await self._body(response))
                    if isinstance(refusal, Unauthorized) and await self._renew_identity(self._ssl) and not is_second:
                        async with self.stream(target, is_second=True) as content:
                            yield content
                        return
                    raise refusal
                try:
                    yield response.content
                finally:
                    _cut(response)
        except aiohttp.SocketTimeoutError as error:
            self._count("<error>", "GET")
            raise ClusterUnreachable(
                f"watch on {self._host} received nothing for {self.options.watch_silence_seconds:g} s"
            ) from error
        except _UNREACHABLE as error:
            self._count("<error>", "GET")
            if isinstance(error, aiohttp.ClientConnectorCertificateError):
                await self._renew_tls(self._ssl)  # for the next attempt
            raise self._unreachable(error) from error

    async def lines(self, target: str) -> AsyncGenerator[list[bytes], None]:
        """Yield the lines of one watch, all that came at once together. Ends when the server ends the watch.

        Raises as `stream` does: ClusterUnreachable also for a watch that ends in the middle of a line.
        """
        max_bytes = self.options.max_event_bytes
        async with self.stream(target) as content:
            parts: list[bytes] = []
            pending = 0
            while chunk := await content.readany():
                head, newline, tail = chunk.rpartition(b"\n")
                if newline:
                    parts.append(head)
                    lines = b"".join(parts).split(b"\n")
                    parts, pending = ([tail], len(tail)) if tail else ([], 0)
                    yield [line for line in lines if line]
                else:
                    parts.append(chunk)
                    pending += len(chunk)
                if pending > max_bytes:
                    raise ResponseInvalid(f"a line of the watch is longer than {max_bytes} bytes")
            if pending:
                raise ClusterUnreachable("the watch ended in the middle of a line")

    async def _renew_identity(self, used: ssl.SSLContext | bool) -> bool:
        """Renew credentials that the server refused. Returns whether others may be accepted.

        A new client certificate comes with a context of its own, and with it come new connections: the pool keeps
        those of one context apart from those of another.
        """
        may_know = self._connection.credentials.refused()
        return await self._renew_tls(used) or may_know

    async def _renew_tls(self, used: ssl.SSLContext | bool) -> bool:
        """Read certificates again that somebody may have renewed: one's own, or the CA.

        Returns whether they are others than those that were used: another request may have read them first.
        """
        if self._connection.read_tls is None:
            return False
        tls = await self._connection.read_tls()
        if tls != self._tls:
            self._tls, self._ssl = tls, tls_context(tls)
        return self._ssl is not used

    def _pause_or_raise(self, error: TooManyRequests | ServerUnavailable, attempt: int) -> None:
        if isinstance(error, ServerUnavailable) and error.retry_after is None:
            raise error
        seconds = _DEFAULT_RETRY_SECONDS if error.retry_after is None else error.retry_after
        if (now := time.monotonic()) >= self._logs_from:
            self._logs_from = now + _LOG_SECONDS
            log.info("%s asks for a pause of %g s before the next request: %s", self._host, seconds, error)
        if attempt >= self.options.attempts or seconds > self.options.max_retry_after_seconds:
            raise error
        self._limits.pause(seconds)

    async def _attempt(
        self,
        method: str,
        target: str,
        body: bytes | None,
        content_type: str,
        fence: Fence | None,
        accept: str | None,
        max_bytes: int | None,
    ) -> ServerResponse:
        async with self._limits:
            headers = {**self._fixed, **await self._connection.credentials.headers()}
            if accept is not None:
                headers["Accept"] = accept
            if fence is not None:
                fence()
            try:
                with self._sessions.lend() as session:
                    async with session.request(
                        method,
                        self._url(target),
                        data=None if body is None else RequestBody(body, content_type, fence),
                        headers=headers,
                        timeout=self._timeout,
                        ssl=self._ssl,
                        allow_redirects=False,
                        **self._extra,
                    ) as response:
                        content = await self._body(response, max_bytes)
            except _UNREACHABLE as error:
                if fence is not None:
                    fence()  # where it was what stopped the request, say so
                self._count("<error>", method)
                raise self._unreachable(error) from error
        self.circuit.answered()
        self._count(str(response.status), method)
        if response.status >= 300:
            raise self._refusal(response, content)
        if self.options.max_values is not None and len(content) > self.options.max_values:  # fewer bytes have fewer
            limits = JsonLimits(len(content), self.options.max_values, max_depth=None)
            await check_json_aside(content, limits)
        return ServerResponse(response.status, content)

    async def _body(self, response: aiohttp.ClientResponse, max_bytes: int | None = None) -> bytes:
        self._check_encoding(response)
        limit = min(max_bytes or math.inf, self.options.max_response_bytes)
        chunk = await response.content.readany()
        if response.content.at_eof() and len(chunk) <= limit:  # as nearly every answer is: it came as a whole
            return chunk
        parts: list[bytes] = []
        size = 0
        memory = self.options.answer_memory
        with nullcontext() if memory is None else memory.reading(self._host) as grow:
            while chunk:
                size += len(chunk)
                if size > limit:
                    raise ResponseTooLarge(f"the answer is longer than {limit} bytes")
                if grow is not None:
                    grow(size)
                parts.append(chunk)
                chunk = await response.content.readany()
        return b"".join(parts)

    def _check_encoding(self, response: aiohttp.ClientResponse) -> None:
        """Refuse a compressed answer, of which a few bytes would become many. Raises ResponseInvalid."""
        encoding = response.headers.get("Content-Encoding", "identity").lower()
        if encoding != "identity":
            raise ResponseInvalid(f"the answer has the encoding {encoding[:40]!r}, which was not asked for")

    def _refusal(self, response: aiohttp.ClientResponse, body: bytes) -> ApiError | ResponseInvalid:
        if response.status < 400:
            return ResponseInvalid(f"unexpected status {response.status}: the Kubernetes API does not redirect")
        return error_from_answer(response.status, body, response.headers.get("Retry-After"))

    def _unreachable(self, error: BaseException) -> ClusterUnreachable:
        where = self._host
        if "proxy" in self._extra and isinstance(error, _OF_PROXIES):
            where = f"the proxy {error.host}:{error.port} of {where}"
        return ClusterUnreachable(f"no response from {where}: {_reason(error) or type(error).__name__}")

    def _url(self, target: str) -> URL:
        return URL(self._server + target, encoded=True)

    def _count(self, code: str, method: str) -> None:
        if self.options.metrics is not None:
            self.options.metrics.request(code, method, self._host)


def _part_of_trace(method: str, host: str, target: str) -> AbstractContextManager[None]:
    """Measure a request, named by its verb and resource: `PATCH configmaps`, `PATCH kymas/status`."""
    if not is_traced():
        return _NOTHING
    path = target.partition("?")[0]
    parts = path.split("/")[3 if path.startswith("/api/") else 4 :]  # after the version
    if parts[:1] == ["namespaces"] and len(parts) > 2:
        parts = parts[2:]
    what = "/".join([*parts[:1], *parts[2:3]]) or path
    attributes = {"http.request.method": method, "server.address": host, "url.path": path}
    return part(f"{method} {what}", attributes, expected=_ANSWERS)


@lru_cache(maxsize=64)
def _time_limit(
    connect: float | None, *, total: float | None = None, read: float | None = None
) -> aiohttp.ClientTimeout:
    """Return limits that are kept to the moment. aiohttp would round those beyond five seconds up to a whole one.

    Then the time of hundreds of silent clusters were up at once, and who waits behind them would wait for all.
    """
    return aiohttp.ClientTimeout(total=total, sock_connect=connect, sock_read=read, ceil_threshold=math.inf)


def _cut(response: aiohttp.ClientResponse) -> None:
    """Abort a connection whose response is not needed any more, without a TLS shutdown."""
    if response.connection is not None and response.connection.transport is not None:
        response.connection.transport.abort()


def _was_closed_while_idle(error: ClusterUnreachable, method: str, attempt: int) -> bool:
    """Tell whether a warm connection was closed or reset under a patch, which can be sent again at once.

    It does the same then, as what aiohttp itself sends again. That is one more attempt, beside those for a server that
    asks to try again later.
    """
    is_closed = isinstance(error.__cause__, aiohttp.ServerDisconnectedError | aiohttp.ClientOSError)
    was_open = is_closed and not isinstance(error.__cause__, aiohttp.ClientConnectorError)
    return was_open and method == "PATCH" and attempt == 1


def _reason(error: BaseException) -> str:
    """Return the reason of a failed request. The texts of aiohttp also show its objects, and repeat the address."""
    match error:
        case TimeoutError():
            return "timed out"
        case aiohttp.ClientConnectorCertificateError():
            return str(error.certificate_error)
        case aiohttp.ClientSSLError():
            return str(error.os_error)
        case aiohttp.ClientHttpProxyError():  # its text has the address of the proxy, with a password
            return f"the proxy answered {error.status} {error.message}"
        case aiohttp.ClientConnectorError():
            number = error.os_error.errno or 0
            return os.strerror(number) if number > 0 else str(error.os_error.strerror or error.os_error)
        case _:
            return str(error)
