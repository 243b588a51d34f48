"""A proxy between a client and a real API server that does to their talk what networks and busy servers do.

It understands as much of HTTP as it needs for that: it can answer in the server's place, ask the server for something
else than the client did, cut or silence watches, hold everything back, refuse connections, and change the lines of a
watch. Plain HTTP to the client, TLS to the server with whatever identity the server's kubeconfig has.
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
        """Tell whether it opens a watch."""
        return self.query.get("watch") == "true"

    @property
    def is_list(self) -> bool:
        """Tell whether it asks for a page of a list of ConfigMaps, the kind that the tests follow."""
        return self.method == "GET" and self.path.endswith("/configmaps") and not self.is_watch


@dataclass(frozen=True, slots=True)
class Answer:
    """What the client is told in the server's place."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


Rule = Callable[[Asked], Answer | None]
"""Gives the answer to a request, or None to leave that to others, and at last to the server."""


def status(code: int, reason: str, **headers: str) -> Answer:
    """Return a refusal as the API server words it. Underscores in a header's name stand for hyphens."""
    document = status_document(code, reason)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(code, msgspec.json.encode(document), {"Content-Type": "application/json", **named})


def status_document(code: int, reason: str) -> dict[str, Any]:
    """Return a Status that tells a failure."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f"the proxy says {reason}",
        "reason": reason,
        "code": code,
    }


@dataclass(eq=False, slots=True)
class _Watch:
    """One watch that is open: where its lines go, and whether they do."""

    response: web.StreamResponse
    asked: Asked
    silent: bool = False


class Proxy:
    """Stands before one API server. `start` makes one; everything about it may be changed while it runs."""

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
        self._port = free_port()  # nobody else is given it, also while it is closed

    @classmethod
    @asynccontextmanager
    async def start(cls, kubeconfig: Path, *, server: str | None = None) -> AsyncIterator["Proxy"]:
        """Run a proxy before the API server of a kubeconfig, with the identity in it."""
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
        """Where clients reach it."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def open_watches(self) -> int:
        """How many watches go through it now."""
        return len(self._watches)

    def kubeconfig(self, **user: str) -> dict[str, Any]:
        """Return a kubeconfig for clients that go through the proxy."""
        return {
            "current-context": "proxy",
            "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "user"}}],
            "clusters": [{"name": "proxy", "cluster": {"server": self.url}}],
            "users": [{"name": "user", "user": user}],
        }

    @contextmanager
    def answering(self, rule: Rule) -> Iterator[None]:
        """Answer by a rule while the block runs, before the rules that were there."""
        self._rules.insert(0, rule)
        try:
            yield
        finally:
            self._rules = [each for each in self._rules if each is not rule]

    def forget_rules(self) -> None:
        """Answer nothing by rule any more."""
        self._rules.clear()

    async def accept(self) -> None:
        """Take connections, always on the same port."""
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(self._http, "127.0.0.1", self._port)

    async def refuse(self) -> None:
        """Cut all connections and take no new ones, as a server that is not there."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        for connection in self._http.connections:
            if connection.transport is not None:
                connection.transport.abort()
        await self._http.shutdown(0)

    def stall(self) -> None:
        """Let nothing through any more, in either direction, and cut nothing."""
        self._flowing.clear()

    def resume(self) -> None:
        """Let everything through that was held back."""
        self._flowing.set()

    def silence_watches(self) -> None:
        """Keep the watches that are open as they are, and drop whatever the server says in them."""
        for watch in self._watches:
            watch.silent = True

    def cut_watches(self) -> None:
        """Break the connections of all watches that are open."""
        for watch in list(self._watches):
            _abort(watch)

    def cut_in_next_line(self) -> None:
        """Break the connection of the next watch that has something to say, in the middle of the line."""
        self._cuts_next_line = True

    async def say(self, line: bytes) -> None:
        """Put a line into every watch that is open."""
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
                request.transport.abort()  # what is behind broke it off, and so does the proxy
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
    """End connections whose TLS handshake was under way when nobody wanted them any more."""
    for _ in range(2):
        for _turn in range(4):
            await asyncio.sleep(0)
        for each in sockets:
            if each.fileno() >= 0:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)


def _abort(watch: _Watch) -> None:
    """Send what is written and end the connection without the end that HTTP wants."""
    transport = watch.response._req.transport if watch.response._req is not None else None
    if transport is not None:
        transport.close()
