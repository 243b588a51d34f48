"""A heartbeat is sent where nothing else showed that the Watcher is there, and only there."""

import asyncio
from dataclasses import dataclass, field

import pytest

from skr_watcher.heartbeat import send_heartbeats

MAX_QUIET_SECONDS = 40.0


@dataclass(eq=False)
class Received:
    """What the control plane received, and when; heartbeats are taken where `reached`."""

    reached: bool = True
    last: float = field(default_factory=lambda: asyncio.get_running_loop().time())
    beats: list[float] = field(default_factory=list)

    def quiet_seconds(self) -> float:
        return asyncio.get_running_loop().time() - self.last

    def event(self) -> None:
        self.last = asyncio.get_running_loop().time()

    def beat(self) -> None:
        self.beats.append(asyncio.get_running_loop().time())
        if self.reached:
            self.event()


async def watch(received: Received, *, events_every: float | None, seconds: float) -> None:
    async with asyncio.TaskGroup() as tasks:
        beating = tasks.create_task(
            send_heartbeats(received.quiet_seconds, received.beat, max_quiet_seconds=MAX_QUIET_SECONDS)
        )
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while (now := loop.time()) < until:
            await asyncio.sleep(min(events_every or seconds, until - now))
            if events_every is not None:
                received.event()
        beating.cancel()


@pytest.mark.looptime
async def test_watcher_that_sends_events_sends_no_heartbeat() -> None:
    received = Received()
    await watch(received, events_every=30, seconds=3600)
    assert received.beats == []


@pytest.mark.looptime
async def test_quiet_watcher_sends_a_heartbeat_within_the_interval_and_no_more() -> None:
    received = Received()
    await watch(received, events_every=None, seconds=3600)
    pauses = [after - before for before, after in zip(received.beats, received.beats[1:], strict=False)]
    assert len(pauses) >= 3600 / MAX_QUIET_SECONDS - 2
    assert all(0.95 * MAX_QUIET_SECONDS <= pause <= MAX_QUIET_SECONDS + 0.01 for pause in pauses)


@pytest.mark.looptime
async def test_heartbeats_that_fail_do_not_accumulate() -> None:
    received = Received(reached=False)
    await watch(received, events_every=None, seconds=3600)
    assert len(received.beats) <= 3600 / (0.95 * MAX_QUIET_SECONDS) + 1
