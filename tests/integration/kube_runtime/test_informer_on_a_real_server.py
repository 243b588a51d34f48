"""The cache follows a real API server, and handlers get every last state."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import msgspec
import pytest

from kube_crds import ObjectMetadata
from kube_runtime import Change, Client, Index, Informer, ObjectKey, Resource
from kube_runtime.finalizers import remove_finalizers
from tests.kinds import CONFIG_MAPS
from tests.waiting import eventually

pytestmark = pytest.mark.parametrize("kcp", ["real", "simulated"], indirect=True)
Changes = list[tuple[str, str | None, str | None]]


def config_map(name: str, value: str, **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}, "data": {"value": value}}


def recorded(informer: Informer[dict[str, Any]]) -> Changes:
    changes: Changes = []

    def value(item: dict[str, Any] | None) -> str | None:
        return None if item is None else item["data"]["value"]

    def handle(change: Change[dict[str, Any]]) -> None:
        name = (change.new or change.old or {})["metadata"]["name"]
        changes.append((name, value(change.old), value(change.new)))

    informer.on_change(handle)
    return changes


@asynccontextmanager
async def following(informer: Informer[Any]) -> AsyncIterator[None]:
    task = asyncio.create_task(informer.run())
    try:
        await informer.wait_synced(60)
        yield
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_informer_lists_in_pages_and_follows(client: Client, namespace: str) -> None:
    for number in range(5):
        await client.create(CONFIG_MAPS, config_map(f"cm-{number}", "1"), namespace, field_manager="test")
    informer = Informer(client, CONFIG_MAPS, namespace=namespace, page_size=2)
    changes = recorded(informer)
    assert not informer.synced
    async with following(informer):
        assert len(informer.cache) == 5
        changes.clear()
        await client.merge_patch(CONFIG_MAPS, "cm-0", {"data": {"value": "2"}}, namespace)
        await client.delete(CONFIG_MAPS, "cm-1", namespace)
        await client.create(CONFIG_MAPS, config_map("cm-9", "1"), namespace, field_manager="test")
        await eventually(lambda: len(changes) == 3)

    assert changes == [("cm-0", "1", "2"), ("cm-1", "1", None), ("cm-9", None, "1")]
    known = informer.cache.get(ObjectKey(namespace, "cm-0"))
    assert known == await client.get(CONFIG_MAPS, "cm-0", namespace)
    assert informer.cache.get(ObjectKey(namespace, "cm-1")) is None


async def test_selector_and_index(client: Client, namespace: str) -> None:
    informer = Informer(
        client,
        CONFIG_MAPS,
        namespace=namespace,
        label_selector="team",
        indexes=[Index("team", lambda item: [item["metadata"]["labels"]["team"]])],
    )
    async with following(informer):
        for name, team in (("a", "red"), ("b", "blue"), ("c", "red")):
            await client.create(CONFIG_MAPS, config_map(name, "1", team=team), namespace, field_manager="test")
        await client.create(CONFIG_MAPS, config_map("d", "1"), namespace, field_manager="test")
        await eventually(lambda: len(informer.cache) == 3)
        assert [item["metadata"]["name"] for item in informer.cache.by_index("team", "red")] == ["a", "c"]

        await client.merge_patch(CONFIG_MAPS, "a", {"metadata": {"labels": {"team": "blue"}}}, namespace)
        await client.merge_patch(CONFIG_MAPS, "c", {"metadata": {"labels": {"team": None}}}, namespace)
        await eventually(lambda: not informer.cache.by_index("team", "red"))
        assert len(informer.cache.by_index("team", "blue")) == 2


async def test_handler_that_comes_late_hears_of_what_is_there(client: Client, namespace: str) -> None:
    await client.create(CONFIG_MAPS, config_map("a", "1"), namespace, field_manager="test")
    informer = Informer(client, CONFIG_MAPS, namespace=namespace)
    async with following(informer):
        assert recorded(informer) == [("a", None, "1")]


async def test_handler_that_fails_stops_nobody(
    client: Client, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    informer = Informer(client, CONFIG_MAPS, namespace=namespace)

    def broken(_change: Change[Any]) -> None:
        raise ZeroDivisionError

    informer.on_change(broken)
    changes = recorded(informer)
    async with following(informer):
        await client.create(CONFIG_MAPS, config_map("a", "1"), namespace, field_manager="test")
        await eventually(lambda: changes)
    assert "a handler of configmaps failed" in caplog.text


async def test_objects_are_reported_again_at_an_interval_without_a_request(client: Client, namespace: str) -> None:
    await client.create(CONFIG_MAPS, config_map("a", "1"), namespace, field_manager="test")
    informer = Informer(client, CONFIG_MAPS, namespace=namespace, resync_seconds=0.05)
    reminded: list[bool] = []
    informer.on_change(lambda change: reminded.append(change.is_resync))
    async with following(informer):
        await eventually(lambda: len(reminded) >= 4)
    assert reminded[0] is False
    assert all(reminded[1:])


async def test_change_arrives_within_milliseconds(client: Client, namespace: str) -> None:
    informer = Informer(client, CONFIG_MAPS, namespace=namespace)
    arrived: dict[str, float] = {}

    def handle(change: Change[dict[str, Any]]) -> None:
        if change.new is not None:
            arrived[change.new["metadata"]["name"]] = time.perf_counter()

    informer.on_change(handle)
    delays: list[float] = []
    async with following(informer):
        for number in range(20):
            name = f"cm-{number}"
            await client.create(CONFIG_MAPS, config_map(name, "1"), namespace, field_manager="test")
            answered = time.perf_counter()
            await eventually(partial(arrived.__contains__, name), every=0.0005)
            delays.append(arrived[name] - answered)
    assert min(delays) < 0.05, "it is reported as it comes, and not when somebody looks"


async def test_missing_rights_or_kinds_are_reported(client: Client) -> None:
    nothing = Resource.dynamic("nowhere.example.com", "v1", "Nothing", "nothings", namespaced=True)
    informer = Informer(client, nothing)
    task = asyncio.create_task(informer.run())
    await eventually(lambda: informer.last_error)
    with pytest.raises(TimeoutError, match="could not be listed") as failed:
        await informer.wait_synced(0.05)
    task.cancel()
    assert failed.value.__cause__ is informer.last_error is not None
    await asyncio.wait([task])


async def test_object_is_gone_with_its_last_finalizer_before_the_watch_shows_it(client: Client, namespace: str) -> None:
    informer = Informer(client, CONFIG_MAPS, namespace=namespace)
    key, held = ObjectKey(namespace, "held"), config_map("held", "1")
    held["metadata"]["finalizers"] = ["example.com/a", "example.com/b"]
    await client.create(CONFIG_MAPS, held, namespace, field_manager="test")
    await client.delete(CONFIG_MAPS, "held", namespace)
    async with following(informer):
        assert informer.get(key) is not None
    for finalizer in held["metadata"]["finalizers"]:
        last = informer.get(key)
        assert last is not None
        metadata = msgspec.convert(last["metadata"], ObjectMetadata)
        await remove_finalizers(client, CONFIG_MAPS, metadata, finalizer, field_manager="test", informer=informer)
    assert informer.get(key) is None
    assert informer.cache.get(key) is not None

    known: list[dict[str, Any] | None] = []
    informer.on_change(lambda _: known.append(informer.get(key)), replay=False)
    async with following(informer):
        await eventually(lambda: informer.cache.get(key) is None)
        assert known[-1] is None
        made = await client.create(CONFIG_MAPS, config_map("held", "2"), namespace, field_manager="test")
        await eventually(lambda: informer.get(key) == made)
    assert all(each in (None, made) for each in known)
