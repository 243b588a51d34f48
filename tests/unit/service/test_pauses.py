"""What the caches hold at the start is skipped by later collections, and is freed all the same."""

import gc
import sys
import weakref
from collections.abc import Iterator

import pytest

from lifecycle_manager.process.gc_tuning import SWITCH_SECONDS, tune_garbage_collection


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
    await tune_garbage_collection()
    assert gc.get_freeze_count() > len(things)
    assert len(gc.get_objects()) < len(things)


async def test_what_was_set_aside_is_freed_when_nobody_refers_to_it() -> None:
    thing = Thing()
    del thing.self
    freed = weakref.ref(thing)
    await tune_garbage_collection()
    del thing
    assert freed() is None


async def test_cycles_that_come_later_are_found() -> None:
    await tune_garbage_collection()
    freed = weakref.ref(Thing())
    gc.collect()
    assert freed() is None


async def test_threads_that_compute_leave_the_interpreter_to_the_event_loop() -> None:
    await tune_garbage_collection()
    assert sys.getswitchinterval() == pytest.approx(SWITCH_SECONDS)
