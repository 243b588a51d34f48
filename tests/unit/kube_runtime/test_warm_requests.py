"""A request on a warm connection is what aiohttp would have sent, and its connection is never left with half of it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp
import pytest

from kube_runtime import Client, ClientOptions, ClusterUnreachable, KubeconfigPolicy, ResponseInvalid, ResponseTooLarge
from kube_runtime.client.bodies import PART_BYTES
from kube_runtime.client.options import DEFAULT_OPTIONS
from tests.kinds import CONFIG_MAPS
from tests.waiting import eventually

OBJECT = b'{"metadata":{"name":"a","namespace":"default"}}'
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


def whole(body: bytes = OBJECT) -> bytes:
    return HEAD + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\n" + OBJECT[:5] + b"\r\n%x\r\n" % (len(OBJECT) - 5)
CHUNKED += OBJECT[5:] + b"\r\n0\r\n\r\n"


@dataclass(eq=False)
class Server:
    """Answers the first request on a connection with an object, and further ones with `further`; closes without one."""

    further: list[bytes | None] = field(default_factory=list)
    requests: list[bytes] = field(default_factory=list)
    connections: int = 0
    open: int = 0
    port: int = 0

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        is_first = True
        self.connections += 1
        self.open += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                _, found, length = head.lower().partition(b"content-length: ")
                body = await reader.readexactly(int(length.split(b"\r\n")[0])) if found else b""
                self.requests.append(head + body)
                answer = whole() if is_first or not self.further else self.further.pop(0)
                if answer is None:
                    break
                writer.write(answer)
                if b"Connection: close" in answer:
                    break
                is_first = False
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()
            self.open -= 1

    @asynccontextmanager
    async def client(self, options: ClientOptions = DEFAULT_OPTIONS) -> AsyncIterator[Client]:
        """Serve, and yield a client whose connection is warm."""
        server = await asyncio.start_server(self.take, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        document = {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
            "clusters": [{"name": "k", "cluster": {"server": f"http://127.0.0.1:{self.port}/clusters/one"}}],
            "users": [{"name": "u", "user": {"token": "t0ken", "as": "jane"}}],
        }
        policy = KubeconfigPolicy.permissive()
        async with server, await Client.from_kubeconfig(document, options=options, policy=policy) as client:
            await read(client)
            yield client


async def read(client: Client) -> None:
    assert (await client.get(CONFIG_MAPS, "a", "default"))["metadata"]["name"] == "a"


async def write(client: Client) -> None:
    await client.apply(CONFIG_MAPS, "a", {"metadata": {"name": "a"}}, "default", field_manager="test")


async def create(client: Client) -> None:
    await client.create(CONFIG_MAPS, {"metadata": {"name": "a"}}, "default", field_manager="test")


def fields_of(request: bytes) -> set[bytes]:
    return set(request.partition(b"\r\n\r\n")[0].split(b"\r\n"))


@pytest.mark.parametrize("send", [read, write])
async def test_warm_request_has_the_fields_that_aiohttp_sends(
    send: Callable[[Client], Awaitable[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server(further=[None])
    async with server.client() as client:
        server.further.append(whole())
        await send(client)  # closed while it was idle: sent again on a new connection, by aiohttp
        monkeypatch.delattr(aiohttp.ClientSession, "request")
        await send(client)
    by_aiohttp, warm = server.requests[-2:]
    assert fields_of(warm) == fields_of(by_aiohttp)
    assert warm.partition(b"\r\n\r\n")[2] == by_aiohttp.partition(b"\r\n\r\n")[2]
    assert server.connections == 2


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(CHUNKED, id="in chunks"),
        pytest.param(b"HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n" + whole(), id="after another"),
        pytest.param(HEAD + b"Connection: close\r\n\r\n" + OBJECT, id="until the end"),
    ],
)
async def test_answer_is_read_however_it_is_sent(answer: bytes) -> None:
    server = Server(further=[answer])
    async with server.client() as client:
        await read(client)
        await read(client)
    assert len(server.requests) == 3


async def test_write_that_the_fence_stops_is_not_sent_and_the_next_one_is() -> None:
    server, barred = Server(), [True]

    def fence() -> None:
        if barred[0]:
            raise PermissionError("barred")

    async with server.client() as client:
        fenced = client.fenced_by(fence)
        with pytest.raises(PermissionError):
            await write(fenced)
        assert len(server.requests) == 1
        barred[0] = False
        await write(fenced)
    assert len(server.requests) == 2


async def test_connection_closed_while_idle_repeats_reads_and_patches_but_never_a_creation() -> None:
    for send, repeated in ((read, True), (write, True), (create, False)):
        server = Server(further=[None])
        async with server.client() as client:
            if repeated:
                await send(client)
            else:
                with pytest.raises(ClusterUnreachable):
                    await send(client)
        assert len(server.requests) == (3 if repeated else 2)


async def test_connection_with_an_unread_answer_is_never_used_again() -> None:
    large = whole(b'{"metadata":{"name":"b"}}' + b" " * 4000)
    options = ClientOptions(max_response_bytes=1000)
    for answer in (large, HEAD + b"Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc"):
        server = Server(further=[answer])
        async with server.client(options) as client:
            with pytest.raises((ResponseTooLarge, ResponseInvalid)):
                await read(client)
            await read(client)
        assert server.connections == 2


@pytest.mark.parametrize("is_late", [False, True])
async def test_request_that_is_cancelled_or_late_closes_its_connection(*, is_late: bool) -> None:
    server = Server(further=[b""])
    async with server.client(ClientOptions(timeout_seconds=0.2 if is_late else 30.0)) as client:
        waiting = asyncio.create_task(read(client))
        await eventually(lambda: len(server.requests) == 2)
        if is_late:
            with pytest.raises(ClusterUnreachable, match="timed out"):
                await waiting
        else:
            waiting.cancel()
            await asyncio.wait([waiting])
        await eventually(lambda: server.open == 0)
        await read(client)
    assert server.connections == 2


@pytest.mark.parametrize("value", ["a\r\nX-Injected: yes", "a\nb", "a\0b"])
async def test_field_that_would_be_two_is_refused_on_a_warm_connection_too(value: str) -> None:
    server = Server()
    async with server.client() as client:
        with pytest.raises(ValueError, match=r"(?i)forbidden|not allowed|control"):
            await client.raw("GET", "/version", accept=value)
        assert len(server.requests) == 1


async def test_body_that_is_sent_in_turns_arrives_whole() -> None:
    server = Server()
    async with server.client() as client:
        text = "x" * (3 * PART_BYTES)
        document = {"metadata": {"name": "a"}, "data": {"text": text}}
        await client.apply(CONFIG_MAPS, "a", document, "default", field_manager="test")
    assert server.requests[-1].count(b"x" * 1000) == len(text) // 1000
