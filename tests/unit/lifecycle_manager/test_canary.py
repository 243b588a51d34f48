"""The way of events is tried cheaply, found broken in time, and thought well only after a trial was answered."""

from collections.abc import Mapping
from typing import Any, cast

import pytest

from kube_runtime import Client, ObjectKey
from lifecycle_manager.skr_webhook import Canaries, CanaryTimes, is_canary
from lifecycle_manager_api import WatchEvent
from lifecycle_manager_api.event import Watched, WatchedGvk

KEY = ObjectKey("kcp-system", "demo")
TIMES = CanaryTimes(interval=30, patience=20, again=5, write_interval=600)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Cluster:
    """Takes trials; says of each whether it was a dry run."""

    def __init__(self) -> None:
        self.dry_runs: list[bool] = []
        self.refuses = False

    async def apply(self, *_: Any, dry_run: bool, **__: Any) -> Mapping[str, Any]:
        if self.refuses:
            raise ConnectionError
        self.dry_runs.append(dry_run)
        return {}


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def canaries(clock: Clock) -> Canaries:
    return Canaries(TIMES, clock)


async def follow(canaries: Canaries, clock: Clock, cluster: Cluster, seconds: float, *, answered: bool) -> float | None:
    """Let time pass, looking whenever there is something to do; return after how long the way was found broken."""
    started = clock.now
    while clock.now < started + seconds:
        sent = len(cluster.dry_runs)
        await canaries.try_when_due(KEY, cast("Client", cluster))
        if answered and len(cluster.dry_runs) > sent:
            canaries.came_back(KEY)
        if canaries.broken_for(KEY):
            return clock.now - started
        clock.now += canaries.look_again_after(KEY) + 0.01
    return None


async def test_quiet_cluster_is_written_to_once_in_ten_minutes_and_tried_twice_a_minute(
    canaries: Canaries, clock: Clock
) -> None:
    cluster = Cluster()
    assert await follow(canaries, clock, cluster, 3600, answered=True) is None
    assert 115 <= len(cluster.dry_runs) <= 121
    assert 5 <= cluster.dry_runs.count(False) <= 7


async def test_broken_way_is_found_within_a_minute_whenever_it_breaks(canaries: Canaries, clock: Clock) -> None:
    cluster = Cluster()
    assert await follow(canaries, clock, cluster, 100, answered=True) is None
    found = await follow(canaries, clock, cluster, 100, answered=False)
    assert found is not None
    assert found < 52


async def test_broken_way_is_tried_often_until_a_trial_is_answered(canaries: Canaries, clock: Clock) -> None:
    cluster = Cluster()
    await follow(canaries, clock, cluster, 100, answered=False)
    before = len(cluster.dry_runs)
    for _ in range(6):
        clock.now += TIMES.again
        await canaries.try_when_due(KEY, cast("Client", cluster))
    assert len(cluster.dry_runs) >= before + 5
    assert canaries.came_back(KEY)
    assert not canaries.broken_for(KEY)
    assert not canaries.came_back(KEY)


async def test_cluster_that_refuses_the_trial_says_nothing_of_the_way(canaries: Canaries, clock: Clock) -> None:
    cluster = Cluster()
    cluster.refuses = True
    clock.now += TIMES.interval
    canaries.suspect(KEY)
    with pytest.raises(ConnectionError):
        await canaries.try_when_due(KEY, cast("Client", cluster))
    clock.now += TIMES.patience
    assert not canaries.broken_for(KEY)


async def test_suspicion_has_the_way_tried_at_once(canaries: Canaries) -> None:
    cluster = Cluster()
    canaries.suspect(KEY)
    await canaries.try_when_due(KEY, cast("Client", cluster))
    assert len(cluster.dry_runs) == 1


def test_way_that_a_former_process_found_broken_stays_so_until_it_is_tried(canaries: Canaries) -> None:
    canaries.take_over_broken(KEY)
    assert canaries.broken_for(KEY)
    assert canaries.look_again_after(KEY) == 0
    canaries.came_back(KEY)
    canaries.take_over_broken(KEY)
    assert not canaries.broken_for(KEY)


@pytest.mark.parametrize(
    ("event", "answer"),
    [
        pytest.param(WatchEvent(operation="HEARTBEAT", watched=Watched(name="canary")), True, id="answer to a dry run"),
        pytest.param(WatchEvent(operation="HEARTBEAT", watched=Watched(name="heartbeat")), False, id="heartbeat"),
        pytest.param(
            WatchEvent(
                operation="UPDATE",
                watched=Watched(namespace="kyma-system", name="skr-webhook"),
                watched_gvk=WatchedGvk(group="", version="v1", kind="ServiceAccount"),
            ),
            True,
            id="answer to a write",
        ),
        pytest.param(
            WatchEvent(
                operation="UPDATE",
                watched=Watched(namespace="other", name="skr-webhook"),
                watched_gvk=WatchedGvk(group="", version="v1", kind="ServiceAccount"),
            ),
            False,
            id="somebody else's",
        ),
    ],
)
def test_answer_to_a_trial_is_told_from_other_events(event: WatchEvent, *, answer: bool) -> None:
    assert is_canary(event) is answer
