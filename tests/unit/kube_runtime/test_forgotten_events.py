"""How long a recorder of Events remembers what it recorded, and of how many it does about one object."""

import asyncio
from typing import Any, cast

import pytest

from kube_runtime import Client, EventRecorder
from kube_runtime.event_recorder import EVENTS_AT_ONCE, SECONDS_FOR_ANOTHER
from tests.kinds import CONFIG_MAPS
from tests.unit.kube_runtime.test_events_at_the_stop import ABOUT

FORGET_SECONDS = 360.0


class Server:
    """Takes note of the Events that are created."""

    def __init__(self) -> None:
        self.created: list[str] = []

    async def create(self, _resource: object, document: Any, _namespace: str, *, field_manager: str) -> None:
        assert field_manager
        self.created.append(document["reason"])

    async def merge_patch(self, *_: object) -> None:
        """Count an Event on."""


@pytest.mark.looptime
async def test_event_that_goes_on_is_counted_on_whatever_else_was_recorded_before() -> None:
    server = Server()
    recorder = EventRecorder(
        cast("Client", server), controller="test", instance="here", capacity=2, forget_seconds=FORGET_SECONDS
    )
    running = asyncio.create_task(recorder.run())

    async def record(reason: str) -> None:
        recorder.record(CONFIG_MAPS, ABOUT, reason, "it is so")
        await asyncio.sleep(1.0)

    for reason in ("GoesOn", "One", "Two", "Three"):
        await record(reason)
    await asyncio.sleep(FORGET_SECONDS)
    for reason in ("GoesOn", "Another", "GoesOn"):
        await record(reason)
    running.cancel()
    assert server.created == ["GoesOn", "One", "Two", "Three", "GoesOn", "Another"]


@pytest.mark.looptime
async def test_many_different_events_about_one_object_leave_room_for_those_about_others() -> None:
    server = Server()
    recorder = EventRecorder(cast("Client", server), controller="test", instance="here")
    running = asyncio.create_task(recorder.run())
    other = {"metadata": {**ABOUT["metadata"], "name": "other", "uid": "of-another"}}
    for number in range(1_000):
        recorder.record(CONFIG_MAPS, ABOUT, "Changed", f"what a user wrote: {number}")
    recorder.record(CONFIG_MAPS, other, "Ready", "it is ready")
    await asyncio.sleep(0.0)
    assert server.created == ["Changed"] * EVENTS_AT_ONCE + ["Ready"]
    assert recorder.dropped == 1_000 - EVENTS_AT_ONCE
    await asyncio.sleep(SECONDS_FOR_ANOTHER)
    for number in range(10):
        recorder.record(CONFIG_MAPS, ABOUT, "ChangedLater", f"what a user wrote: {number}")
    await asyncio.sleep(0.0)
    running.cancel()
    assert server.created[-2:] == ["Ready", "ChangedLater"]
