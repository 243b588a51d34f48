"""A list that fails half way, or is older than what was seen: nothing is lost, and no resourceVersion decreases."""

from collections.abc import Callable

import msgspec
import pytest

from kube_runtime import Backoff, Client
from tests.chaos.kube_runtime.following import change_everything, following, populate, put, starting_to_follow
from tests.chaos.proxy import Answer, Asked, Proxy, Rule, status
from tests.kinds import CONFIG_MAPS
from tests.waiting import eventually


def at_page(number: int, answers: list[Answer]) -> Rule:
    """Return a rule that gives the answers, one each time, to those who ask for that page of a list or a later one."""
    pages: list[Asked] = []

    def rule(asked: Asked) -> Answer | None:
        if not asked.is_list:
            return None
        if "continue" not in asked.query:
            pages.clear()
        pages.append(asked)
        return answers.pop(0) if answers and len(pages) >= number else None

    return rule


@pytest.mark.parametrize(
    "refusal",
    [status(410, "Expired"), status(500, "InternalError"), Answer(200, b'{"items": [')],
    ids=["410", "500", "torn"],
)
async def test_list_that_fails_in_the_middle_is_begun_again(
    client: Client, direct: Client, proxy: Proxy, namespace: str, refusal: Answer
) -> None:
    await populate(direct, namespace)
    with proxy.answering(at_page(2, [refusal])):
        async with starting_to_follow(client, namespace) as follower:
            await follower.agrees_with(direct)
            await change_everything(direct, namespace)
            await follower.agrees_with(direct)
            assert follower.counts.lists == 2


async def test_list_whose_pages_expire_each_time_is_asked_for_as_a_whole(
    client: Client, direct: Client, proxy: Proxy, namespace: str
) -> None:
    """Where the pages take longer than the server remembers, pages would never come to an end."""
    await populate(direct, namespace)
    with proxy.answering(lambda asked: status(410, "Expired") if "continue" in asked.query else None):
        async with starting_to_follow(client, namespace) as follower:
            await follower.agrees_with(direct)
            assert follower.counts.lists == 2
    assert [asked.query.get("limit") for asked in proxy.asked if asked.is_list] == ["2", "2", None]


async def test_objects_that_went_while_nobody_listened_are_removed(
    client: Client, direct: Client, proxy: Proxy, namespace: str
) -> None:
    await populate(direct, namespace)
    async with following(client, namespace) as follower:
        await proxy.refuse()
        for number in range(6):
            await direct.delete(CONFIG_MAPS, f"cm-{number}", namespace)
        await put(direct, namespace, "other", "1")
        gone = [status(410, "Expired")]
        with proxy.answering(lambda asked: gone.pop() if asked.is_watch and gone else None):
            await proxy.accept()
            await follower.agrees_with(direct)


async def older_list(direct: Client, namespace: str) -> Answer:
    """Return the answer to a list of now, to be given when it is long outdated."""
    listed = await direct.list(CONFIG_MAPS, namespace)
    document = {
        "kind": "ConfigMapList",
        "apiVersion": "v1",
        "metadata": {"resourceVersion": listed.resource_version},
        "items": listed.items,
    }
    return Answer(200, msgspec.json.encode(document), {"Content-Type": "application/json"})


async def read_again(proxy: Proxy) -> None:
    """Put into the watch what can't be read, after which everything is listed."""
    await eventually(lambda: proxy.open_watches == 1)
    await proxy.say(b"garbage")


def lists_are(answers: Callable[[], Answer | None]) -> Rule:
    return lambda asked: answers() if asked.is_list else None


async def test_list_from_the_past_is_refused(
    client: Client, direct: Client, proxy: Proxy, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    await populate(direct, namespace)
    old = await older_list(direct, namespace)
    async with following(client, namespace) as follower:
        await change_everything(direct, namespace)
        await follower.agrees_with(direct)
        before = follower.cached()
        stale = [old, old]
        with proxy.answering(lists_are(lambda: stale.pop() if stale else None)):
            await read_again(proxy)
            await eventually(lambda: not stale)
            assert follower.cached() == before, "the cache does not go back"
            await change_everything(direct, namespace, "later")
            await follower.agrees_with(direct)
        assert "older than" in caplog.text


async def test_list_older_than_the_pages_of_one_that_failed_is_refused(
    client: Client, direct: Client, proxy: Proxy, namespace: str
) -> None:
    """What a list showed before it broke was seen as well."""
    await populate(direct, namespace)
    old = await older_list(direct, namespace)
    await change_everything(direct, namespace)
    answers: list[Answer | None] = [None, status(500, "InternalError"), old]
    with proxy.answering(lists_are(lambda: answers.pop(0) if answers else None)):
        async with starting_to_follow(client, namespace) as follower:
            await eventually(lambda: not answers)
            await follower.agrees_with(direct)


async def test_server_that_lost_its_past_for_good_is_followed_there(
    client: Client, direct: Client, proxy: Proxy, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A cluster that was restored from a backup has lower versions than were seen before."""
    await populate(direct, namespace)
    old = await older_list(direct, namespace)
    async with following(client, namespace, backoff=Backoff(base=0.02, max=0.2)) as follower:
        await change_everything(direct, namespace)
        await follower.agrees_with(direct)
        with (
            proxy.answering(lists_are(lambda: old)),
            proxy.answering(lambda asked: status(503, "ServiceUnavailable") if asked.is_watch else None),
        ):
            await read_again(proxy)
            restored = {str(CONFIG_MAPS.key_of(item)): item for item in msgspec.json.decode(old.body)["items"]}
            await eventually(
                lambda: {str(key) for key in follower.cached()} == restored.keys(), what="the cache is the backup"
            )
        assert "decreased" in caplog.text
        await follower.follows_into_the_past(direct)


async def test_watch_that_begins_in_the_past_does_not_take_the_cache_there_for_good(
    client: Client, direct: Client, proxy: Proxy, namespace: str
) -> None:
    await populate(direct, namespace)
    past = (await direct.list(CONFIG_MAPS, namespace)).resource_version
    async with following(client, namespace) as follower:
        await change_everything(direct, namespace)
        await change_everything(direct, namespace, "later")
        await direct.delete(CONFIG_MAPS, "new-changed", namespace)
        await follower.agrees_with(direct)
        proxy.change_target = lambda asked: {**asked.query, "resourceVersion": past} if asked.is_watch else asked.query
        proxy.cut_watches()
        watches = follower.counts.watches
        await eventually(lambda: follower.counts.watches > watches)
        await put(direct, namespace, "cm-5", "last")
        await follower.agrees_with(direct)
