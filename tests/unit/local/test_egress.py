"""The API server's way to Services: to the process that is registered, and nowhere else."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from local.egress import EgressProxy, Route, add_route
from tests.waiting import eventually

ADDRESSES = {("kyma-system", "skr-webhook"): "10.0.0.179"}


async def address_of(namespace: str, name: str) -> str | None:
    return ADDRESSES.get((namespace, name))


@asynccontextmanager
async def echoing(prefix: bytes) -> AsyncIterator[int]:
    """A server that sends each line back behind a prefix; gives its port."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(prefix + await reader.readline())
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(handle, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


@asynccontextmanager
async def proxy(folder: Path) -> AsyncIterator[Path]:
    """A proxy; gives its socket."""
    socket = folder / "s"
    serving = asyncio.create_task(EgressProxy(socket, folder / "routes", address_of).serve())
    await eventually(socket.exists, what="the proxy listens")
    yield socket
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)


async def ask(socket: Path, head: bytes, line: bytes = b"hello\n") -> tuple[bytes, bytes]:
    """Send a request head, then a line; return the first line of the answer and all that follows its head."""
    reader, writer = await asyncio.open_unix_connection(socket)
    async with asyncio.timeout(60):
        writer.write(head)
        answered = (await reader.readuntil(b"\r\n\r\n")).partition(b"\r\n")[0]
        if answered.endswith(b"OK"):
            writer.write(line)
        rest = await reader.read()
    writer.close()
    return answered, rest


CONNECT = b"CONNECT 10.0.0.179:443 HTTP/1.1\r\nHost: 10.0.0.179:443\r\n\r\n"


async def test_a_service_is_reached_at_its_process(tmp_path: Path) -> None:
    async with echoing(b"watcher: ") as port, proxy(tmp_path) as socket:
        add_route(tmp_path / "routes", Route("kyma-system", "skr-webhook", 443, "127.0.0.1", port))
        assert await ask(socket, CONNECT) == (b"HTTP/1.1 200 OK", b"watcher: hello\n")


async def test_a_route_that_is_registered_again_replaces_the_first(tmp_path: Path) -> None:
    async with echoing(b"old: ") as old, echoing(b"new: ") as new, proxy(tmp_path) as socket:
        for port in (old, new):
            add_route(tmp_path / "routes", Route("kyma-system", "skr-webhook", 443, "127.0.0.1", port))
        assert (await ask(socket, CONNECT))[1] == b"new: hello\n"


async def test_a_route_that_is_registered_within_the_same_tick_of_the_clock_is_seen(tmp_path: Path) -> None:
    routes = tmp_path / "routes"
    async with echoing(b"old: ") as old, echoing(b"new: ") as new, proxy(tmp_path) as socket:
        add_route(routes, Route("kyma-system", "skr-webhook", 443, "127.0.0.1", old))
        moment = routes.stat().st_mtime_ns
        assert (await ask(socket, CONNECT))[1] == b"old: hello\n"
        add_route(routes, Route("kyma-system", "skr-webhook", 443, "127.0.0.1", new))
        os.utime(routes, ns=(moment, moment))
        assert (await ask(socket, CONNECT))[1] == b"new: hello\n"


async def test_what_is_not_registered_is_not_reached(tmp_path: Path) -> None:
    async with echoing(b"") as port, proxy(tmp_path) as socket:
        refused = b"HTTP/1.1 502 Bad Gateway"
        assert (await ask(socket, CONNECT))[0] == refused
        add_route(tmp_path / "routes", Route("kyma-system", "another", 443, "127.0.0.1", port))
        assert (await ask(socket, CONNECT))[0] == refused
        direct = f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n".encode()
        assert (await ask(socket, direct))[0] == refused
        assert (await ask(socket, CONNECT.replace(b"CONNECT", b"GET")))[0] == refused


async def test_a_process_that_has_gone_is_a_bad_gateway(tmp_path: Path) -> None:
    async with proxy(tmp_path) as socket:
        add_route(tmp_path / "routes", Route("kyma-system", "skr-webhook", 443, "127.0.0.1", 1))
        assert (await ask(socket, CONNECT))[0] == b"HTTP/1.1 502 Bad Gateway"


async def test_processes_behind_one_service_take_turns(tmp_path: Path) -> None:
    async with echoing(b"one: ") as one, echoing(b"two: ") as two, proxy(tmp_path) as socket:
        others = (("127.0.0.1", two),)
        add_route(tmp_path / "routes", Route("kyma-system", "skr-webhook", 443, "127.0.0.1", one, others))
        answers = [(await ask(socket, CONNECT))[1] for _ in range(4)]
        assert answers == [b"one: hello\n", b"two: hello\n"] * 2


async def test_process_that_refuses_gives_its_turn_to_the_next(tmp_path: Path) -> None:
    async with echoing(b"two: ") as two, proxy(tmp_path) as socket:
        others = (("127.0.0.1", two),)
        add_route(tmp_path / "routes", Route("kyma-system", "skr-webhook", 443, "127.0.0.1", 1, others))
        assert [(await ask(socket, CONNECT))[1] for _ in range(3)] == [b"two: hello\n"] * 3
