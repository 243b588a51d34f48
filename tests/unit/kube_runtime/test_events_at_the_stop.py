"""Events that were recorded before the stop are sent, also the one that is being sent when it comes."""

import asyncio

import pytest

from kube_runtime import Client, EventRecorder
from kube_simulation import NeverAnswer, SimulatedCluster
from tests.kinds import CONFIG_MAPS
from tests.waiting import eventually

ABOUT = {"metadata": {"name": "a", "namespace": "default", "uid": "u", "resourceVersion": "1"}}


@pytest.mark.parametrize("was_done", [False, True])
async def test_event_whose_request_was_cancelled_by_the_stop_is_sent_once(
    client: Client, cluster: SimulatedCluster, was_done: bool
) -> None:
    recorder = EventRecorder(client, controller="test", instance="here")
    unanswered = NeverAnswer(lambda request: request.method == "POST", times=1, after=was_done)
    with cluster.ruled_by(unanswered):
        running = asyncio.create_task(recorder.run())
        recorder.record(CONFIG_MAPS, ABOUT, "Stopped", "while it was recorded")
        await eventually(lambda: unanswered.seen)
        running.cancel()
        await asyncio.wait([running])
    assert [each["reason"] for each in cluster.objects() if each["kind"] == "Event"] == ["Stopped"]


async def test_events_that_wait_at_the_stop_are_sent_once(client: Client, cluster: SimulatedCluster) -> None:
    recorder = EventRecorder(client, controller="test", instance="here")
    running = asyncio.create_task(recorder.run())
    await asyncio.sleep(0)
    for number in range(3):
        recorder.record(CONFIG_MAPS, ABOUT, "Waiting", str(number))
    running.cancel()
    await asyncio.wait([running])
    found = [each for each in cluster.objects() if each["kind"] == "Event"]
    assert sorted(each["note"] for each in found) == ["0", "1", "2"]
    assert [each.get("series") for each in found] == [None, None, None]
    assert recorder.dropped == 0
