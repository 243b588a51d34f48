"""A server between a client and a good one, which lies, drips, never ends and breaks the rules of HTTP.

Which of its tricks an exchange gets is drawn from the seed in the path (a name like `s42`) and the number of the
exchange; a path without a seed is answered truthfully. The first line of the output is the port; each connection to
the bait, where its redirects lead, is a line `bait`.

Run by `python -m tests.attack.hostile_server http://127.0.0.1:1234`.
"""

import asyncio
import gzip
import random
import re
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from urllib.parse import urlsplit

import aiohttp
import msgspec
from yarl import URL

from tests.attack.grammar import hostile_bytes, hostile_json, hostile_value

SEED = re.compile(r"/(s\d+)(?:/|$)")
TIMEOUT_SECONDS = 15.0
"""How long it drips or is silent: longer than any client should wait."""
KEPT = frozenset({"content-type", "accept", "user-agent"})
MAX_HEAD_BYTES = 64 * 1024
STATUS_CODES = (204, 206, 301, 304, 400, 401, 403, 404, 409, 410, 418, 422, 429, 500, 503, 504, 599, 999)
PAUSES = ("0", "-1", "0.000001", "99999999999", "NaN", "Infinity", "Wed, 21 Oct 2099 07:28:00 GMT", "soon")
HEADS = (
    b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999\r\n\r\n{",
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\n{",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\n{}\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n",
    b"HTTP/9.9 two hundred\r\n\r\n",
    b"SSH-2.0-OpenSSH_9.9\r\n",
    b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03",
    b"HTTP/1.1 200 OK\r\nX: " + b"a" * 1_000_000 + b"\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n" + b"X: a\r\n" * 50_000 + b"\r\n",
    b"HTTP/1.1 102 Processing\r\n\r\n" * 10_000,
)


@dataclass(frozen=True)
class Truth:
    """What the good server answers. `lines` are those of a watch."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""
    lines: aiohttp.StreamReader | None = None


@dataclass(frozen=True)
class Exchange:
    draw: random.Random
    writer: asyncio.StreamWriter
    truth: Truth
    bait: str

    async def answer(self, status: int, body: bytes, **headers: str) -> None:
        await self.say(_head(status, {"Content-Length": str(len(body)), **headers}) + body)

    async def say(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()


async def truthful(it: Exchange) -> None:
    headers = {name: value for name, value in it.truth.headers.items() if name == "Content-Type"}
    if it.truth.lines is None:
        await it.answer(it.truth.status, it.truth.body, **headers)
    else:
        await _stream(it, lambda line: line)


async def altered(it: Exchange) -> None:
    """Change the document, or the lines of the watch."""
    if it.truth.lines is None:
        await it.answer(it.truth.status, _altered(it.truth.body, it.draw), **{"Content-Type": "application/json"})
    else:
        await _stream(it, lambda line: _altered(line, it.draw) if it.draw.random() < 0.7 else line)


async def refusing(it: Exchange) -> None:
    status = it.draw.choice(STATUS_CODES)
    document = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "no", "reason": "No", "code": 400}
    headers = {"Retry-After": it.draw.choice(PAUSES)} if it.draw.random() < 0.5 else {}
    await it.answer(status, hostile_json(document, it.draw), **headers)


async def redirecting(it: Exchange) -> None:
    await it.answer(it.draw.choice((301, 302, 303, 307, 308)), b"", Location=f"{it.bait}/apis")


async def paging(it: Exchange) -> None:
    """Answer a page after which there is always another one."""
    page = {"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1", "continue": "more"}, "items": []}
    await it.answer(200, msgspec.json.encode(page), **{"Content-Type": "application/json"})


async def dripping(it: Exchange) -> None:
    body = it.truth.body or b"{}"
    await it.say(_head(200, {"Content-Length": str(len(body) + 10_000)}))
    await _repeat(it, body[:1], every=0.05)


async def endless(it: Exchange) -> None:
    await it.say(_head(200, {"Transfer-Encoding": "chunked", "Content-Type": "application/json"}))
    piece = it.draw.choice((b" ", b"[", b"{}\n", b"x")) * 65_536
    await _repeat(it, b"%x\r\n%s\r\n" % (len(piece), piece), every=0.0)


async def expanding(it: Exchange) -> None:
    await it.answer(200, _bomb(), **{"Content-Encoding": "gzip", "Content-Type": "application/json"})


@cache
def _bomb() -> bytes:
    return gzip.compress(bytes(64 * 1024 * 1024))


async def cut(it: Exchange) -> None:
    body = it.truth.body or b"{}"
    await it.say(_head(it.truth.status, {"Content-Length": str(len(body))}) + body[: len(body) // 2])


async def breaking_rules(it: Exchange) -> None:
    await it.say(it.draw.choice(HEADS))


async def silent(_: Exchange) -> None:
    await asyncio.sleep(TIMEOUT_SECONDS)


TRICKS: tuple[tuple[Callable[[Exchange], Awaitable[None]], int], ...] = (
    (truthful, 12),
    (altered, 12),
    (refusing, 4),
    (redirecting, 1),
    (paging, 2),
    (cut, 2),
    (breaking_rules, 2),
    (dripping, 1),
    (endless, 1),
    (expanding, 1),
    (silent, 1),
)
"""What it may do, and how often."""


@dataclass(eq=False)
class HostileServer:
    upstream: str
    session: aiohttp.ClientSession
    bait: str
    exchanges: Counter[str] = field(default_factory=Counter)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of a connection until a trick ends it."""
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, aiohttp.ClientError):
            while await self._exchange(reader, writer):
                pass
        writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, target, _ = head[0].split(" ", 2)
        headers = dict(line.split(": ", 1) for line in head[1:] if ": " in line)
        size = next((int(value) for name, value in headers.items() if name.lower() == "content-length"), 0)
        body = await reader.readexactly(size) if size else b""
        seed = SEED.search(target.partition("?")[0])
        name = seed[1] if seed is not None else ""
        self.exchanges[name] += 1
        draw = random.Random(f"{name}/{self.exchanges[name]}")  # noqa: S311 - repeatable, and no secret
        tricks = TRICKS if name else TRICKS[:1]
        trick = draw.choices([each for each, _ in tricks], [often for _, often in tricks])[0]
        async with self._told(method, target, headers, body) as truth:
            await trick(Exchange(draw, writer, truth, self.bait))
            return trick in {truthful, altered, refusing, paging, redirecting} and truth.lines is None

    def _told(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> "_Asking":
        kept = {
            name: value for name, value in headers.items() if name.lower() in {"content-type", "accept", "user-agent"}
        }
        url = URL(f"{self.upstream}{target}", encoded=True)
        return _Asking(self.session, method, url, kept, body, is_watch="watch=true" in target)


@dataclass(eq=False)
class _Asking:
    """An exchange with the good server."""

    session: aiohttp.ClientSession
    method: str
    url: URL
    headers: Mapping[str, str]
    body: bytes
    is_watch: bool

    async def __aenter__(self) -> Truth:
        self.response = await self.session.request(
            self.method, self.url, headers=self.headers, data=self.body or None, allow_redirects=False
        )
        if self.is_watch and self.response.status == 200:
            return Truth(200, self.response.headers, lines=self.response.content)
        return Truth(self.response.status, self.response.headers, await self.response.read())

    async def __aexit__(self, *_: object) -> None:
        self.response.close()


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} Whatever\r\n{lines}\r\n".encode("latin-1")


def _altered(body: bytes, draw: random.Random) -> bytes:
    try:
        return hostile_json(msgspec.json.decode(body), draw) if draw.random() < 0.9 else hostile_value(draw)
    except msgspec.DecodeError:
        return hostile_bytes(body, draw)


async def _stream(it: Exchange, change: Callable[[bytes], bytes]) -> None:
    assert it.truth.lines is not None
    await it.say(_head(200, {"Transfer-Encoding": "chunked", "Content-Type": "application/json"}))
    async for line in it.truth.lines:
        if told := change(line.rstrip(b"\n")):
            await it.say(b"%x\r\n%s\n\r\n" % (len(told) + 1, told))
    await it.say(b"0\r\n\r\n")


async def _repeat(it: Exchange, piece: bytes, *, every: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while True:
                await it.say(piece)
                await asyncio.sleep(every)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def _main(upstream: str) -> None:
    async def on_bait(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _say("bait")
        writer.close()

    trap = await asyncio.start_server(on_bait, "127.0.0.1", 0)
    bait = f"http://127.0.0.1:{trap.sockets[0].getsockname()[1]}"
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=10)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        server = HostileServer(f"http://{urlsplit(upstream).netloc}", session, bait)
        listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, limit=MAX_HEAD_BYTES)
        _say(str(listening.sockets[0].getsockname()[1]))
        await listening.serve_forever()


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1]))
