"""Sends requests over several TLS connections, without pause or at a rate, and records the latency of each."""

import asyncio
import ssl
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

CONNECTIONS = 20


@dataclass(slots=True)
class Load:
    """The result of a load."""

    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    failures: int = 0
    first_failure: bytes = b""

    @property
    def per_second(self) -> float:
        """Answers per second."""
        return len(self.latencies) / self.seconds if self.seconds else 0.0

    def quantile_ms(self, share: float) -> float:
        """Return a quantile of the latencies, in milliseconds."""
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1000 if ordered else 0.0


@dataclass(frozen=True, slots=True)
class Source:
    """The requests of one connection, and its TLS context."""

    context: ssl.SSLContext
    requests: Iterator[bytes]


class _Connection(asyncio.Protocol):
    """Sends one request after another; expects short answers with a Content-Length."""

    def __init__(self, requests: Iterator[bytes], load: Load) -> None:
        self._requests = requests
        self._load = load
        self._stop_at = 0.0
        self._buffer = b""
        self._sent_at = 0.0
        self._rate_seconds = 0.0
        self._due = 0.0
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def pace(self, seconds: float, first: float) -> None:
        """Send at a rate; the latency of a late request counts from the time at which it was due."""
        self._rate_seconds, self._due = seconds, first

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport

    def begin(self, stop_at: float) -> None:
        """Send until `stop_at`."""
        self._stop_at = stop_at
        self._next()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, separator, body = self._buffer.partition(b"\r\n\r\n")
        if not separator:
            return
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        if len(body) < length:
            return
        self._buffer = b""
        now = time.perf_counter()
        self._load.latencies.append(now - self._sent_at)
        if not head.startswith(b"HTTP/1.1 200"):
            self._load.failures += 1
            self._load.first_failure = self._load.first_failure or head + body
        self._next()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.ended.done():
            if time.perf_counter() < self._stop_at:
                self._load.failures += 1
                self._load.first_failure = self._load.first_failure or f"connection lost: {exc}".encode()
            self.ended.set_result(None)

    def _next(self) -> None:
        now = time.perf_counter()
        if now >= self._stop_at:
            self._transport.close()
            return
        if not self._rate_seconds:
            self._send(now)
            return
        due = self._due
        self._due += self._rate_seconds
        if due <= now:
            self._send(due)
        else:
            asyncio.get_running_loop().call_later(due - now, self._send, due)

    def _send(self, since: float) -> None:
        self._sent_at = since
        if not self._transport.is_closing():
            self._transport.write(next(self._requests))


async def run_load(
    port: int, context: ssl.SSLContext, bodies: Sequence[bytes], path: str, *, seconds: float, per_second: float = 0.0
) -> Load:
    """Send the bodies in turn for `seconds`; without a rate, each request follows the previous answer."""
    source = Source(context, _requests(bodies, path))
    return await run_sources(port, [source] * CONNECTIONS, seconds=seconds, per_second=per_second)


async def run_sources(port: int, sources: Sequence[Source], *, seconds: float, per_second: float = 0.0) -> Load:
    """Send the requests of the sources, each source over its own connection."""
    load = Load()
    loop = asyncio.get_running_loop()
    opened = []
    for source in sources:
        connection = _Connection(source.requests, load)
        await loop.create_connection(
            lambda made=connection: made,  # type: ignore[misc]  # mypy cannot infer a lambda's default
            "127.0.0.1",
            port,
            ssl=source.context,
            server_hostname="skr-webhook.kyma-system.svc",
        )
        opened.append(connection)
    started = time.perf_counter()
    for number, connection in enumerate(opened):
        if per_second:
            connection.pace(len(opened) / per_second, started + number / per_second)
        connection.begin(started + seconds)
    async with asyncio.timeout(seconds + 30):
        await asyncio.gather(*(connection.ended for connection in opened))
    load.seconds = time.perf_counter() - started
    return load


def _requests(bodies: Sequence[bytes], path: str) -> Iterator[bytes]:
    ready = [
        f"POST {path} HTTP/1.1\r\nhost: skr-webhook.kyma-system.svc\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\n\r\n".encode()
        + body
        for body in bodies
    ]
    while True:
        yield from ready
