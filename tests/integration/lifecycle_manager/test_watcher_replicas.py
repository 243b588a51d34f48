"""Several Watchers behind one Service: changes are reported through each, and none is lost if one is killed."""

import time
from collections.abc import AsyncIterator
from itertools import count

import pytest_asyncio

from kyma_demo.story import Story
from tests.integration.lifecycle_manager.event_path import (
    INFRASTRUCTURE,
    changes_are_reported,
    has_received,
    is_event_recorded,
    is_reported_everywhere,
    is_watcher_ready,
    moment,
)
from tests.integration.lifecycle_manager.programs import Manager, manager_with
from tests.integration.lifecycle_manager.unresponsive_server import UnresponsiveServer
from tests.integration.lifecycle_manager.watcher_replicas import FIRST, SECOND, WatcherReplicas, two_watchers
from tests.waiting import eventually

ALARM_SECONDS = 12.0  # without events or canaries until the event path counts as broken in these tests


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def manager(story: Story) -> AsyncIterator[Manager]:
    """The Lifecycle Manager, which reads Module CRs on events only; the interval is longer than a test."""
    async with manager_with(story.cast, "--module-config-requeue-success-interval=10m") as manager:
        await eventually(lambda: is_watcher_ready(story.stage))
        yield manager


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def connection_of_first(story: Story, manager: Manager) -> AsyncIterator[UnresponsiveServer]:
    """The first Watcher's connection to the control plane, which can be interrupted."""
    proxy = UnresponsiveServer(("127.0.0.1", story.cast.event_port), forwarding=True)
    async with proxy.open():
        yield proxy


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def replicas(story: Story, connection_of_first: UnresponsiveServer) -> AsyncIterator[WatcherReplicas]:
    async with two_watchers(story, connection_of_first.port, story.cast.event_port) as replicas:
        yield replicas


async def test_changes_are_reported_through_both_replicas(replicas: WatcherReplicas) -> None:
    created = await replicas.create_until_admitted_by("both", FIRST, SECOND)
    await replicas.wait_until_known(created)
    await replicas.delete(created)


async def test_pending_events_of_a_killed_replica_are_replaced_by_a_resync(
    replicas: WatcherReplicas, connection_of_first: UnresponsiveServer
) -> None:
    """It had admitted changes that it could not report; after its start every object is read again."""
    connection_of_first.stop_forwarding()
    created = await replicas.create_until_admitted_by("held", FIRST)
    held = replicas.admitted(FIRST) & created
    await replicas.kill(FIRST)
    connection_of_first.forwarding = True
    await replicas.wait_until_known(created - held)
    began = moment()
    await replicas.start(FIRST)
    await eventually(lambda: has_received(replicas.story.stage, " /", began, "RESYNC"))
    await replicas.wait_until_known(created)
    await replicas.delete(created)
    await eventually(lambda: is_watcher_ready(replicas.story.stage))


async def test_watcher_is_reported_silent_only_when_both_replicas_are_gone(
    replicas: WatcherReplicas, manager: Manager
) -> None:
    story, stage = replicas.story, replicas.story.stage
    await replicas.kill(FIRST)
    alone, began, capacities = time.monotonic(), moment(), count(700)

    async def ran_long_enough() -> bool:
        await story.change_volume(f"{next(capacities)}Gi")
        assert await is_watcher_ready(stage)
        return time.monotonic() - alone > 1.5 * ALARM_SECONDS

    await eventually(ran_long_enough, every=0.5)
    assert has_received(stage, INFRASTRUCTURE, began)
    assert await manager.sample("lifecycle_mgr_skr_event_path_broken{") is None
    assert not await is_event_recorded(stage, "WatcherSilent", began)
    assert not await is_event_recorded(stage, "EventPathBroken", began)

    await replicas.kill(SECOND)
    await eventually(lambda: is_reported_everywhere(stage, manager, "WatcherSilent", began), within=120)
    await story.patch_volume("790Gi")  # the user's write meets no error
    await story.sees_volume("790Gi")
    await replicas.start(SECOND)
    await eventually(lambda: is_watcher_ready(stage))
    await changes_are_reported(story, 791)
    await replicas.start(FIRST)
