"""What survives a long collection is skipped by later ones, and is freed all the same."""

import gc
import sys
import weakref
from collections.abc import Iterator

import pytest

from lifecycle_manager.process.gc_tuning import SWITCH_SECONDS, collect_less, tune_garbage_collection


class Thing:
    def __init__(self) -> None:
        self.self = self


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    gc.unfreeze()  # what the tests' settings have set aside
    gc.collect()  # with CPython 3.12 it sets immortal objects aside
    before = gc.get_threshold(), list(gc.callbacks), gc.get_freeze_count()
    yield
    gc.collect()
    assert (gc.get_threshold(), list(gc.callbacks), gc.get_freeze_count()) == before
    gc.freeze()


def test_what_survives_a_long_collection_is_skipped_by_later_ones() -> None:
    things = [Thing() for _ in range(100_000)]
    undo = collect_less(long_seconds=0.0001)
    try:
        gc.collect()
        assert gc.get_freeze_count() > len(things)
        assert len(gc.get_objects()) < len(things)
    finally:
        undo()


def test_what_was_set_aside_is_freed_when_nobody_refers_to_it() -> None:
    thing = Thing()
    del thing.self
    freed = weakref.ref(thing)
    undo = collect_less(long_seconds=-1)
    try:
        gc.collect()
        del thing
        assert freed() is None
    finally:
        undo()


def test_short_collections_set_nothing_aside_and_find_cycles() -> None:
    before = gc.get_freeze_count()
    undo = collect_less(long_seconds=3600)
    try:
        freed = weakref.ref(Thing())
        gc.collect()
        assert freed() is None
        assert gc.get_freeze_count() == before
    finally:
        undo()


def test_no_full_collection_visits_more_than_came_since_the_last() -> None:
    looked_at: list[int] = []

    def count(phase: str, collection: dict[str, int]) -> None:
        if phase == "start" and collection["generation"] == 2:
            looked_at.append(len(gc.get_objects()))

    gc.freeze()  # what the test's own process has
    gc.collect()  # or the next one waits until there is a quarter more of that
    undo = collect_less(long_seconds=0)
    gc.callbacks.append(count)
    try:
        stays = [[number] for number in range(1_000_000)]
        assert gc.get_freeze_count() > len(stays) * 0.8
        assert looked_at
        assert max(looked_at) < 50_000
    finally:
        gc.callbacks.remove(count)
        undo()


def test_burst_that_leaves_nothing_is_not_searched() -> None:
    searched: list[str] = []

    def count(phase: str, collection: dict[str, int]) -> None:
        searched.append(phase)

    undo = collect_less()
    gc.collect()
    gc.callbacks.append(count)
    try:
        for _ in range(20):
            under_way = [[number] for number in range(5_000)]
            del under_way
        assert searched == []
    finally:
        gc.callbacks.remove(count)
        undo()


def test_threads_that_compute_leave_the_interpreter_to_the_event_loop() -> None:
    before = sys.getswitchinterval()
    undo = tune_garbage_collection()
    assert sys.getswitchinterval() == pytest.approx(SWITCH_SECONDS)
    undo()
    assert sys.getswitchinterval() == before
