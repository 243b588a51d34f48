"""Connections to a Service are spread over the Pods that are ready, and never feel that one has gone."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

from tests.node_agent.balancer import balancer


@asynccontextmanager
async def pod(name: str) -> AsyncGenerator[int, None]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readline():
            writer.write(f"{name}\n".encode())
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def ask(port: int) -> str:
    """Return who answers a new connection; empty where it is closed."""
    async with asyncio.timeout(10):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(b"who\n")
            return (await reader.readline()).decode().strip()
        except ConnectionError:
            return ""
        finally:
            writer.close()


async def test_each_pod_gets_its_share() -> None:
    async with pod("a") as a, pod("b") as b, balancer(lambda: (a, b)) as port:
        assert Counter([await ask(port) for _ in range(6)]) == {"a": 3, "b": 3}


async def test_pod_that_refuses_is_passed_over() -> None:
    async with AsyncExitStack() as ending, pod("b") as b:
        a = await ending.enter_async_context(pod("a"))
        async with balancer(lambda: (a, b)) as port:
            await ending.aclose()
            assert [await ask(port) for _ in range(4)] == ["b"] * 4


async def test_pod_that_is_not_ready_any_more_gets_nothing_new_and_keeps_what_it_has() -> None:
    async with pod("a") as a, pod("b") as b:
        ready = [a]
        async with balancer(lambda: ready) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"who\n")
            assert await reader.readline() == b"a\n"
            ready[:] = [b]
            assert [await ask(port) for _ in range(3)] == ["b"] * 3
            writer.write(b"who\n")
            assert await reader.readline() == b"a\n"
            writer.close()


async def test_where_none_is_ready_the_connection_is_closed() -> None:
    async with balancer(tuple) as port:
        assert await ask(port) == ""


async def test_no_connection_outlives_the_balancer() -> None:
    async with pod("a") as a:
        async with balancer(lambda: (a,)) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"who\n")
            assert await reader.readline() == b"a\n"
        async with asyncio.timeout(10):
            assert await reader.read() == b""
        writer.close()
