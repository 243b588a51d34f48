"""Changes wait in bounded memory, the newest of each object, in order, for as long as it takes."""

import asyncio
from dataclasses import replace

import pytest

from skr_watcher.changes import ObjectChange
from skr_watcher.outbox import RESYNC, Entry, Outbox

CHANGE = ObjectChange("m", "g", "v1", "Thing", "ns", "one", "UPDATE", "u", "1", 1)
RESYNC_CHANGE = replace(CHANGE, name="", operation=RESYNC)


def entry(name: str = "one", *, version: str = "1", sequence: int = 1) -> Entry:
    return Entry(replace(CHANGE, name=name, resource_version=version), sequence, 0.0, f"id-{sequence}", "")


def outbox(most: int = 100) -> Outbox:
    return Outbox(most)


async def takes_nothing(box: Outbox) -> bool:
    taking = asyncio.ensure_future(box.take())
    await asyncio.sleep(0)
    waiting = not taking.done()
    taking.cancel()
    await asyncio.gather(taking, return_exceptions=True)
    return waiting


async def test_burst_of_changes_of_one_object_becomes_its_newest_change() -> None:
    box = outbox()
    for version in range(5):
        box.put(entry(version=str(version), sequence=version))
    assert (await box.take()).change.resource_version == "4"
    assert await takes_nothing(box)


async def test_change_waits_while_another_of_its_object_is_being_sent() -> None:
    box = outbox()
    box.put(entry(version="1"))
    first = await box.take()
    box.put(entry(version="2"))
    assert await takes_nothing(box)
    box.done(first)
    assert (await box.take()).change.resource_version == "2"


async def test_other_objects_do_not_wait() -> None:
    box = outbox()
    box.put(entry("one"))
    await box.take()
    box.put(entry("two"))
    assert (await box.take()).change.name == "two"


@pytest.mark.looptime
async def test_failed_change_is_retried_after_its_pause() -> None:
    box = outbox()
    box.put(entry())
    first = await box.take()
    box.retry(first, 0.05)
    assert await takes_nothing(box)
    async with asyncio.timeout(5):
        assert await box.take() == first


@pytest.mark.looptime
async def test_short_pause_of_another_failure_does_not_end_a_long_one() -> None:
    loop, box = asyncio.get_running_loop(), outbox()
    for name in ("one", "two", "three"):
        box.put(entry(name))
    first, second, third = [await box.take() for _ in range(3)]
    began = loop.time()
    box.retry(first, 1.0)
    box.retry(second, 60.0)  # Retry-After
    box.retry(third, 0.1)
    assert (await box.take()).change.name == "one"
    assert 59.9 < loop.time() - began < 60.1


@pytest.mark.looptime
async def test_pause_that_was_ended_early_holds_no_later_one() -> None:
    loop, box = asyncio.get_running_loop(), outbox()
    box.put(entry("one"))
    box.retry(await box.take(), 60.0)
    box.hurry()
    box.retry(await box.take(), 1.0)
    began = loop.time()
    await box.take()
    assert 0.9 < loop.time() - began < 1.1


async def test_newer_change_replaces_a_failed_one() -> None:
    box = outbox()
    box.put(entry(version="1"))
    first = await box.take()
    box.put(entry(version="2"))
    box.retry(first, 0)
    assert (await box.take()).change.resource_version == "2"


async def test_overflow_drops_all_entries_but_a_resync_and_is_reported() -> None:
    box = outbox(most=10)
    box.put(Entry(RESYNC_CHANGE, 1, 0.0, "id-1", ""))
    had_room = [box.put(entry(f"object-{number}", sequence=number)) for number in range(1000)]
    assert had_room.count(False) == box.overflows == 100
    assert 1 <= len(box) <= 10
    assert (await box.take()).change.operation == RESYNC


async def test_resync_has_room_in_a_full_outbox() -> None:
    box = outbox(most=10)
    for number in range(10):
        box.put(entry(f"object-{number}"))
    assert box.put(Entry(RESYNC_CHANGE, 99, 0.0, "id-99", ""))
    assert len(box) == 11


async def test_drained_waits_for_entries_in_flight() -> None:
    box = outbox()
    box.put(entry())
    draining = asyncio.ensure_future(box.drained())
    first = await box.take()
    await asyncio.sleep(0)
    assert not draining.done()
    box.done(first)
    await draining


@pytest.mark.looptime
async def test_resync_does_not_wait_for_pending_entries() -> None:
    """It makes up for everything; behind thousands of entries, at the pace of sending, it would come minutes late."""
    box = outbox()
    for number in range(50):
        box.put(entry(f"object-{number}"))
    box.put(Entry(RESYNC_CHANGE, 99, 0.0, "id-99", ""))
    resync = await box.take()
    assert resync.change.operation == RESYNC
    box.retry(resync, 1.0)
    first = await box.take()
    assert first.change.name == "object-0", "one that always fails must not hold up the others"
    box.done(first)
    assert (await box.take()).change.operation == RESYNC
