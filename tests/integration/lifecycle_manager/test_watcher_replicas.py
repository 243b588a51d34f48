"""Several Watchers behind one Service: changes go through each of them, and none is missed where one dies."""

import time
from collections.abc import AsyncIterator
from itertools import count

import pytest_asyncio

from kyma_demo.story import Story
from tests.integration.lifecycle_manager.black_hole import BlackHole
from tests.integration.lifecycle_manager.programs import Manager, manager_with
from tests.integration.lifecycle_manager.replicas import FIRST, SECOND, Replicas, two_watchers
from tests.integration.lifecycle_manager.watching import (
    INFRASTRUCTURE,
    changes_are_told,
    has_taken,
    is_well,
    moment,
    says_everywhere,
    told,
)
from tests.waiting import eventually

ALARM_SECONDS = 12.0  # of silence, or without an answer to a trial: by then the stage takes a way to be broken


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def manager(story: Story) -> AsyncIterator[Manager]:
    """The Lifecycle Manager, which reads Module CRs when it is told to, and otherwise not for longer than a test."""
    async with manager_with(story.cast, "--module-config-requeue-success-interval=10m") as manager:
        await eventually(lambda: is_well(story.stage))
        yield manager


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def way_of_first(story: Story, manager: Manager) -> AsyncIterator[BlackHole]:
    """The first Watcher's way to the control plane, which can be cut."""
    hole = BlackHole(("127.0.0.1", story.cast.event_port), passing=True)
    async with hole.open():
        yield hole


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def replicas(story: Story, way_of_first: BlackHole) -> AsyncIterator[Replicas]:
    async with two_watchers(story, way_of_first.port, story.cast.event_port) as replicas:
        yield replicas


async def test_changes_go_through_both_and_all_arrive(replicas: Replicas) -> None:
    created = await replicas.users_create_until_asked("both", FIRST, SECOND)
    await replicas.control_plane_has(created)
    await replicas.users_delete(created)


async def test_what_one_held_when_it_was_killed_is_not_missed(replicas: Replicas, way_of_first: BlackHole) -> None:
    """It had been asked about changes that it could not tell; the one in its place has everything read again."""
    way_of_first.swallow()
    created = await replicas.users_create_until_asked("held", FIRST)
    held = replicas.admitted(FIRST) & created
    await replicas.kill(FIRST)
    way_of_first.passing = True
    await replicas.control_plane_has(created - held)
    began = moment()
    await replicas.start(FIRST)
    await eventually(lambda: has_taken(replicas.story.stage, " /", began, "RESYNC"))
    await replicas.control_plane_has(created)
    await replicas.users_delete(created)
    await eventually(lambda: is_well(replicas.story.stage))


async def test_one_of_two_that_is_gone_is_no_false_alarm_and_both_are_told(
    replicas: Replicas, manager: Manager
) -> None:
    story, stage = replicas.story, replicas.story.stage
    await replicas.kill(FIRST)
    alone, began, capacities = time.monotonic(), moment(), count(700)

    async def has_gone_on_for_long() -> bool:
        await story.change_volume(f"{next(capacities)}Gi")
        assert await is_well(stage)
        return time.monotonic() - alone > 1.5 * ALARM_SECONDS

    await eventually(has_gone_on_for_long, every=0.5)
    assert has_taken(stage, INFRASTRUCTURE, began)
    assert await manager.sample("lifecycle_mgr_skr_event_path_broken{") is None
    assert not await told(stage, "WatcherSilent", began)
    assert not await told(stage, "EventPathBroken", began)

    await replicas.kill(SECOND)
    await eventually(lambda: says_everywhere(stage, manager, "WatcherSilent", began), within=120)
    await story.patch_volume("790Gi")  # the user's write meets no error
    await story.sees_volume("790Gi")
    await replicas.start(SECOND)
    await eventually(lambda: is_well(stage))
    await changes_are_told(story, 791)
    await replicas.start(FIRST)
