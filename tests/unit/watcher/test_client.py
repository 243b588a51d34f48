"""The client keeps, reads and believes little of what a server sends, whatever that is."""

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kyma_certs import LeafRequest, create_ca, issue
from skr_watcher import client as client_module
from skr_watcher.client import (
    ConnectError,
    ConnectionLost,
    EventClient,
    RequestFailed,
    Response,
    ResponseRefused,
    ResponseTimeout,
    _Connection,
)

TIMEOUT = 60.0
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nContent-Type: text/plain\r\n\r\nok"


@dataclass(eq=False)
class Server:
    """Sends the given bytes for each request, one after another; then closes the connection, if it is to."""

    answers: list[bytes]
    closes: bool = False
    port: int = 0
    connections: int = 0
    requests: list[bytes] = field(default_factory=list)
    open: list[asyncio.StreamWriter] = field(default_factory=list)

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open.append(writer)
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
                self.requests.append(head + await reader.readexactly(length))
                writer.write(self.answers.pop(0) if self.answers else OK)
                await writer.drain()
                if self.closes:
                    writer.close()
                    return


@dataclass(frozen=True)
class Contexts:
    server: ssl.SSLContext
    client: Callable[[], ssl.SSLContext]


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> Contexts:
    now, folder = datetime.now(UTC), tmp_path_factory.mktemp("tls")
    ca = create_ca("ca", lifetime=timedelta(days=2), now=now)
    request = LeafRequest(common_name="server", ip_addresses=("127.0.0.1",), lifetime=timedelta(days=1))
    pair = issue(ca, request, now=now)
    cert, key = Path(folder / "tls.crt"), Path(folder / "tls.key")
    cert.write_bytes(pair.certificate_pem)
    key.write_bytes(pair.key_pem)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(cert, key)
    return Contexts(server, lambda: ssl.create_default_context(cadata=ca.certificate_pem.decode()))


@asynccontextmanager
async def serving(
    contexts: Contexts, *answers: bytes, closes: bool = False
) -> AsyncGenerator[tuple[Server, EventClient]]:
    server = Server(list(answers), closes)
    listening = await asyncio.start_server(server, "127.0.0.1", 0, ssl=contexts.server)
    server.port = listening.sockets[0].getsockname()[1]
    client = EventClient(f"127.0.0.1:{server.port}")
    try:
        async with asyncio.timeout(TIMEOUT):
            yield server, client
    finally:
        client.close()
        for writer in server.open:
            writer.transport.abort()
        listening.close()


async def post(client: EventClient, tls: ssl.SSLContext, body: bytes = b"{}") -> Response:
    return await client.post("/v2/m/event", {"Content-Type": "application/json"}, body, tls)


async def test_request_and_response_are_what_was_given(contexts: Contexts) -> None:
    async with serving(contexts) as (server, client):
        response = await post(client, contexts.client(), b"body")
        assert response == Response(200, {"content-length": "2", "content-type": "text/plain"}, b"ok")
        lines = server.requests[0].split(b"\r\n")
        assert lines[0] == b"POST /v2/m/event HTTP/1.1"
        assert f"Host: 127.0.0.1:{server.port}".encode() in lines
        assert lines[-1] == b"body"


async def test_connection_is_kept_and_a_single_one_suffices_for_a_quiet_client(contexts: Contexts) -> None:
    async with serving(contexts) as (server, client):
        tls = contexts.client()
        for _ in range(5):
            await post(client, tls)
        assert (server.connections, len(server.requests)) == (1, 5)


async def test_connection_is_not_used_for_another_certificate(contexts: Contexts) -> None:
    async with serving(contexts) as (server, client):
        await post(client, contexts.client())
        await post(client, contexts.client())
        assert server.connections == 2


async def test_requests_at_once_have_a_connection_each(contexts: Contexts) -> None:
    async with serving(contexts) as (server, client):
        tls = contexts.client()
        answers = await asyncio.gather(*(post(client, tls) for _ in range(8)))
        assert [answer.status for answer in answers] == [200] * 8
        assert 1 <= server.connections <= 8


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(OK + OK, id="two responses"),
        pytest.param(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n", id="close"),
        pytest.param(b"HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n", id="HTTP/1.0"),
        pytest.param(b"HTTP/1.1 200 OK\r\ncontent-length: 9999999\r\n\r\n" + b"x" * 20_000, id="a long body"),
        pytest.param(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5000\r\n" + b"x" * 20_480, id="a chunk"),
    ],
)
async def test_connection_is_not_kept_if_more_may_come(contexts: Contexts, answer: bytes) -> None:
    async with serving(contexts, answer) as (server, client):
        tls = contexts.client()
        response = await post(client, tls)
        assert response.status == 200
        assert len(response.body) <= client_module.MAX_BODY_BYTES
        assert (await post(client, tls)).status == 200
        assert server.connections == 2


async def test_response_that_ends_with_its_connection_is_complete(contexts: Contexts) -> None:
    async with serving(contexts, b"HTTP/1.1 503 No\r\n\r\nlater", closes=True) as (_, client):
        response = await post(client, contexts.client())
        assert (response.status, response.body) == (503, b"later")


async def test_informational_responses_are_passed_over(contexts: Contexts) -> None:
    async with serving(contexts, b"HTTP/1.1 103 Hints\r\nlink: a\r\n\r\n" * 3 + OK) as (_, client):
        assert (await post(client, contexts.client())).status == 200


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"SSH-2.0-OpenSSH\r\n", id="not HTTP"),
        pytest.param(b"HTTP/1.1 200 OK\r\na: " + b"x" * 40_000, id="a header without an end"),
        pytest.param(b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 9_000, id="headers without an end"),
        pytest.param(b"HTTP/1.1 100 Continue\r\n\r\n" * 2_000, id="100 without an end"),
        pytest.param(b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 0\r\n\r\n", id="gzip"),
        pytest.param(b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n", id="gzip in transfer"),
        pytest.param(b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n", id="a negative length"),
        pytest.param(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n", id="two lengths"),
    ],
)
async def test_response_is_refused(contexts: Contexts, answer: bytes) -> None:
    async with serving(contexts, answer) as (_, client):
        with pytest.raises(ResponseRefused):
            await post(client, contexts.client())
        assert (await post(client, contexts.client())).status == 200


async def test_response_that_is_cut_off_is_a_failure(contexts: Contexts) -> None:
    async with serving(contexts, OK[:-1], closes=True) as (_, client):
        with pytest.raises(ConnectionLost):
            await post(client, contexts.client())


async def test_response_that_takes_too_long_is_a_failure(contexts: Contexts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "RESPONSE_SECONDS", 0.3)
    async with serving(contexts, OK[:-1]) as (server, sender):
        with pytest.raises(ResponseTimeout, match=f"127.0.0.1:{server.port} timed out after 0.3 s"):
            await post(sender, contexts.client())
        assert (await post(sender, contexts.client())).status == 200
        assert server.connections == 2, "the late response must not become that of the next request"


async def test_failure_to_connect_is_shared_by_those_that_wait_for_it(
    contexts: Contexts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has its own deadline otherwise, one after the other."""
    monkeypatch.setattr(client_module, "CONNECT_SECONDS", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        sender = EventClient(f"127.0.0.1:{silent.getsockname()[1]}")
        began = asyncio.get_running_loop().time()
        answers = await asyncio.gather(*(post(sender, contexts.client()) for _ in range(8)), return_exceptions=True)
    assert {type(answer) for answer in answers} == {ConnectError}
    assert asyncio.get_running_loop().time() - began < 6


@pytest.mark.parametrize("address", ["127.0.0.1:1", "[::1]:1", "does-not-exist.invalid:443", "kcp..example.com:443"])
async def test_address_without_a_server_is_named(contexts: Contexts, address: str) -> None:
    with pytest.raises(ConnectError, match="cannot connect to"):
        await post(EventClient(address), contexts.client())


class FakeTransport(asyncio.Transport):
    """Takes everything, until it is closed."""

    closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Take nothing."""

    def is_closing(self) -> bool:
        return self.closed

    def abort(self) -> None:
        self.closed = True


def mutated() -> st.SearchStrategy[bytes]:
    """Responses with bytes cut out of them, put in and changed."""
    place = st.integers(0, len(OK))
    return st.builds(
        lambda start, length, junk: OK[:start] + junk + OK[start + length :], place, st.integers(0, 40), st.binary()
    )


@given(answer=st.binary(max_size=300) | mutated(), size=st.integers(1, 400))
def test_any_bytes_are_a_response_or_a_failure(answer: bytes, size: int) -> None:
    async def exchange() -> None:
        connection, transport = _Connection(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)), FakeTransport()
        connection.connection_made(transport)
        sending = asyncio.ensure_future(connection.exchange(b""))
        await asyncio.sleep(0)
        for start in range(0, len(answer), size):
            if not transport.closed:
                connection.data_received(answer[start : start + size])
        connection.connection_lost(None)
        with suppress(RequestFailed):
            assert isinstance(await sending, Response)

    with asyncio.Runner() as runner:
        runner.run(exchange())
