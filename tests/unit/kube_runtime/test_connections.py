"""One connection to a server stays warm; those that only a burst needed are closed soon after it."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from kube_runtime import Client, ClientOptions, ClusterUnreachable, KubeconfigPolicy
from kube_runtime.client.http_session import HttpSession
from tests.kinds import CONFIG_MAPS
from tests.kubeconfigs import kubeconfig
from tests.waiting import eventually

VERSION = b'{"gitVersion":"v1.36.3","metadata":{"name":"a"}}'
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(VERSION), VERSION)
BURST = 8


@dataclass(eq=False)
class Door:
    """Answers every request with the same once it may, and counts connections."""

    opened: int = 0
    open: int = 0
    waiting: int = 0
    answers_each: int | None = None
    """After so many answers a connection is closed by the next request."""
    resets: bool = False
    """Whether it is closed by a reset, as of a balancer that has forgotten it, and not by its end."""
    may_answer: asyncio.Event = field(default_factory=asyncio.Event)
    port: int = 0

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        server = await asyncio.start_server(self.take, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        async with server:
            yield

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.opened += 1
        self.open += 1
        answered = 0
        try:
            while True:
                await reader.readuntil(b"\r\n\r\n")
                if answered == self.answers_each:
                    if self.resets:
                        made = writer.get_extra_info("socket")
                        made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    break
                self.waiting += 1
                await self.may_answer.wait()
                self.waiting -= 1
                answered += 1
                writer.write(ANSWER)
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()
            self.open -= 1

    async def client(
        self, keep_alive_seconds: float = 80.0, attempts: int = 4, session: HttpSession | None = None
    ) -> Client:
        document = kubeconfig({}, server=f"http://127.0.0.1:{self.port}")
        options = ClientOptions(keep_alive_seconds=keep_alive_seconds, attempts=attempts, session=session)
        return await Client.from_kubeconfig(document, options=options, policy=KubeconfigPolicy.permissive())


async def burst(door: Door, client: Client) -> None:
    """Send requests of which none is answered before all have come."""
    door.may_answer.clear()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(BURST):
            tasks.create_task(client.server_version())
        await eventually(lambda: door.waiting == BURST)
        door.may_answer.set()


async def test_clients_that_share_a_session_have_connections_of_their_own() -> None:
    doors, session = (Door(), Door()), HttpSession()
    async with doors[0].serving(), doors[1].serving():
        clients = [await door.client(session=session) for door in doors]
        for door, client in zip(doors, clients, strict=True):
            await burst(door, client)
        await clients[0].close()
        await eventually(lambda: doors[0].open == 0)
        with pytest.raises(RuntimeError, match="closed"):
            await clients[0].server_version()
        opened = doors[1].opened
        await clients[1].server_version()
        assert (doors[1].opened, doors[1].open) == (opened, BURST)
        await clients[1].close()
        await session.close()
        await eventually(lambda: doors[1].open == 0)


async def test_client_that_is_closed_ends_its_requests_under_way() -> None:
    door, session = Door(), HttpSession()
    async with door.serving():
        client = await door.client(session=session)
        request = asyncio.create_task(client.server_version())
        await eventually(lambda: door.waiting == 1)
        await client.close()
        with pytest.raises(ClusterUnreachable):
            await request
        await session.close()
        door.may_answer.set()


async def test_burst_finds_the_connections_of_the_one_before_until_they_are_closed() -> None:
    door = Door()
    async with door.serving(), await door.client(keep_alive_seconds=0.2) as client:
        await burst(door, client)
        await burst(door, client)
        assert (door.opened, door.open) == (BURST, BURST)
        await eventually(lambda: door.open == 0)
        await burst(door, client)


async def test_error_names_an_ipv6_address_as_a_url_has_it() -> None:
    async with await Client.from_kubeconfig(kubeconfig(server="https://[::1]:1")) as client:
        with pytest.raises(ClusterUnreachable, match=r"^no response from \[::1\]:1: "):
            await client.server_version()


@pytest.mark.parametrize("resets", [False, True])
@pytest.mark.parametrize("attempts", [1, 4])
async def test_patch_is_sent_once_more_where_the_idle_connection_was_closed(attempts: int, resets: bool) -> None:
    door = Door(answers_each=1, resets=resets)
    door.may_answer.set()
    async with door.serving(), await door.client(attempts=attempts) as client:
        for _ in range(2):
            await client.merge_patch(CONFIG_MAPS, "a", {}, "default")
        assert door.opened == 2


@pytest.mark.parametrize("attempts", [1, 4])
async def test_server_that_closes_new_connections_too_is_unreachable(attempts: int) -> None:
    door = Door(answers_each=0)
    async with door.serving(), await door.client(attempts=attempts) as client:
        with pytest.raises(ClusterUnreachable):
            await client.merge_patch(CONFIG_MAPS, "a", {}, "default")
        assert door.opened == 2
