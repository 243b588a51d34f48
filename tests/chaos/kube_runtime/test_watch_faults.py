"""Whatever happens to a watch, the cache is what the server holds soon after, and every newest state is reconciled."""

import asyncio
import logging

import msgspec
import pytest

from kube_runtime import Backoff, Client
from tests.chaos.kube_runtime.following import change_everything, following, populate, put, starting_to_follow
from tests.chaos.proxy import Answer, Asked, Proxy, status, status_document
from tests.waiting import eventually

HASTY = Backoff(base=0.02, max=0.2)
GARBAGE = [
    pytest.param(b"\x00\xff<html>bad gateway</html>", id="no JSON"),
    pytest.param(b"[]", id="JSON of another shape"),
    pytest.param(b'{"type":"ADDED"}', id="no object"),
    pytest.param(b'{"type":"ADDED","object":{}}', id="no metadata"),
    pytest.param(b'{"type":"MODIFIED","object":{"metadata":null}}', id="null metadata"),
    pytest.param(b'{"type":"DELETED","object":{"metadata":{"namespace":"x"}}}', id="no name"),
    pytest.param(b'{"type":"ADDED","object":{"metadata":{"name":["x"]}}}', id="a name that is no text"),
    pytest.param(b'{"type":"BOOKMARK","object":{"metadata":7}}', id="a broken bookmark"),
    pytest.param(b'{"type":"PARTY","object":{}}', id="an unknown type"),
]


async def test_watch_that_is_cut_in_the_middle_of_a_line_goes_on_from_there(
    client: Client, direct: Client, proxy: Proxy, namespace: str
) -> None:
    await populate(direct, namespace)
    async with following(client, namespace) as follower:
        lists = follower.counts.lists
        proxy.cut_in_next_line()
        await change_everything(direct, namespace)
        await follower.agrees_with(direct)
        assert follower.counts.watches >= 2
        assert follower.counts.lists == lists, "what the server still knows need not be listed"
        assert follower.counts.failures == 1


async def test_watch_that_is_cut_again_and_again_loses_nothing(
    client: Client, direct: Client, proxy: Proxy, namespace: str
) -> None:
    await populate(direct, namespace)
    async with following(client, namespace) as follower:
        for number in range(5):
            await eventually(lambda: proxy.open_watches == 1)
            proxy.cut_watches()
            await change_everything(direct, namespace, f"round-{number}")
        await follower.agrees_with(direct)


async def test_silent_watch_ends_and_resumes_from_the_last_version(
    short_timeouts: Client, direct: Client, proxy: Proxy, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    await populate(direct, namespace)
    async with following(short_timeouts, namespace) as follower:
        await eventually(lambda: proxy.open_watches == 1)
        lists = follower.counts.lists
        proxy.silence_watches()
        await change_everything(direct, namespace)
        await follower.agrees_with(direct)
        assert follower.counts.lists == lists
        assert "received nothing" in caplog.text


async def test_server_that_stalls_altogether_is_followed_again_when_it_goes_on(
    short_timeouts: Client, direct: Client, proxy: Proxy, namespace: str
) -> None:
    await populate(direct, namespace)
    async with following(short_timeouts, namespace) as follower:
        proxy.stall()
        await change_everything(direct, namespace)
        failed = follower.counts.failures
        await eventually(
            lambda: follower.counts.failures >= failed + 2, what="a stalled watch and what followed it fail"
        )
        assert follower.informer.cache.list(), "what was known stays available"
        proxy.resume()
        await follower.agrees_with(direct)


@pytest.mark.parametrize("line", GARBAGE)
async def test_garbage_line_ends_the_watch_and_nothing_else(
    client: Client, direct: Client, proxy: Proxy, namespace: str, line: bytes
) -> None:
    await populate(direct, namespace)
    async with following(client, namespace) as follower:
        await eventually(lambda: proxy.open_watches == 1)
        await proxy.say(line)
        await change_everything(direct, namespace)
        await follower.agrees_with(direct)
        assert follower.counts.failures >= 1


async def test_line_that_is_garbage_each_time_is_got_round_by_a_list(
    client: Client, direct: Client, proxy: Proxy, namespace: str
) -> None:
    await populate(direct, namespace)
    async with following(client, namespace) as follower:
        proxy.change_line = lambda line: line.replace(b"metadata", b"metadatum") if b"poison" in line else line
        await put(direct, namespace, "cm-0", "poison")
        await change_everything(direct, namespace, "later")
        await follower.agrees_with(direct)


async def test_version_that_is_too_old_by_status_is_listed_anew(
    client: Client, direct: Client, proxy: Proxy, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    await populate(direct, namespace)
    async with following(client, namespace) as follower:
        gone = [status(410, "Expired")]
        with proxy.answering(lambda asked: gone.pop() if asked.is_watch and gone else None):
            await eventually(lambda: proxy.open_watches == 1)
            proxy.cut_watches()
            await change_everything(direct, namespace)
            await follower.agrees_with(direct)
        assert follower.counts.lists == 2
        assert "listing again" in caplog.text


async def test_version_that_is_too_old_by_an_event_is_listed_anew(
    client: Client, direct: Client, proxy: Proxy, namespace: str
) -> None:
    await populate(direct, namespace)
    async with following(client, namespace) as follower:
        await eventually(lambda: proxy.open_watches == 1)
        event = {"type": "ERROR", "object": status_document(410, "Expired")}
        await proxy.say(msgspec.json.encode(event))
        await change_everything(direct, namespace)
        await follower.agrees_with(direct)
        assert follower.counts.lists == 2


REFUSALS = [
    pytest.param(status(429, "TooManyRequests"), id="429"),
    pytest.param(status(429, "TooManyRequests", Retry_After="0.3"), id="429 with Retry-After"),
    pytest.param(status(500, "InternalError"), id="500"),
    pytest.param(status(503, "ServiceUnavailable", Retry_After="0.3"), id="503 with Retry-After"),
    pytest.param(Answer(502, b"<html>bad gateway</html>", {"Content-Type": "text/html"}), id="502 of a proxy"),
    pytest.param(Answer(302, b"", {"Location": "http://127.0.0.1:1/"}), id="302 to somewhere"),
    pytest.param(Answer(200, b"<html>sign in</html>", {"Content-Type": "text/html"}), id="200 of a captive portal"),
    pytest.param(status(403, "Forbidden"), id="403"),
]


@pytest.mark.parametrize("refusal", REFUSALS)
async def test_storm_of_refusals_is_weathered(
    client: Client, direct: Client, proxy: Proxy, namespace: str, refusal: Answer
) -> None:
    await populate(direct, namespace)
    async with following(client, namespace, backoff=HASTY) as follower:
        with proxy.answering(lambda _asked: refusal):
            proxy.cut_watches()
            await change_everything(direct, namespace)
            await eventually(lambda: follower.counts.failures >= 3)
            assert len(follower.informer.cache) == 6, "what was known stays available"
        await follower.agrees_with(direct)
        assert not follower.informer.last_error


@pytest.mark.parametrize("refusal", REFUSALS)
async def test_storm_at_the_first_list_is_weathered(
    client: Client, direct: Client, proxy: Proxy, namespace: str, refusal: Answer
) -> None:
    await populate(direct, namespace)
    asked = len(proxy.asked)
    with proxy.answering(lambda _asked: refusal):
        async with starting_to_follow(client, namespace, backoff=HASTY) as follower:
            await eventually(lambda: len(proxy.asked) >= asked + 3)
            assert not follower.informer.synced
            proxy.forget_rules()
            await follower.agrees_with(direct)


async def test_watch_is_not_asked_for_before_the_time_that_the_server_named(
    client: Client, direct: Client, proxy: Proxy, namespace: str
) -> None:
    refused: list[float] = []
    clock = asyncio.get_running_loop().time

    def refuse(asked: Asked) -> Answer | None:
        if asked.is_watch and len(refused) < 2:
            refused.append(clock())
            return status(429, "TooManyRequests", Retry_After="1")
        return None

    async with following(client, namespace) as follower:
        await eventually(lambda: proxy.open_watches == 1)
        with proxy.answering(refuse):
            proxy.cut_watches()
            await populate(direct, namespace)
            await follower.agrees_with(direct)
    assert len(refused) == 2
    assert refused[1] - refused[0] >= 1.0


async def test_refused_connections_are_tried_again_with_growing_pauses(
    client: Client, direct: Client, proxy: Proxy, namespace: str
) -> None:
    await populate(direct, namespace)
    async with following(client, namespace) as follower:
        lists = follower.counts.lists
        await proxy.refuse()
        await change_everything(direct, namespace)
        await eventually(lambda: follower.counts.failures >= 4)
        await proxy.accept()
        await follower.agrees_with(direct)
        assert follower.counts.lists == lists


async def test_change_arrives_while_another_follower_waits(
    short_timeouts: Client, direct: Client, proxy: Proxy, namespace: str
) -> None:
    await populate(direct, namespace)
    async with following(short_timeouts, namespace) as first, following(short_timeouts, namespace) as second:
        await eventually(lambda: proxy.open_watches == 2)
        proxy.silence_watches()
        await asyncio.gather(first.agrees_with(direct), second.agrees_with(direct))
