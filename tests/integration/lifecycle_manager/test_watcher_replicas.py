"""Several Watchers behind one Service: changes are reported through each, and none is lost if one is killed."""

import time
from collections.abc import AsyncIterator
from itertools import count

import pytest_asyncio

from kyma_demo.walkthrough import Walkthrough
from tests.integration.lifecycle_manager.event_path import (
    INFRASTRUCTURE,
    changes_are_reported,
    has_received,
    is_event_recorded,
    is_reported_everywhere,
    is_watcher_ready,
    moment,
)
from tests.integration.lifecycle_manager.programs import Manager
from tests.integration.lifecycle_manager.unresponsive_server import UnresponsiveServer
from tests.integration.lifecycle_manager.watcher_replicas import FIRST, SECOND, WatcherReplicas, two_watchers
from tests.waiting import eventually

ALARM_SECONDS = 12.0  # without events or canaries until the event path counts as broken in these tests


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def connection_of_first(walkthrough: Walkthrough, on_events_only: Manager) -> AsyncIterator[UnresponsiveServer]:
    """The first Watcher's connection to the control plane, which can be interrupted."""
    proxy = UnresponsiveServer(("127.0.0.1", walkthrough.programs.event_port), forwarding=True)
    async with proxy.open():
        yield proxy


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def replicas(walkthrough: Walkthrough, connection_of_first: UnresponsiveServer) -> AsyncIterator[WatcherReplicas]:
    async with two_watchers(walkthrough, connection_of_first.port, walkthrough.programs.event_port) as replicas:
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
    await eventually(lambda: has_received(replicas.walkthrough.environment, " /", began, "RESYNC"))
    await replicas.wait_until_known(created)
    await replicas.delete(created)
    await eventually(lambda: is_watcher_ready(replicas.walkthrough.environment))


async def test_watcher_is_reported_silent_only_when_both_replicas_are_gone(
    replicas: WatcherReplicas, on_events_only: Manager
) -> None:
    walkthrough, environment = replicas.walkthrough, replicas.walkthrough.environment
    await replicas.kill(FIRST)
    alone, began, capacities = time.monotonic(), moment(), count(700)

    async def ran_long_enough() -> bool:
        await walkthrough.change_volume(f"{next(capacities)}Gi")
        assert await is_watcher_ready(environment)
        return time.monotonic() - alone > 1.5 * ALARM_SECONDS

    await eventually(ran_long_enough, every=0.5)
    assert has_received(environment, INFRASTRUCTURE, began)
    assert await on_events_only.sample("lifecycle_mgr_skr_event_path_broken{") is None
    assert not await is_event_recorded(environment, "WatcherSilent", began)
    assert not await is_event_recorded(environment, "EventPathBroken", began)

    await replicas.kill(SECOND)
    await eventually(lambda: is_reported_everywhere(environment, on_events_only, "WatcherSilent", began), within=120)
    await walkthrough.patch_volume("790Gi")  # the user's write meets no error
    await walkthrough.wait_for_volume("790Gi")
    await replicas.start(SECOND)
    await eventually(lambda: is_watcher_ready(environment))
    await changes_are_reported(walkthrough, 791)
    await replicas.start(FIRST)
