"""Slow, large and excess requests are closed while others are served."""

import asyncio
import socket
import time
import weakref
from collections.abc import AsyncIterator, Callable, MutableMapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from http_guard import Bounds, server_for
from tests.unit.http_guard.served import REQUEST, TIMEOUT, app, is_closed
from tests.waiting import eventually

BOUNDS = Bounds(connections=4, request_seconds=600, head_bytes=4096)
HASTY = replace(BOUNDS, request_seconds=0.3)
MUCH = 32 * 1024 * 1024


@dataclass(eq=False)
class Served:
    port: int = 0
    refusals: int = 0
    open_connections: Callable[[], int] = lambda: 0
    connections: list[asyncio.StreamWriter] = field(default_factory=list)

    def refused(self) -> None:
        self.refusals += 1

    async def connect(self, host: str = "127.0.0.1") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(host, self.port)
        self.connections.append(writer)
        return reader, writer


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    """A server that lets everybody take their time."""
    async with serving(BOUNDS) as running:
        yield running


@pytest.fixture
async def hasty() -> AsyncIterator[Served]:
    """A server that gives a request the third part of a second."""
    async with serving(HASTY) as running:
        yield running


@asynccontextmanager
async def serving(bounds: Bounds, host: str = "127.0.0.1", app: Any = app) -> AsyncIterator[Served]:
    served = Served()
    server = server_for(app, host, 0, bounds=bounds, on_refusal=served.refused)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(server.serve())
        await eventually(lambda: server.started)
        served.port = server.port
        served.open_connections = lambda: len(server.server_state.connections)
        yield served
        for writer in served.connections:
            writer.close()
        server.should_exit = True


async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, drops: bytes) -> bool:
    """Send byte after byte, each well within the deadline, until the other side closes; tell whether it did."""
    reading = asyncio.ensure_future(is_closed(reader))
    for drop in drops:
        writer.write(bytes([drop]))
        await asyncio.wait([reading], timeout=0.05)
        if reading.done():
            return await reading
    reading.cancel()
    return False


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
async def test_server_without_a_host_answers_over_ipv4_and_ipv6(address: str) -> None:
    async with serving(BOUNDS, host="") as running:
        reader, writer = await running.connect(address)
        writer.write(REQUEST)
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    ("begun", "drops"),
    [
        pytest.param(b"", b"", id="a connection without a request"),
        pytest.param(b"POST /x HT", b"", id="half a head"),
        pytest.param(b"", b"POST /x HTTP/1.1\r\nhost: here\r\n" + b"a: b\r\n" * 100, id="a head byte by byte"),
        pytest.param(b"", b"\r\n" * 400, id="empty lines"),
        pytest.param(REQUEST[:-1], b"", id="half a body"),
        pytest.param(
            b"POST /x HTTP/1.1\r\nhost: here\r\ncontent-length: 800\r\n\r\n", b"x" * 790, id="a body byte by byte"
        ),
        pytest.param(REQUEST + b"POST /x HT", b"", id="half a second request"),
        pytest.param(
            b"POST /early HTTP/1.1\r\nhost: here\r\ncontent-length: 800\r\n\r\n",
            b"x" * 790,
            id="a body that nobody wants any more",
        ),
    ],
)
async def test_slow_client_is_closed_and_others_are_served(hasty: Served, begun: bytes, drops: bytes) -> None:
    reader, writer = await hasty.connect()
    writer.write(begun)
    if drops:
        assert await drip(reader, writer, drops)
    else:
        assert await is_closed(reader)
    assert await eventually(lambda: is_served(hasty))


async def test_half_a_request_after_an_answered_one_is_closed(hasty: Served) -> None:
    reader, writer = await hasty.connect()
    writer.write(REQUEST)
    assert b"200 OK" in await reader.readuntil(b"ok")
    writer.write(REQUEST[:-1])
    assert await is_closed(reader)


async def is_served(hasty: Served) -> bool:
    """Tell whether a request is answered that is sent in time, as it is unless the machine stands still."""
    reader, writer = await hasty.connect()
    writer.write(REQUEST)
    try:
        return b"200 OK" in await reader.readuntil(b"ok")
    except (ConnectionError, asyncio.IncompleteReadError):
        return False


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(b"POST /x HTTP/1.1\r\nhost: here\r\nbig: " + b"x" * 5000 + b"\r\n\r\n", id="whole"),
        pytest.param(b"POST /x HTTP/1.1\r\nhost: here\r\nbig: " + b"x" * 5000, id="without an end"),
        pytest.param(b"POST /" + b"x" * 5000, id="a long path"),
    ],
)
async def test_too_large_head_is_refused(served: Served, head: bytes) -> None:
    reader, writer = await served.connect()
    writer.write(head)
    async with asyncio.timeout(TIMEOUT):
        assert b"400" in await reader.readline()


CHUNKED = b"POST /x HTTP/1.1\r\nhost: here\r\ntransfer-encoding: chunked\r\n"


@pytest.mark.parametrize(
    "trailer",
    [
        pytest.param(b"0\r\na: b\r\n\r\n", id="a field after the body"),
        pytest.param(b"0\r\na: " + b"x" * 5000, id="a field without an end"),
        pytest.param(b"0\r\n" + b"x" * 5000, id="a name without an end"),
        pytest.param(b"2;" + b"x" * 5000, id="an extension without an end"),
    ],
)
async def test_trailer_takes_no_memory(served: Served, trailer: bytes) -> None:
    """uvicorn would keep header fields there of any number and size, for as long as they come."""
    reader, writer = await served.connect()
    writer.write(CHUNKED + b"expect: 100-continue\r\n\r\n")
    async with asyncio.timeout(TIMEOUT):
        assert b"100" in await reader.readuntil(b"\r\n\r\n")  # the head was read, and by itself
        writer.write(trailer)
        assert b"400" in await reader.readline()


async def test_chunked_body_is_read(served: Served) -> None:
    reader, writer = await served.connect()
    for size in (1, 100, 100_000):
        writer.write(CHUNKED + b"\r\n" + 3 * (b"%x\r\n" % size + b"x" * size + b"\r\n") + b"0\r\n\r\n")
        assert b"200 OK" in await reader.readuntil(b"ok")


async def test_requests_follow_each_other_on_one_connection(served: Served) -> None:
    reader, writer = await served.connect()
    for _ in range(5):
        writer.write(REQUEST)
        assert b"200 OK" in await reader.readuntil(b"ok")


async def answering_much(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
    """Answer with more than the buffers of a connection take."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % MUCH)]})
    await send({"type": "http.response.body", "body": bytes(MUCH)})


async def test_client_that_reads_no_answer_is_closed() -> None:
    async with serving(HASTY, app=answering_much) as served:
        reader, writer = await served.connect()
        writer.write(REQUEST)
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        assert await eventually(lambda: served.open_connections() == 0)


async def test_answer_of_any_size_is_given_to_a_client_that_reads() -> None:
    async with serving(HASTY, app=answering_much) as served:
        reader, writer = await served.connect()
        writer.write(REQUEST)
        await reader.readuntil(b"\r\n\r\n")
        assert len(await reader.readexactly(MUCH)) == MUCH


async def test_answer_to_a_slow_client_may_take_longer_than_a_request() -> None:
    async with serving(HASTY, app=answering_much) as served:
        reader, writer = await served.connect()
        writer.write(REQUEST)
        await reader.readuntil(b"\r\n\r\n")
        began, left = time.monotonic(), MUCH
        while left:
            left -= len(await reader.readexactly(min(left, MUCH // 32)))
            await asyncio.sleep(HASTY.request_seconds / 8)
    assert time.monotonic() - began > 3 * HASTY.request_seconds


async def test_requests_that_wait_for_no_answer_take_no_memory() -> None:
    """uvicorn would keep any number of them, at 4 kB each, while the first one is answered."""
    answered = asyncio.Event()

    async def slow(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        await receive()
        await answered.wait()
        await app(scope, receive, send)

    async with serving(BOUNDS, app=slow) as served:
        _, writer = await served.connect()
        writer.write(REQUEST)
        assert await eventually(lambda: served.open_connections() == 1)
        writer.write(REQUEST)
        assert await eventually(lambda: served.open_connections() == 0)
        answered.set()


async def test_connection_that_asks_for_an_upgrade_is_answered_and_closed(caplog: pytest.LogCaptureFixture) -> None:
    """Some clients ask for HTTP/2 with their first request, and send the next one over the same connection."""
    async with serving(BOUNDS) as served:
        reader, writer = await served.connect()
        writer.write(b"GET /x HTTP/1.1\r\nhost: here\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n")
        async with asyncio.timeout(TIMEOUT):
            answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 200")
        assert b"connection: close" in answer
    assert not [each for each in caplog.messages if "upgrade" in each or "WebSocket" in each]


class Kept:
    """Something in the scope of a request."""


async def test_idle_connection_keeps_nothing_of_its_last_request() -> None:
    scopes: list[weakref.ref[Kept]] = []

    async def noting(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        scope["kept"] = Kept()
        scopes.append(weakref.ref(scope["kept"]))
        await app(scope, receive, send)

    async with serving(BOUNDS, app=noting) as served:
        reader, writer = await served.connect()
        for _ in range(2):
            writer.write(REQUEST)
            assert b"200 OK" in await reader.readuntil(b"ok")
        await eventually(lambda: [scope() for scope in scopes] == [None, None])


async def test_connection_above_the_maximum_is_closed_and_counted_if_all_are_busy(served: Served) -> None:
    kept = [await served.connect() for _ in range(BOUNDS.connections)]
    for reader, writer in kept:
        writer.write(REQUEST)
        await reader.readuntil(b"ok")
        writer.write(REQUEST[:-1])
    await asyncio.sleep(0.1)
    reader, _ = await served.connect()
    assert await is_closed(reader)
    assert served.refusals == 1
    for reader, writer in kept:
        writer.write(REQUEST[-1:])
        assert b"200 OK" in await reader.readuntil(b"ok")


async def test_connections_without_any_request_keep_nobody_out(served: Served) -> None:
    silent = [await served.connect() for _ in range(BOUNDS.connections)]
    assert await is_served(served)
    assert await is_closed(silent[0][0])
    assert served.refusals == 1, "its first request may have been on its way"


async def test_connection_above_the_maximum_replaces_the_one_that_is_idle_longest(served: Served) -> None:
    """Whoever holds all connections, with a request now and then, would keep out everybody else."""
    kept = [await served.connect() for _ in range(BOUNDS.connections)]
    for reader, writer in (*kept, kept[0]):
        writer.write(REQUEST)
        await reader.readuntil(b"ok")
    assert await is_served(served)
    assert await is_closed(kept[1][0])
    assert served.refusals == 1, "its next request may have been on its way"
    for reader, writer in (kept[0], *kept[2:]):
        writer.write(REQUEST)
        assert b"200 OK" in await reader.readuntil(b"ok")
