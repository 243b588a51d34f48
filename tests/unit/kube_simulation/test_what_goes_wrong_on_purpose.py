"""Rules make requests slow, lost, refused, reordered or stale, and watches blind, exactly as they say."""

import asyncio
from contextlib import aclosing
from functools import partial
from typing import Any

import pytest

from kube_runtime import (
    Client,
    ClientOptions,
    ClusterUnreachable,
    Forbidden,
    Informer,
    KubeconfigPolicy,
    NotFound,
    ObjectKey,
    RuntimeMetrics,
    ServerUnavailable,
    TooManyRequests,
    WatchEvent,
)
from kube_simulation import (
    ApiRequest,
    Drop,
    Freeze,
    NeverAnswer,
    Refuse,
    Refused,
    Rule,
    SimulatedCluster,
    StoredChange,
    is_write,
)
from tests.kinds import CONFIG_MAPS
from tests.waiting import eventually


async def write(client: Client, name: str = "one", **data: str) -> dict[str, Any]:
    return await client.apply(
        CONFIG_MAPS, name, {"metadata": {"name": name}, "data": data}, "default", field_manager="m"
    )


async def data_of(client: Client, name: str = "one") -> dict[str, str]:
    found = await client.get(CONFIG_MAPS, name, "default")
    return dict(found["data"])


async def test_dropped_write_is_not_done_or_done_and_not_known(client: Client, cluster: SimulatedCluster) -> None:
    with cluster.ruled_by(Drop(is_write)), pytest.raises(ClusterUnreachable):
        await write(client, a="1")
    with pytest.raises(NotFound):
        await data_of(client)
    with cluster.ruled_by(Drop(is_write, after=True)), pytest.raises(ClusterUnreachable):
        await write(client, a="1")
    assert await data_of(client) == {"a": "1"}


async def test_answer_that_never_comes_ends_with_the_clients_timeout(client: Client, cluster: SimulatedCluster) -> None:
    options = ClientOptions(timeout_seconds=0.1)
    policy = KubeconfigPolicy(allow_insecure=True)
    async with await Client.from_kubeconfig(cluster.kubeconfig, options=options, policy=policy) as short_timeouts:
        with cluster.ruled_by(NeverAnswer(is_write)), pytest.raises(ClusterUnreachable, match="timed out"):
            await write(short_timeouts)

        async def written_all_the_same() -> bool:
            with pytest.raises(ClusterUnreachable):
                await write(short_timeouts, a="1")
            return bool((await client.list(CONFIG_MAPS, "default")).items)

        with cluster.ruled_by(NeverAnswer(is_write, after=True)):
            await eventually(written_all_the_same)
        assert await data_of(client) == {"a": "1"}


async def test_refusal_is_what_the_rule_says_and_for_as_often(client: Client, cluster: SimulatedCluster) -> None:
    forbidden = Refuse(is_write, refused=Refused(403, "Forbidden", "not today"))
    with cluster.ruled_by(forbidden), pytest.raises(Forbidden, match="not today"):
        await write(client)
    with cluster.ruled_by(Refuse()), pytest.raises(ServerUnavailable):
        await data_of(client)
    with cluster.ruled_by(Refuse.too_many_requests(0, times=1)):
        await write(client, a="1")
    with cluster.ruled_by(Refuse.too_many_requests(1000)), pytest.raises(TooManyRequests) as refused:
        await write(client, a="2")
    assert refused.value.retry_after == 1000
    assert await data_of(client) == {"a": "1"}


async def test_frozen_reads_and_watches_show_the_past_while_writes_go_on(
    client: Client, cluster: SimulatedCluster
) -> None:
    await write(client, a="old")
    informer = Informer(client, CONFIG_MAPS, namespace="default")
    following = asyncio.create_task(informer.run())
    await informer.wait_synced(60)
    freeze = Freeze(cluster.version)
    with cluster.ruled_by(freeze):
        await write(client, a="new")
        await write(client, "two", a="new")
        assert await data_of(client) == {"a": "old"}
        with pytest.raises(NotFound):
            await data_of(client, "two")
        listed = await client.list(CONFIG_MAPS, "default")
        assert [item["metadata"]["name"] for item in listed.items] == ["one"]
        assert listed.resource_version == str(freeze.version)
        assert len(informer.cache) == 1
    await eventually(lambda: len(informer.cache) == 2)
    assert informer.cache.get(ObjectKey("default", "one"))["data"] == {"a": "new"}  # type: ignore[index]
    following.cancel()
    await asyncio.wait([following])


async def test_watch_that_ends_or_breaks_is_taken_up_where_it_was(client: Client, cluster: SimulatedCluster) -> None:
    metrics = RuntimeMetrics()
    informer = Informer(client, CONFIG_MAPS, namespace="default", metrics=metrics)
    following = asyncio.create_task(informer.run())
    await informer.wait_synced(60)
    for number, interrupt in enumerate((cluster.end_watches, cluster.break_watches), start=1):
        await eventually(lambda: cluster.open_watches == 1)
        interrupt()
        await write(client, f"n{number}")
        await eventually(partial(len_is, informer, number))
    assert metrics.informer(CONFIG_MAPS.plural_name).lists == 1
    following.cancel()
    await asyncio.wait([following])


def len_is(informer: Informer[dict[str, Any]], count: int) -> bool:
    return len(informer.cache) == count


async def test_hidden_change_is_sent_once_overwritten_or_shown(client: Client, cluster: SimulatedCluster) -> None:
    class HideOne(Rule):
        def hides(self, request: ApiRequest, change: StoredChange) -> bool:
            return change.after.name == "one"

    hide = HideOne()
    received: list[tuple[str, str]] = []
    start = (await client.list(CONFIG_MAPS, "default")).resource_version

    def receive(event: WatchEvent[dict[str, Any]]) -> None:
        if event.object is not None:
            received.append((event.object["metadata"]["name"], event.object["data"]["a"]))

    async def listen() -> None:
        async with aclosing(client.watch(CONFIG_MAPS, "default", resource_version=start)) as events:
            async for event in events:
                receive(event)

    listening = asyncio.create_task(listen())
    await eventually(lambda: cluster.open_watches == 1)
    with cluster.ruled_by(hide):
        await write(client, "one", a="1")
        await write(client, "two", a="1")
        await eventually(lambda: received == [("two", "1")])
        await write(client, "one", a="2")
        await eventually(lambda: received[1:] == [("one", "2")])
        await write(client, "one", a="3")
        await write(client, "two", a="3")
        await eventually(lambda: received[2:] == [("two", "3")])
    await eventually(lambda: received[3:] == [("one", "3")])
    listening.cancel()
    await asyncio.wait([listening])


async def test_pauses_that_a_server_asks_for_are_logged_once_a_minute(
    client: Client, cluster: SimulatedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "kube_runtime")
    busy = Refused(429, "TooManyRequests", "the server is busy", retry_after_seconds=0)
    with cluster.ruled_by(Refuse(is_write, refused=busy)):
        for _ in range(20):
            with pytest.raises(TooManyRequests):
                await write(client)
    (line,) = [each for each in caplog.messages if "asks for a pause" in each]
    assert "the server is busy (429 TooManyRequests)" in line
