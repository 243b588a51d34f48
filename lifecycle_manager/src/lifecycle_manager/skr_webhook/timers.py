"""What one process remembers of one Watcher: its last event, when to compare its objects, when to test its path.

All of it is lost with the process, and a new one does without: it compares the objects at the Kyma's turn, spreads the
first canaries over their interval, and takes over from the condition what a former process has found. Times are
monotonic seconds.
"""

from collections.abc import Iterable
from datetime import datetime

import msgspec
from msgspec.structs import replace

from lifecycle_manager.contract.offsets import offset_of, until_offset
from lifecycle_manager.contract.signals import WatcherEventReceived
from lifecycle_manager.options.watcher import WatcherTimes
from lifecycle_manager.skr_webhook.canary import EventPath

FAULT_REPAIR_SECONDS = 30.0
"""How often the Watcher's objects are compared and repaired while no events arrive."""


class Timers(msgspec.Struct, frozen=True, kw_only=True):
    """`since`: from when on a Watcher without any event counts as silent. `repair_at`: when to compare its objects.

    `share`, 0 to 1, is this Watcher's place in intervals over which work is spread. `in_order`: the last reconcile
    found nothing to change, so the next one computes nothing unless something triggers it.
    """

    since: float
    repair_at: float
    share: float
    last_event_at: float | None = None
    path: EventPath | None = None
    in_order: bool = False

    @classmethod
    def started(cls, times: WatcherTimes, kyma: str, *, now: float, at: datetime) -> "Timers":
        """Return the timers of a process that has just begun to manage the Watcher of a Kyma. `at` is the time now."""
        return cls(since=now, repair_at=now + until_offset(kyma, times.interval, now=at), share=offset_of(kyma))

    @property
    def has_received(self) -> bool:
        return self.last_event_at is not None

    def silent_for(self, now: float) -> float:
        """Return the seconds without an event since this process manages the Watcher; others got those before that."""
        return now - max(self.since, self.last_event_at or self.since)

    def repair_in(self, now: float) -> float:
        """Return the seconds until the objects in the SKR are to be compared."""
        return max(self.repair_at - now, 0.0)

    def path_or_untested(self, times: WatcherTimes, now: float) -> EventPath:
        return self.path or EventPath.untested(times.canary, now=now, share=self.share)

    def with_path(self, path: EventPath | None) -> "Timers":
        return replace(self, path=path)

    def restarted(self, now: float) -> "Timers":
        """Return the timers of a Watcher whose first event is expected from now on."""
        return replace(self, since=now)

    def received(self, times: WatcherTimes, events: Iterable[WatcherEventReceived]) -> "Timers":
        """Return the timers once events have arrived; an event may be given twice."""
        timers = self
        for event in sorted(events, key=lambda event: event.at):
            path = timers.path
            if event.is_canary:
                path = timers.path_or_untested(times, event.at).answered(event.at)
            timers = replace(timers, last_event_at=max(event.at, timers.last_event_at or event.at), path=path)
        return timers

    def is_condition_changed_by(self, times: WatcherTimes, event: WatcherEventReceived) -> bool:
        """Tell whether an event that arrives may change the condition: it is the first, or ends a fault."""
        ends_silence = not self.has_received or self.silent_for(event.at) > times.silence
        return ends_silence or (event.is_canary and self.path_or_untested(times, event.at).broken_for(event.at) > 0)

    def repaired(self, times: WatcherTimes, *, now: float, again: float, drifted: bool) -> "Timers":
        """Return the timers once the objects were applied; `drifted` where somebody else had changed them.

        They are compared again after `again` seconds.
        """
        timers = self.suspected(times, now) if drifted else self
        return replace(timers, repair_at=now + again)

    def suspected(self, times: WatcherTimes, now: float) -> "Timers":
        """Return the timers by which the path is tested at once."""
        return replace(self, path=self.path_or_untested(times, now).suspected(now))

    def repair_soon(self, now: float) -> "Timers":
        """Return the timers of a Watcher without events, whose objects may be the cause."""
        return replace(self, repair_at=min(self.repair_at, now + FAULT_REPAIR_SECONDS))

    def found(self, *, in_order: bool) -> "Timers":
        """Return the timers at the end of a reconcile."""
        return replace(self, in_order=in_order)

    def repair_now(self) -> "Timers":
        """Return the timers by which the next reconcile compares the objects, whatever is recorded of them."""
        return replace(self, repair_at=float("-inf"))


NO_TIMERS = Timers(since=0.0, repair_at=0.0, share=0.0)
"""The timers of a Watcher that was not reconciled yet."""
