"""Unfinished TLS handshakes are closed soon and keep out no other connection."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

import pytest
import uvloop

from http_guard import Bounds, server_for
from http_guard.server import EmbeddedServer
from kyma_certs import LeafRequest, create_ca, issue
from tests.unit.http_guard.served import REQUEST, TIMEOUT, app, is_closed
from tests.waiting import eventually

BOUNDS = Bounds(connections=40, tls_seconds=1.0, handshakes=4)
CLIENT_HELLO = b"\x16\x03\x01\x00\xc8\x01\x00\x00\xc4\x03\x03"
SOON = 30.0  # well before a handshake would be ended by asyncio itself


@dataclass(eq=False)
class Served:
    port: int
    trust: ssl.SSLContext
    refusals: int = 0
    open: list[asyncio.StreamWriter] = field(default_factory=list)

    async def knock(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a connection, and say nothing on it."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.open.append(writer)
        return reader, writer

    async def ask(self) -> bytes:
        """Send a request as anybody does; return the answer."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=self.trust)
        self.open.append(writer)
        writer.write(REQUEST)
        async with asyncio.timeout(TIMEOUT):
            return await reader.readuntil(b"ok")


@asynccontextmanager
async def serving(folder: Path, bounds: Bounds) -> AsyncIterator[Served]:
    now = datetime.now(UTC)
    ca = create_ca("ca", lifetime=timedelta(days=2), now=now)
    request = LeafRequest(common_name="server", ip_addresses=("127.0.0.1",), lifetime=timedelta(days=1))
    pair = issue(ca, request, now=now)
    (folder / "tls.crt").write_bytes(pair.certificate_pem)
    (folder / "tls.key").write_bytes(pair.key_pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    served = Served(0, ssl.create_default_context(cadata=ca.certificate_pem.decode()))

    def refused() -> None:
        served.refusals += 1

    server = server_for(app, "127.0.0.1", 0, bounds=bounds, tls=context, on_refusal=refused)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(server.serve())
        await eventually(lambda: server.started)
        served.port = server.port
        try:
            yield served
        finally:  # uvloop does not end while a connection is open
            for writer in served.open:
                writer.transport.abort()
            server.should_exit = True


Trial = Callable[[Served], Coroutine[Any, Any, None]]


class Attempt(Protocol):
    def __call__(self, trial: Trial, bounds: Bounds = ...) -> None: ...


@pytest.fixture(params=["asyncio", "uvloop"])
def attempt(request: pytest.FixtureRequest, tmp_path: Path) -> Attempt:
    """Have something tried on either event loop."""

    def run(trial: Trial, bounds: Bounds = BOUNDS) -> None:
        async def whole() -> None:
            async with serving(tmp_path, bounds) as served:
                await trial(served)

        loop = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop
        with asyncio.Runner(loop_factory=loop) as runner:
            runner.run(whole())

    return run


async def is_served(served: Served) -> bool:
    """Tell whether a request is answered whose handshake is done in time, as it is unless the machine stands still."""
    try:
        return (await served.ask()).startswith(b"HTTP/1.1 200")
    except (OSError, asyncio.IncompleteReadError):
        return False


@pytest.mark.parametrize(
    "begun",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(CLIENT_HELLO, id="the begin of a greeting"),
    ],
)
def test_stalled_handshake_is_closed_in_time(attempt: Attempt, begun: bytes) -> None:
    async def trial(served: Served) -> None:
        clock = asyncio.get_running_loop().time
        knocked = clock()
        reader, writer = await served.knock()
        writer.write(begun)
        await is_closed(reader, SOON)
        assert clock() - knocked > 0.9 * BOUNDS.tls_seconds
        assert await eventually(lambda: is_served(served))

    attempt(trial)


def test_handshake_byte_by_byte_has_one_deadline(attempt: Attempt) -> None:
    async def trial(served: Served) -> None:
        reader, writer = await served.knock()
        closing = asyncio.ensure_future(is_closed(reader, SOON))
        for byte in CLIENT_HELLO + bytes(180):
            writer.write(bytes([byte]))
            await asyncio.wait([closing], timeout=0.05)
            if closing.done():
                break
        assert closing.done(), "it was kept for as long as it sent something"
        await closing

    attempt(trial)


def test_slow_handshakes_do_not_keep_out_others(attempt: Attempt) -> None:
    """The oldest gives way, so that one which takes milliseconds is through before its turn comes."""

    async def trial(served: Served) -> None:
        slow = [await served.knock() for _ in range(BOUNDS.handshakes + 2)]
        await eventually(lambda: served.refusals >= 2)
        for reader, _ in slow[:2]:
            await is_closed(reader, SOON)
        for _ in range(3):
            assert (await served.ask()).startswith(b"HTTP/1.1 200")

    attempt(trial, replace(BOUNDS, tls_seconds=10 * TIMEOUT))  # so that none is closed for its own slowness


def test_simultaneous_connections_are_all_served(attempt: Attempt) -> None:
    """What is sent in the same breath as the end of a handshake is heard."""

    async def trial(served: Served) -> None:
        for _ in range(5):
            answers = await asyncio.gather(*(served.ask() for _ in range(4)))
            assert all(answer.startswith(b"HTTP/1.1 200") for answer in answers)

    attempt(trial, Bounds(connections=40, tls_seconds=TIMEOUT, handshakes=8))


def test_stop_of_the_server_ends_its_handshakes(attempt: Attempt) -> None:
    async def trial(served: Served) -> None:
        await served.knock()
        reader, writer = await served.knock()
        writer.close()
        await reader.read()

    attempt(trial)


async def test_connection_that_fails_in_an_unknown_way_ends_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin, failures = EmbeddedServer._begin_http, [ValueError("a mistake in the program")]  # noqa: SLF001 - its seam

    def fail_once(server: EmbeddedServer) -> asyncio.Protocol:
        if failures:
            raise failures.pop()
        return begin(server)

    monkeypatch.setattr(EmbeddedServer, "_begin_http", fail_once)
    async with serving(tmp_path, BOUNDS) as served:
        with pytest.raises((OSError, asyncio.IncompleteReadError)):
            await served.ask()
        assert failures == []
        assert (await served.ask()).endswith(b"ok")


@dataclass(eq=False)
class Records:
    """A client that has its TLS records in hand, so that it can send something else."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    incoming: ssl.MemoryBIO
    outgoing: ssl.MemoryBIO
    tls: ssl.SSLObject

    @classmethod
    async def of(cls, served: Served) -> "Records":
        reader, writer = await served.knock()
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = served.trust.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
        opened = cls(reader, writer, incoming, outgoing, tls)
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                writer.write(outgoing.read())
                incoming.write(await reader.read(65536))
        writer.write(outgoing.read())
        return opened

    def sealed(self, data: bytes) -> bytes:
        self.tls.write(data)
        return self.outgoing.read()


def half_of_it(record: bytes) -> bytes:
    return record[: len(record) // 2]


def with_another_end(record: bytes) -> bytes:
    return record[:-1] + bytes([record[-1] ^ 1])


def without_encryption(_: bytes) -> bytes:
    return REQUEST


@pytest.mark.parametrize("sent_of", [half_of_it, with_another_end, without_encryption])
def test_client_that_breaks_its_connection_is_no_error_of_the_server(
    attempt: Attempt, caplog: pytest.LogCaptureFixture, sent_of: Callable[[bytes], bytes]
) -> None:
    async def trial(served: Served) -> None:
        client = await Records.of(served)
        client.writer.write(sent_of(client.sealed(REQUEST)))
        client.writer.write_eof()
        await is_closed(client.reader, SOON)
        assert (await served.ask()).startswith(b"HTTP/1.1 200")

    attempt(trial)
    assert [each.getMessage() for each in caplog.records if each.levelname in {"WARNING", "ERROR"}] == []
