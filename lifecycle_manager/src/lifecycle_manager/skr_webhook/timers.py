"""What one process remembers of one Watcher: its last event, when to compare its objects and to test its path.

All of it is lost with the process, and a new one does without: it spreads the first comparison and the first canary
over their intervals, and takes over from the condition what a former process has found. Times are monotonic seconds.
"""

from dataclasses import dataclass, field, replace

from lifecycle_manager.contract.options import Seconds, option
from lifecycle_manager.skr_webhook.canary import CanaryTimes, EventPath

FAULT_REPAIR_SECONDS = 30.0
"""How often the Watcher's objects are compared and repaired while no events arrive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatcherTimes:
    """Intervals of the controller, in seconds."""

    interval: Seconds = option(
        300.0, "watcher-requeue-success-interval", "interval at which the Watcher of an SKR is reconciled"
    )
    silence: Seconds = option(55.0, "watcher-silence", "time without any event after which a Watcher counts as silent")
    canary: CanaryTimes = field(default_factory=CanaryTimes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timers:
    """`since`: from when on a Watcher without any event counts as silent. `repair_at`: when to compare its objects.

    `share`, 0 to 1, is this Watcher's place in intervals over which work is spread.
    """

    since: float
    repair_at: float
    share: float
    last_event_at: float | None = None
    path: EventPath | None = None

    @classmethod
    def started(cls, times: WatcherTimes, *, now: float, share: float) -> "Timers":
        """Return the timers of a process that has just begun to manage a Watcher."""
        return cls(since=now, repair_at=now + times.interval * share, share=share)

    @property
    def has_received(self) -> bool:
        """Whether this process has received an event of the Watcher."""
        return self.last_event_at is not None

    def silent_for(self, now: float) -> float:
        """Return the seconds without an event; what a former process received does not count."""
        return now - (self.last_event_at if self.last_event_at is not None else self.since)

    def path_or_untested(self, times: WatcherTimes, now: float) -> EventPath:
        """Return the event path, one that nothing is known of where there is none."""
        return self.path or EventPath.untested(times.canary, now=now, share=self.share)

    def event_received(self, times: WatcherTimes, *, now: float, canary: bool) -> tuple["Timers", bool]:
        """Return the timers once an event has arrived, and whether that may change the condition."""
        changed = not self.has_received or self.silent_for(now) > times.silence
        path = self.path
        if canary:
            before = self.path_or_untested(times, now)
            changed = changed or before.broken_for(now) > 0
            path = before.answered(now)
        return replace(self, last_event_at=now, path=path), changed

    def repaired(self, times: WatcherTimes, *, now: float, drifted: bool) -> "Timers":
        """Return the timers once the objects were applied; `drifted` where somebody else had changed them."""
        path = self.path_or_untested(times, now).suspected(now) if drifted else self.path
        return replace(self, repair_at=now + times.interval, path=path)

    def repair_soon(self, now: float) -> "Timers":
        """Return the timers of a Watcher without events, whose objects may be the cause."""
        return replace(self, repair_at=min(self.repair_at, now + FAULT_REPAIR_SECONDS))

    def repair_now(self) -> "Timers":
        """Return the timers by which the next reconcile compares the objects, whatever is recorded of them."""
        return replace(self, repair_at=float("-inf"))
