"""What an event announced, and when a read has shown it.

An event is sent while the user's write is still in admission, so it can arrive before the write is stored. A read that
comes too early shows the old object, and taking it for the answer would lose the change until the next interval. The
event therefore carries the version that the change replaces, and the read counts only once it shows another one. A
change that another webhook refused never shows: after a deadline the announcement is dropped.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from lifecycle_manager.contract.signals import ObjectChanged, ObjectReference, Trace

# An API server gives each webhook up to 30 s; a change that has not appeared by then was refused.
TIMEOUT_SECONDS = 35.0
FIRST_RETRY_SECONDS = 0.003
MAX_RETRY_SECONDS = 0.5
MAX_OBJECTS = 100
MAX_DIGITS = 100
NOTHING: Final[dict[Any, Any]] = {}
"""In the place of a dict of their own for the many that have nothing in it. It is never written."""


@dataclass(frozen=True, slots=True)
class Announcement:
    """One change that an event reported. `resource_version` is that of the object it replaces."""

    object: ObjectReference
    operation: str
    uid: str
    resource_version: str
    deadline: float
    trace: Trace
    attempts: int = 0

    def shown_by(self, *, uid: str | None, resource_version: str, deleting: bool) -> bool:
        """Tell whether a read shows the announced change; `uid` is None where the object does not exist."""
        if self.operation == "CREATE":
            return uid is not None and self.uid in ("", uid)
        if uid is None or (self.uid and uid != self.uid):
            return True
        if self.operation == "DELETE":
            return deleting
        return resource_version != self.resource_version

    def retry_after(self, now: float) -> float | None:
        """Return the seconds until the next read, None once the deadline has passed."""
        if now >= self.deadline:
            return None
        return min(FIRST_RETRY_SECONDS * 2.0**self.attempts, MAX_RETRY_SECONDS)


@dataclass(frozen=True, slots=True)
class ObservedObject:
    """What a read showed of one object; `uid` is None where the object does not exist."""

    uid: str | None = None
    resource_version: str = ""
    deleting: bool = False


@dataclass(eq=False, slots=True)
class Announcements:
    """The announcements that no read has shown yet: at most one for each object, the newest.

    Part of the state of one key. Senders of events are not trusted: at most MAX_OBJECTS are kept, and as many events.
    A reconcile that is retried announces its events again; their deadline counts from the first time.
    `now` is the monotonic time in seconds.
    """

    _pending: dict[ObjectReference, Announcement] = field(default_factory=lambda: NOTHING, init=False)
    _announced: dict[ObjectChanged, None] = field(default_factory=lambda: NOTHING, init=False)

    def announce(self, change: ObjectChanged, *, now: float) -> bool:
        """Remember that the next read of this object has to show a change.

        Returns false where too many objects are announced: read all of them. The announcement of the oldest is dropped,
        whose write is stored or refused by now, if any is.
        """
        if change in self._announced:
            return True
        announcement = Announcement(
            change.reference,
            change.operation,
            change.uid,
            change.resource_version,
            deadline=now + TIMEOUT_SECONDS,
            trace=change.trace,
        )
        known = self._pending.get(change.reference)
        has_room = known is not None or len(self._pending) < MAX_OBJECTS
        if not has_room:
            del self._pending[next(iter(self._pending))]
        if self._pending is NOTHING:
            self._pending, self._announced = {}, {}
        if len(self._announced) >= MAX_OBJECTS:
            del self._announced[next(iter(self._announced))]
        self._announced[change] = None
        self._pending[change.reference] = announcement if known is None else _newer(known, announcement)
        return has_room

    def of(self) -> tuple[Announcement, ...]:
        """Return what is announced and not shown yet."""
        return tuple(self._pending.values())

    def settle(self, read: Mapping[Announcement, ObservedObject], *, now: float) -> float | None:
        """Drop the announcements that the reads have shown, or whose deadline has passed.

        Returns the seconds until the next read, or None where there is nothing to wait for. An announcement that
        arrived during the read is kept: that read may be older than the announced change.
        """
        for announcement, seen in read.items():
            if self._pending.get(announcement.object) != announcement:
                continue
            shown = announcement.shown_by(uid=seen.uid, resource_version=seen.resource_version, deleting=seen.deleting)
            if shown or announcement.retry_after(now) is None:
                del self._pending[announcement.object]
            else:
                self._pending[announcement.object] = replace(announcement, attempts=announcement.attempts + 1)
        self._announced = {each: None for each in self._announced if each.reference in self._pending}
        if not self._pending:
            self._pending = self._announced = NOTHING
        waits = [wait for each in self._pending.values() if (wait := each.retry_after(now)) is not None]
        return min(waits, default=None)


def _newer(known: Announcement, other: Announcement) -> Announcement:
    """Choose between two announcements of one object, which may have arrived in any order.

    The later write replaces the higher version; a CREATE replaces none, and an object of another uid is a new object.
    """
    if known.uid == other.uid and _order(known.resource_version) > _order(other.resource_version):
        return replace(known, trace=other.trace)
    return other


def _order(resource_version: str) -> int:
    # Resource versions are comparable as integers since Kubernetes 1.35 (KEP-5504). One that is no number counts as
    # old, and so does one of more digits than any has, which Python would refuse to read.
    is_number = resource_version.isdecimal() and len(resource_version) <= MAX_DIGITS
    return int(resource_version) if is_number else -1
