"""A proxy between a client and a real API server that causes the faults of networks and busy servers.

It can answer instead of the server, send another request to the server than the client did, abort or silence watches,
hold all traffic back, refuse connections, and change the lines of a watch. It speaks plain HTTP to the client, and TLS
to the server with the identity of the server's kubeconfig.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import aiohttp
import msgspec
from aiohttp import web
from yarl import URL

from kube_runtime.client.kubeconfig import KubeconfigPolicy, connection_from_kubeconfig
from kube_runtime.client.tls import tls_context
from kyma_local.ports import free_port
from tests.kubeconfigs import kubeconfig

_OF_THE_CONNECTION = frozenset({"connection", "content-length", "host", "keep-alive", "transfer-encoding"})


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, as the client sent it."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str] = field(repr=False)

    @property
    def is_watch(self) -> bool:
        return self.query.get("watch") == "true"

    @property
    def is_list(self) -> bool:
        """Tell whether it requests a page of a list of ConfigMaps, the kind that the tests watch."""
        return self.method == "GET" and self.path.endswith("/configmaps") and not self.is_watch


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer to the client instead of the server's."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


Rule = Callable[[Asked], Answer | None]
"""Returns the answer to a request, or None if other rules, and finally the server, are to answer."""


def status(code: int, reason: str, **headers: str) -> Answer:
    """Return a refusal in the format of the API server. Underscores in a header's name stand for hyphens."""
    document = status_document(code, reason)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(code, msgspec.json.encode(document), {"Content-Type": "application/json", **named})


def status_document(code: int, reason: str) -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f"answered by the proxy: {reason}",
        "reason": reason,
        "code": code,
    }


@dataclass(eq=False, slots=True)
class _Watch:
    """One open watch: its response, and whether lines are dropped."""

    response: web.StreamResponse
    asked: Asked
    silent: bool = False


class Proxy:
    """A proxy for one API server, created by `start`. All attributes may be changed while it runs."""

    def __init__(self, server: str, session: aiohttp.ClientSession) -> None:
        self.asked: list[Asked] = []
        self.change_target: Callable[[Asked], Mapping[str, str]] = lambda asked: asked.query
        self.delay: Callable[[Asked], float] = lambda _asked: 0.0
        self.change_line: Callable[[bytes], bytes] = lambda line: line
        self._server = server
        self._session = session
        self._rules: list[Rule] = []
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._cuts_next_line = False
        self._watches: set[_Watch] = set()
        self._http = web.Server(self._serve, handler_cancellation=True, access_log=None, lingering_time=0)
        self._listener: asyncio.Server | None = None
        self._port = free_port()  # reserved, also while the listener is closed

    @classmethod
    @asynccontextmanager
    async def start(cls, kubeconfig: Path, *, server: str | None = None) -> AsyncIterator["Proxy"]:
        """Run a proxy for the API server of a kubeconfig, with the identity of the kubeconfig."""
        behind = await connection_from_kubeconfig(kubeconfig, KubeconfigPolicy.permissive())
        tls = True if behind.tls is None else tls_context(behind.tls)
        sockets: list[socket.socket] = []

        def remembered(address: tuple[Any, ...]) -> socket.socket:
            sockets.append(socket.socket(*address[:3]))
            return sockets[-1]

        connector = aiohttp.TCPConnector(limit=0, ssl=tls, socket_factory=remembered)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=60)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False) as session:
            proxy = cls(server or behind.server, session)
            await proxy.accept()
            try:
                yield proxy
            finally:
                await proxy.refuse()
        await _end(sockets)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def open_watches(self) -> int:
        return len(self._watches)

    def kubeconfig(self, **user: str) -> dict[str, Any]:
        return kubeconfig(user, server=self.url)

    @contextmanager
    def answering(self, rule: Rule) -> Iterator[None]:
        """Apply a rule while the block runs, before the existing rules."""
        self._rules.insert(0, rule)
        try:
            yield
        finally:
            self._rules = [each for each in self._rules if each is not rule]

    def forget_rules(self) -> None:
        self._rules.clear()

    async def accept(self) -> None:
        """Accept connections, always on the same port."""
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(self._http, "127.0.0.1", self._port)

    async def refuse(self) -> None:
        """Abort all connections and accept no new ones, like a server that is down."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        for connection in self._http.connections:
            if connection.transport is not None:
                connection.transport.abort()
        await self._http.shutdown(0)

    def stall(self) -> None:
        """Hold all traffic back, in both directions, and keep connections open."""
        self._flowing.clear()

    def resume(self) -> None:
        """Let all traffic through that was held back."""
        self._flowing.set()

    def silence_watches(self) -> None:
        """Keep the open watches open, and drop all lines of the server in them."""
        for watch in self._watches:
            watch.silent = True

    def cut_watches(self) -> None:
        for watch in list(self._watches):
            _abort(watch)

    def cut_in_next_line(self) -> None:
        """Abort the connection of the next watch that has a line, in the middle of the line."""
        self._cuts_next_line = True

    async def say(self, line: bytes) -> None:
        """Write a line to every open watch."""
        for watch in list(self._watches):
            await watch.response.write(line + b"\n")

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        asked = Asked(request.method, request.path, dict(request.query), dict(request.headers))
        self.asked.append(asked)
        await self._flowing.wait()
        await asyncio.sleep(self.delay(asked))
        for rule in list(self._rules):
            answer = rule(asked)
            if answer is not None:
                return web.Response(status=answer.status, body=answer.body, headers=answer.headers)
        body = await request.read()
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _OF_THE_CONNECTION}
        try:
            async with self._session.request(
                asked.method, self._target(asked), data=body or None, headers=headers, allow_redirects=False
            ) as answered:
                return await self._pass_on(request, asked, answered)
        except aiohttp.ClientError:
            if request.transport is not None:
                request.transport.abort()  # the server aborted the connection, and so does the proxy
            raise asyncio.CancelledError from None

    async def _pass_on(
        self, request: web.BaseRequest, asked: Asked, answered: aiohttp.ClientResponse
    ) -> web.StreamResponse:
        headers = {name: value for name, value in answered.headers.items() if name.lower() not in _OF_THE_CONNECTION}
        if not asked.is_watch or answered.status != 200:
            content = await answered.read()
            await self._flowing.wait()
            return web.Response(status=answered.status, body=content, headers=headers)
        response = web.StreamResponse(status=200, headers=headers)
        await response.prepare(request)
        watch = _Watch(response, asked)
        self._watches.add(watch)
        try:
            await self._pass_lines(watch, answered.content)
        finally:
            self._watches.discard(watch)
        await response.write_eof()
        return response

    async def _pass_lines(self, watch: _Watch, content: aiohttp.StreamReader) -> None:
        parts: list[bytes] = []
        while chunk := await content.readany():
            head, newline, tail = chunk.rpartition(b"\n")
            if not newline:
                parts.append(chunk)
                continue
            lines = b"".join((*parts, head)).split(b"\n")
            parts = [tail] if tail else []
            await self._flowing.wait()
            for line in lines:
                if self._cuts_next_line:
                    self._cuts_next_line = False
                    await watch.response.write(line[: len(line) // 2])
                    _abort(watch)
                if not watch.silent:
                    await watch.response.write(self.change_line(line) + b"\n")

    def _target(self, asked: Asked) -> URL:
        query = self.change_target(asked)
        return URL(f"{self._server}{asked.path}?{urlencode(query)}", encoded=True)


async def _end(sockets: list[socket.socket]) -> None:
    """Close connections whose TLS handshake was still under way."""
    for _ in range(2):
        for _turn in range(4):
            await asyncio.sleep(0)
        for each in sockets:
            if each.fileno() >= 0:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)


def _abort(watch: _Watch) -> None:
    """Send what is written, and close the connection without the end of the HTTP response."""
    transport = watch.response._req.transport if watch.response._req is not None else None  # noqa: SLF001 - aiohttp has no other way to break a response off
    if transport is not None:
        transport.close()
