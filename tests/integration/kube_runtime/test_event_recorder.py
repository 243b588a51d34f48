"""Events tell what happened, where `kubectl describe` shows it, and never get in the way."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kube_runtime import Client, EventRecorder
from tests.kinds import CONFIG_MAPS, EVENTS
from tests.waiting import eventually

pytestmark = pytest.mark.parametrize("kcp", ["real", "simulated"], indirect=True)


@asynccontextmanager
async def recording(client: Client, **options: Any) -> AsyncIterator[EventRecorder]:
    """Have a recorder send while the block runs."""
    recorder = EventRecorder(client, controller="the-tests", instance="here", **options)
    sending = asyncio.ensure_future(recorder.run())
    await asyncio.sleep(0)  # a task that is cancelled before its first turn does nothing, not even at its end
    try:
        yield recorder
    finally:
        sending.cancel()
        await asyncio.wait({sending})


async def make(client: Client, namespace: str) -> dict[str, Any]:
    return await client.create(CONFIG_MAPS, {"metadata": {"name": "one"}}, namespace, field_manager="test")


async def events_of(
    client: Client, namespace: str, wanted: Callable[[list[dict[str, Any]]], bool] = bool
) -> list[dict[str, Any]]:
    """Wait until the events of a namespace are as wanted."""

    async def there() -> list[dict[str, Any]] | None:
        listed = list((await client.list(EVENTS, namespace)).items)
        return listed if wanted(listed) else None

    return await eventually(there)


async def test_event_says_what_happened_with_which_object(client: Client, namespace: str) -> None:
    item = await make(client, namespace)
    async with recording(client) as recorder:
        recorder.record(CONFIG_MAPS, item, "Greeted", "said hello", type="Normal", action="Greet")

        (event,) = await events_of(client, namespace)

    assert (event["type"], event["reason"], event["note"], event["action"]) == (
        "Normal",
        "Greeted",
        "said hello",
        "Greet",
    )
    assert event["regarding"]["uid"] == item["metadata"]["uid"]
    assert event["reportingController"] == "the-tests"


async def test_same_event_over_and_over_is_one_with_a_count(client: Client, namespace: str) -> None:
    item = await make(client, namespace)
    async with recording(client) as recorder:
        for _ in range(50):
            recorder.record(CONFIG_MAPS, item, "Failed", "no answer", type="Warning")
        (event,) = await events_of(client, namespace)

    assert event["series"]["count"] == 50


async def test_long_words_are_cut_and_not_refused(client: Client, namespace: str) -> None:
    item = await make(client, namespace)
    async with recording(client) as recorder:
        recorder.record(CONFIG_MAPS, item, "R" * 500, "ü" * 5000, type="Warning")

        (event,) = await events_of(client, namespace)

    assert recorder.dropped == 0
    assert len(event["note"].encode()) <= 1024


async def test_what_cannot_be_sent_is_dropped_and_counted(client: Client, namespace: str) -> None:
    item = await make(client, namespace)
    nowhere = {**item, "metadata": {**item["metadata"], "namespace": "nowhere-at-all"}}
    async with recording(client, capacity=3) as recorder:
        for number in range(10):
            recorder.record(CONFIG_MAPS, nowhere, "Failed", f"number {number}")
        await eventually(lambda: recorder.dropped == 10)
        recorder.record(CONFIG_MAPS, item, "Fine", "goes on")

        assert [event["reason"] for event in await events_of(client, namespace)] == ["Fine"]
