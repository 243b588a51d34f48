"""What is there comes as the beginning of the watch, where that is asked for and the server can; else in pages."""

import logging
from typing import Any

import msgspec
import pytest

from kube_runtime import Client
from tests.chaos.kube_runtime.following import (
    CONFIG_MAPS,
    change_everything,
    following,
    populate,
    put,
    starting_to_follow,
)
from tests.chaos.proxy import Answer, Asked, Proxy, status
from tests.waiting import eventually


def lists(proxy: Proxy) -> int:
    """Return how many pages of a list were asked for."""
    return sum(asked.is_list for asked in proxy.asked)


def streams(proxy: Proxy) -> int:
    """Return how many watches were asked for that begin with what is there."""
    return sum("sendInitialEvents" in asked.query for asked in proxy.asked)


async def read_again(proxy: Proxy) -> None:
    """Put into the watch what can't be read, after which everything is read again."""
    await eventually(lambda: proxy.open_watches == 1)
    await proxy.say(b"garbage")


def refuse_streams(asked: Asked) -> Answer | None:
    return status(422, "Invalid") if "sendInitialEvents" in asked.query else None


async def test_watch_that_begins_with_what_is_there_needs_no_list(
    client: Client, direct: Client, proxy: Proxy, namespace: str
) -> None:
    await populate(direct, namespace)
    async with following(client, namespace, initial_events=True) as follower:
        await follower.agrees_with(direct)
        await change_everything(direct, namespace)
        await follower.agrees_with(direct)
    assert (lists(proxy), streams(proxy)) == (0, 1)


async def test_what_went_meanwhile_is_removed_at_the_end_of_the_beginning(
    client: Client, direct: Client, proxy: Proxy, namespace: str
) -> None:
    await populate(direct, namespace)
    async with following(client, namespace, initial_events=True) as follower:
        gone = [status(410, "Expired")]
        await proxy.refuse()
        for number in range(4):
            await direct.delete(CONFIG_MAPS, f"cm-{number}", namespace)
        await put(direct, namespace, "cm-3", "new")
        with proxy.answering(lambda asked: gone.pop() if asked.is_watch and gone else None):
            await proxy.accept()
            await follower.agrees_with(direct)
    assert (lists(proxy), streams(proxy)) == (0, 2)


async def test_server_that_refuses_is_asked_for_pages_from_then_on(
    client: Client, direct: Client, proxy: Proxy, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    await populate(direct, namespace)
    with proxy.answering(refuse_streams):
        async with following(client, namespace, initial_events=True) as follower:
            await follower.agrees_with(direct)
            await read_again(proxy)
            await change_everything(direct, namespace)
            await follower.agrees_with(direct)
    assert streams(proxy) == 1
    assert "asking for pages" in caplog.text


async def test_beginning_that_is_cut_is_replaced_by_pages_once(
    client: Client, direct: Client, proxy: Proxy, namespace: str
) -> None:
    await populate(direct, namespace)
    proxy.cut_in_next_line()
    async with starting_to_follow(client, namespace, initial_events=True) as follower:
        await follower.agrees_with(direct)
        assert (lists(proxy), streams(proxy)) == (3, 1)
        await read_again(proxy)
        await change_everything(direct, namespace)
        await follower.agrees_with(direct)
        assert streams(proxy) == 2


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param({"resourceVersion": "1", "annotations": {"k8s.io/initial-events-end": "true"}}, id="in the past"),
        pytest.param({"resourceVersion": "999999999"}, id="not called an end"),
    ],
)
async def test_beginning_without_a_proper_end_is_replaced_by_pages(
    client: Client, direct: Client, proxy: Proxy, namespace: str, metadata: dict[str, Any]
) -> None:
    await populate(direct, namespace)
    end = msgspec.json.encode({"type": "BOOKMARK", "object": {"metadata": metadata}})
    proxy.change_line = lambda line: end if b"initial-events-end" in line else line
    async with starting_to_follow(client, namespace, initial_events=True) as follower:
        await follower.informer.wait_synced(60)
        assert lists(proxy) == 3
        await follower.agrees_with(direct)
