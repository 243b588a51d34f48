"""What the caches hold at the start is skipped by later collections, and is freed all the same."""

import ctypes
import gc
import subprocess
import sys
import weakref
from collections.abc import Iterator

import pytest

from lifecycle_manager.process.tuning import SWITCH_SECONDS, tune_process

SIZE = 1_000_000

# Blocks that stay, between those that are freed, would keep the heap as large as it was.
BUFFERS_BETWEEN_BLOCKS_THAT_STAY = f"""
import asyncio
import resource
from pathlib import Path

from lifecycle_manager.process.tuning import tune_process


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


asyncio.run(tune_process())
freed = bytes({2 * SIZE})
del freed  # has the next ones come from the heap, without the tuning
buffers, between = [], []
for _ in range(100):
    buffers.append(bytearray({SIZE}))
    between.append(bytearray(10_000))
full = resident()
buffers.clear()
print(full, resident())
"""


class Thing:
    def __init__(self) -> None:
        self.self = self


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    before = sys.getswitchinterval()
    gc.unfreeze()  # what the tests' settings have set aside
    yield
    sys.setswitchinterval(before)
    gc.freeze()


async def test_what_is_there_at_the_start_is_skipped_by_later_collections() -> None:
    things = [Thing() for _ in range(100_000)]
    await tune_process()
    assert gc.get_freeze_count() > len(things)
    assert len(gc.get_objects()) < len(things)


async def test_what_was_set_aside_is_freed_when_nobody_refers_to_it() -> None:
    thing = Thing()
    del thing.self
    freed = weakref.ref(thing)
    await tune_process()
    del thing
    assert freed() is None


async def test_cycles_that_come_later_are_found() -> None:
    await tune_process()
    freed = weakref.ref(Thing())
    gc.collect()
    assert freed() is None


async def test_threads_that_compute_leave_the_interpreter_to_the_event_loop() -> None:
    await tune_process()
    assert sys.getswitchinterval() == pytest.approx(SWITCH_SECONDS)


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="the C library has no mallopt")
def test_buffers_go_back_to_the_system_with_their_connections() -> None:
    """In a process of its own: in another's heap, gaps that are already there would take some of the buffers."""
    ran = subprocess.run([sys.executable, "-c", BUFFERS_BETWEEN_BLOCKS_THAT_STAY], capture_output=True, check=True)
    full, left = map(int, ran.stdout.split())
    assert full - left > 90 * SIZE
