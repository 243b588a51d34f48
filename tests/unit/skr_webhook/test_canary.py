"""The event path is tested cheaply, found broken in time, and counts as working only once a canary is answered."""

import pytest

from lifecycle_manager.options.watcher import CanaryTimes, WatcherTimes
from lifecycle_manager.skr.watcher import is_canary
from lifecycle_manager.skr_webhook.canary import EventPath
from lifecycle_manager_api import WatchEvent
from lifecycle_manager_api.event import Watched, WatchedGvk
from skr_watcher.client import RESPONSE_SECONDS
from skr_watcher.settings import SkrWatcherSettings

TIMES = CanaryTimes()
START = 1000.0


class Follower:
    """Sends canaries when they are due, and lets time pass until there is something to do."""

    def __init__(self, share: float = 0.5) -> None:
        self.now = START
        self.path = EventPath.untested(TIMES, now=START, share=share)
        self.writes: list[bool] = []

    def send_if_due(self) -> bool:
        due = self.path.is_due(self.now)
        if due:
            write = self.path.is_write_due(self.now)
            self.path = self.path.sending(self.now).sent(self.now, write=write)
            self.writes.append(write)
        return due

    def follow(self, seconds: float, *, answered: bool) -> float | None:
        """Return after how many seconds the path was found broken, None where it was not."""
        started = self.now
        while self.now < started + seconds:
            if self.send_if_due() and answered:
                self.path = self.path.answered(self.now)
            if self.path.broken_for(self.now):
                return self.now - started
            self.now += self.path.check_after(self.now) + 0.01
        return None


def test_quiet_cluster_is_written_to_once_in_ten_minutes_and_tested_every_interval() -> None:
    follower = Follower()
    assert follower.follow(3600, answered=True) is None
    assert 29 <= len(follower.writes) <= 31
    assert 5 <= follower.writes.count(True) <= 7


@pytest.mark.parametrize("seconds", [1, 15, 37, 61, 100])
def test_broken_path_is_found_within_three_minutes_whenever_it_breaks(seconds: float) -> None:
    follower = Follower()
    assert follower.follow(seconds, answered=True) is None
    found = follower.follow(300, answered=False)
    assert found is not None
    assert found < 142


def test_broken_path_is_found_in_time_after_an_answer_just_before_the_next_test() -> None:
    following = START + TIMES.interval
    for seconds in (0.1, 0.4, 0.5, 1.0, 2.0):
        follower = Follower(share=0.0)
        follower.now = following - seconds
        follower.path = follower.path.sending(follower.now).answered(follower.now)
        found = follower.follow(300, answered=False)
        assert found is not None
        assert found < 142


def test_two_lost_canaries_or_an_answer_after_ten_seconds_are_no_fault() -> None:
    follower = Follower(share=0.0)
    assert follower.follow(TIMES.again + 1, answered=False) is None
    assert len(follower.writes) == 2
    assert follower.follow(100, answered=True) is None


def test_one_lost_heartbeat_is_no_silence() -> None:
    heartbeat = SkrWatcherSettings().heartbeat_seconds
    assert heartbeat + RESPONSE_SECONDS + 1 < WatcherTimes().silence < 60


def test_clusters_tested_together_after_a_pause_return_to_times_of_their_own() -> None:
    paths = [EventPath.untested(TIMES, now=START, share=share) for share in (0.1, 0.2, 0.3)]
    paused_until = START + 50
    tested = [path.sending(paused_until).answered(paused_until + 0.1) for path in paths]
    assert [path.check_after(START) for path in tested] == pytest.approx([132, 144, 156])
    for path in tested:
        following = START + path.check_after(START)
        assert path.sending(following).answered(following).check_after(following) == pytest.approx(TIMES.interval)


@pytest.mark.parametrize("late", [0.0, 0.05, 5.0, 119.8])
def test_late_answer_delays_no_later_canary(late: float) -> None:
    due = START + 0.5 * TIMES.interval
    path = EventPath.untested(TIMES, now=START, share=0.5).sending(due).answered(due + late)
    assert path.check_after(due) == pytest.approx(TIMES.interval)


def test_broken_path_is_tested_often_until_a_canary_is_answered() -> None:
    follower = Follower()
    follower.follow(100, answered=False)
    before = len(follower.writes)
    for _ in range(6):
        follower.now += TIMES.again
        follower.send_if_due()
    assert len(follower.writes) >= before + 5
    assert follower.path.broken_for(follower.now)
    assert not follower.path.answered(follower.now).broken_for(follower.now)


def test_canary_that_the_api_server_refuses_says_nothing_about_the_path() -> None:
    path = EventPath.untested(TIMES, now=START, share=0).sending(START).refused()
    assert not path.broken_for(START + 2 * TIMES.timeout)


def test_suspected_path_is_tested_at_once() -> None:
    path = EventPath.untested(TIMES, now=START, share=1)
    assert not path.is_due(START)
    assert path.suspected(START).is_due(START)


def test_path_that_a_former_process_found_broken_stays_so_until_a_canary_is_answered() -> None:
    path = EventPath.presumed_broken(TIMES, now=START)
    assert path.broken_for(START)
    assert path.check_after(START) == 0
    assert path.sending(START).broken_for(START)
    assert not path.answered(START).broken_for(START)


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
            id="another object",
        ),
    ],
)
def test_canary_is_distinguished_from_other_events(event: WatchEvent, *, answer: bool) -> None:
    assert is_canary(event) is answer
