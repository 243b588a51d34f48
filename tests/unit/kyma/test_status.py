"""The status of a Kyma is written once for each change, and both sides show the same."""

from datetime import timedelta

import pytest

from kube_runtime import NotFound, NotServed
from kube_simulation import Freeze
from lifecycle_manager.contract.conditions import WEBHOOK, write_condition
from lifecycle_manager_api import ConditionStatus, find
from tests.waiting import eventually
from tests.world import World, open_world

READY: tuple[ConditionStatus, str, str] = ("True", "WatcherReady", "kinds of Module CR that are watched: 1")


async def test_status_is_not_written_again_while_the_watch_is_a_write_behind(world: World) -> None:
    await world.register()
    await world.introduced()
    kcp = world.cluster("kcp")
    world.unseen.add("kymas")
    with kcp.ruled_by(Freeze(kcp.version, lambda request: "/kymas" in request.path)):
        await world.choose("unknown")
        await world.reconcile()
        world.clock.advance(5)
        before = world.requests
        await world.reconcile()
        assert world.writes_to("demo", before) == world.writes_to("kcp", before) == []


async def in_step(world: World) -> bool:
    """Tell whether the SKR shows the Watcher's condition of KCP."""
    try:
        inner = find((await world.in_skr()).status.conditions, WEBHOOK)
    except (NotFound, NotServed):
        return False
    outer = find((await world.in_kcp()).status.conditions, WEBHOOK)
    if inner is None or outer is None:
        return False
    return (inner.message, inner.last_transition_time) == (outer.message, outer.last_transition_time)


@pytest.mark.parametrize("message", [READY[2], "kinds of Module CR that are watched: 2"])
async def test_message_and_time_of_another_domains_condition_are_shown_in_the_skr_at_once(message: str) -> None:
    """Found in a resync of unchanged Kymas: some SKRs had another time, since only status and reason were compared."""
    async with open_world() as world, world.running():
        await world.register()
        await eventually(lambda: is_introduced(world), what="the Kyma is introduced")
        before = await world.in_kcp()
        for condition, seconds in (READY, 0), ((*READY[:2], message), 3):
            now = world.clock.now() + timedelta(seconds=seconds)
            # A domain that decides from a cache one write behind writes the same condition with another time.
            await write_condition(world.kcp, before, WEBHOOK, condition, now=now, field_manager="webhook")
            await eventually(lambda: in_step(world), what="the SKR shows the condition")


async def is_introduced(world: World) -> bool:
    return bool((await world.in_kcp()).status.state)
