"""Answers that a server compressed: as few bytes become many, only what was asked for is decompressed, in steps."""

import asyncio
import gzip
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from kube_runtime import Client, ClientOptions, KubeconfigPolicy, ResponseInvalid, ResponseTooLarge
from tests.kinds import CONFIG_MAPS

MANY = bytes(64 * 1024 * 1024)
ENCODED: dict[str, Callable[[], bytes]] = {  # made when asked for: each worker imports this
    "gzip": lambda: gzip.compress(MANY, 9),
    "gzip, gzip": lambda: gzip.compress(gzip.compress(MANY, 9), 9),
    "deflate": lambda: zlib.compress(MANY, 9),
}
LIMIT = 1024 * 1024


@asynccontextmanager
async def server_with(encoding: str, body: bytes) -> AsyncIterator[str]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 200 OK\r\nContent-Encoding: {encoding}\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@asynccontextmanager
async def client_of(server: str, options: ClientOptions) -> AsyncIterator[Client]:
    kubeconfig = {
        "current-context": "it",
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        "clusters": [{"name": "it", "cluster": {"server": server}}],
        "users": [{"name": "it", "user": {}}],
    }
    policy = KubeconfigPolicy.permissive()
    async with await Client.from_kubeconfig(kubeconfig, options=options, policy=policy) as client:
        yield client


async def test_server_may_not_compress_what_was_asked_for_uncompressed() -> None:
    for encoding, make in ENCODED.items():
        async with server_with(encoding, make()) as server, client_of(server, ClientOptions()) as client:
            with pytest.raises(ResponseInvalid, match="was not asked for"):
                await client.get(CONFIG_MAPS, "one", "default")
            with pytest.raises(ResponseInvalid, match="was not asked for"):
                await client.probe()


async def test_server_may_not_compress_a_watch() -> None:
    async with server_with("gzip", ENCODED["gzip"]()) as server, client_of(server, ClientOptions()) as client:
        with pytest.raises(ResponseInvalid, match="was not asked for"):
            async for _ in client.watch(CONFIG_MAPS, "default", resource_version="1"):
                pass


@pytest.mark.parametrize("encoding", ENCODED)
async def test_compression_that_was_asked_for_is_undone_in_steps(encoding: str) -> None:
    options = ClientOptions(compression=True, max_response_bytes=LIMIT)
    async with server_with(encoding, ENCODED[encoding]()) as server, client_of(server, options) as client:
        tracemalloc.start()
        try:
            with pytest.raises(ResponseInvalid, match="longer than" if encoding == "gzip" else "was not asked for"):
                await client.get(CONFIG_MAPS, "one", "default")
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 8 * LIMIT


async def test_answer_of_very_many_values_is_refused_before_it_is_decoded() -> None:
    """Six bytes for two values: decoded, they would need 24 times as many."""
    values = b",".join([b'{"":{}}'] * 1_000_000)
    body = b'{"metadata":{"name":"one"},"data":[' + values + b"]}"
    options = ClientOptions(max_values=500_000)
    async with server_with("identity", body) as server:
        async with client_of(server, options) as client:
            tracemalloc.start()
            try:
                with pytest.raises(ResponseTooLarge, match="more than 500000 values"):
                    await client.get(CONFIG_MAPS, "one", "default")
                assert tracemalloc.get_traced_memory()[1] < 6 * len(body)
            finally:
                tracemalloc.stop()
        async with client_of(server, ClientOptions(max_values=5_000_000)) as client:
            assert len((await client.get(CONFIG_MAPS, "one", "default"))["data"]) == 1_000_000
