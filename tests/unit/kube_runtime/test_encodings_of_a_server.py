"""Answers that a server compressed, of which few bytes become many, are refused; so are those of too many values."""

import gzip
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from kube_runtime import Client, ClientOptions, KubeconfigPolicy, ResponseInvalid, ResponseTooLarge
from kube_runtime.client.options import DEFAULT_OPTIONS
from tests.kinds import CONFIG_MAPS
from tests.kubeconfigs import kubeconfig
from tests.serving import serving

MANY = bytes(64 * 1024 * 1024)
ENCODED: dict[str, Callable[[], bytes]] = {  # made when asked for: each worker imports this
    "gzip": lambda: gzip.compress(MANY, 9),
    "gzip, gzip": lambda: gzip.compress(gzip.compress(MANY, 9), 9),
    "deflate": lambda: zlib.compress(MANY, 9),
}


@asynccontextmanager
async def client_of_server_with(
    encoding: str, body: bytes, options: ClientOptions = DEFAULT_OPTIONS
) -> AsyncIterator[Client]:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=body, headers={"Content-Encoding": encoding})

    policy = KubeconfigPolicy.permissive()
    async with (
        serving(answer) as host,
        await Client.from_kubeconfig(kubeconfig({}, server=f"http://{host}"), options=options, policy=policy) as client,
    ):
        yield client


async def test_server_may_not_compress_what_was_asked_for_uncompressed() -> None:
    for encoding, make in ENCODED.items():
        async with client_of_server_with(encoding, make()) as client:
            with pytest.raises(ResponseInvalid, match="was not asked for"):
                await client.get(CONFIG_MAPS, "one", "default")
            with pytest.raises(ResponseInvalid, match="was not asked for"):
                await client.probe()


async def test_server_may_not_compress_a_watch() -> None:
    async with client_of_server_with("gzip", ENCODED["gzip"]()) as client:
        with pytest.raises(ResponseInvalid, match="was not asked for"):
            async for _ in client.watch(CONFIG_MAPS, "default", resource_version="1"):
                pass


async def test_answer_of_very_many_values_is_refused_before_it_is_decoded() -> None:
    """Six bytes for two values: decoded, they would need 24 times as many."""
    values = b",".join([b'{"":{}}'] * 1_000_000)
    body = b'{"metadata":{"name":"one"},"data":[' + values + b"]}"
    async with client_of_server_with("identity", body, ClientOptions(max_values=500_000)) as client:
        tracemalloc.start()
        try:
            with pytest.raises(ResponseTooLarge, match="more than 500000 values"):
                await client.get(CONFIG_MAPS, "one", "default")
            assert tracemalloc.get_traced_memory()[1] < 6 * len(body)
        finally:
            tracemalloc.stop()
    async with client_of_server_with("identity", body, ClientOptions(max_values=5_000_000)) as client:
        assert len((await client.get(CONFIG_MAPS, "one", "default"))["data"]) == 1_000_000
