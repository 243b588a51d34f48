"""Large lines, many watches, and what a cache costs."""

import asyncio
import gc
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from kube_runtime import Client, Informer, KubeconfigPolicy, ObjectKey
from tests.chaos.kube_runtime.conftest import LONG_TIMEOUTS
from tests.chaos.kube_runtime.following import change_everything, following, populate, put
from tests.chaos.proxy import Proxy
from tests.kinds import CONFIG_MAPS
from tests.waiting import eventually

MIB = 1024 * 1024
WATCHES = 100
OBJECTS = 150
OBJECT_BYTES = 4_000


def padded(line: bytes) -> bytes:
    """Return the line with an annotation of five MiB on its object, more than any API server stores."""
    return line.replace(b'"metadata":{', b'"metadata":{"annotations":{"padding":"' + b"x" * 5 * MIB + b'"},', 1)


async def test_largest_object_is_followed(client: Client, direct: Client, namespace: str) -> None:
    async with following(client, namespace) as follower:
        await put(direct, namespace, "large", "x" * (MIB - 100))
        await put(direct, namespace, "small", "x")
        await follower.agrees_with(direct)


async def test_line_of_five_mebibytes_is_read(client: Client, direct: Client, proxy: Proxy, namespace: str) -> None:
    await populate(direct, namespace)
    async with following(client, namespace) as follower:
        proxy.change_line = lambda line: padded(line) if b"enlarge" in line else line
        await put(direct, namespace, "cm-0", "enlarge")
        await put(direct, namespace, "cm-1", "later")
        await follower.agrees_with(direct)
        held = follower.informer.cache.get(ObjectKey(namespace, "cm-0"))
        assert held is not None
        assert len(held["metadata"]["annotations"]["padding"]) == 5 * MIB


async def test_line_that_is_longer_than_allowed_is_got_round_by_a_list(
    direct: Client, proxy: Proxy, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    await populate(direct, namespace)
    narrow = replace(LONG_TIMEOUTS, max_event_bytes=MIB)
    policy = KubeconfigPolicy.permissive()
    async with (
        await Client.from_kubeconfig(proxy.kubeconfig(), options=narrow, policy=policy) as client,
        following(client, namespace) as follower,
    ):
        proxy.change_line = lambda line: padded(line) if b"enlarge" in line else line
        await put(direct, namespace, "cm-0", "enlarge")
        await change_everything(direct, namespace, "later")
        await follower.agrees_with(direct)
        assert follower.counts.lists >= 2
        assert "longer than" in caplog.text


async def test_many_watches_of_one_client_break_at_once_and_all_recover(
    client: Client, direct: Client, proxy: Proxy, namespace: str
) -> None:
    await populate(direct, namespace)
    informers = [Informer(client, CONFIG_MAPS, namespace=namespace) for _ in range(WATCHES)]
    async with asyncio.TaskGroup() as tasks:
        following_all = [tasks.create_task(informer.run()) for informer in informers]
        await eventually(lambda: all(informer.synced for informer in informers) and proxy.open_watches == WATCHES)
        proxy.cut_watches()
        await change_everything(direct, namespace)
        there = versions((await direct.list(CONFIG_MAPS, namespace)).items)
        await eventually(lambda: all(versions(each.cache.list()) == there for each in informers))
        for task in following_all:
            task.cancel()


async def test_cache_costs_little_more_than_its_texts(direct: Client, namespace: str) -> None:
    await put_large_ones(direct, namespace)
    informer = Informer(direct, CONFIG_MAPS, namespace=namespace)
    async with asyncio.TaskGroup() as tasks:
        with traced():
            task = tasks.create_task(informer.run())
            await informer.wait_synced(60)
            gc.collect()
            assert tracemalloc.get_traced_memory()[0] / OBJECTS < 2 * OBJECT_BYTES
        task.cancel()


async def test_lists_leave_nothing_behind(client: Client, direct: Client, proxy: Proxy, namespace: str) -> None:
    await put_large_ones(direct, namespace)
    informer = Informer(client, CONFIG_MAPS, namespace=namespace)
    async with asyncio.TaskGroup() as tasks:
        with traced():
            task = tasks.create_task(informer.run())
            await listed_again(informer, proxy)
            gc.collect()
            before = tracemalloc.get_traced_memory()[0]
            for _ in range(3):
                await listed_again(informer, proxy)
            gc.collect()
            assert tracemalloc.get_traced_memory()[0] - before < OBJECTS * OBJECT_BYTES / 2
        task.cancel()


@contextmanager
def traced() -> Iterator[None]:
    """Count memory while the block runs."""
    gc.collect()
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()


async def put_large_ones(direct: Client, namespace: str) -> None:
    """Make the objects, a few at once: a busy server refuses what waits for ten seconds."""
    text = "x" * OBJECT_BYTES
    for first in range(0, OBJECTS, 10):
        numbers = range(first, min(first + 10, OBJECTS))
        await asyncio.gather(*(put(direct, namespace, f"cm-{number}", text) for number in numbers))


async def listed_again(informer: Informer[dict[str, Any]], proxy: Proxy) -> None:
    await eventually(lambda: proxy.open_watches == 1)
    lists = sum(asked.is_list for asked in proxy.asked)
    await proxy.say(b"garbage")
    await eventually(lambda: sum(asked.is_list for asked in proxy.asked) > lists and informer.last_error is None)


def versions(items: tuple[dict[str, Any], ...]) -> dict[ObjectKey, str]:
    return {CONFIG_MAPS.key_of(item): CONFIG_MAPS.version_of(item) for item in items}
