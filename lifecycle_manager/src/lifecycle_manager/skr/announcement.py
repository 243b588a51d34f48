"""What an event announced, and when a read has shown it.

An event is sent while the user's write is still in admission, so it can overtake the write that it speaks of.
A read that comes too early shows the old object, and taking it for the answer would lose the change until the
next interval. The event therefore carries the version that the change replaces, and the read counts only once it
shows another one. A change that another webhook refused never shows: after a deadline the read stands as it is.
"""

import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)

# An API server gives each webhook up to 30 s; a change that has not appeared by then was refused.
PATIENCE_SECONDS = 35.0
FIRST_RETRY_SECONDS = 0.003
LONGEST_RETRY_SECONDS = 0.5
MOST_OBJECTS = 100
MOST_DIGITS = 100


class ObjectReference(NamedTuple):
    """One object in a user cluster, whatever its version."""

    group: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}.{self.group} {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Trace:
    """Where a change came from, carried from cluster to cluster so that one change can be followed."""

    event_id: str = ""
    traceparent: str = ""
    observed_at: str = ""


@dataclass(frozen=True, slots=True)
class Announcement:
    """One change that an event spoke of. `resource_version` is that of the object it replaces."""

    object: ObjectReference
    operation: str
    uid: str
    resource_version: str
    deadline: float
    trace: Trace
    attempts: int = 0

    def shown_by(self, *, uid: str | None, resource_version: str, deleting: bool) -> bool:
        """Tell whether a read shows the announced change; `uid` is None where the object is not there."""
        if self.operation == "CREATE":
            return uid is not None and self.uid in ("", uid)
        if uid is None or (self.uid and uid != self.uid):
            return True
        if self.operation == "DELETE":
            return deleting
        return resource_version != self.resource_version

    def retry_after(self, now: float) -> float | None:
        """Return the seconds until the next read is worth it, None when patience has run out."""
        if now >= self.deadline:
            return None
        return min(FIRST_RETRY_SECONDS * 2.0**self.attempts, LONGEST_RETRY_SECONDS)


@dataclass(frozen=True, slots=True)
class Seen:
    """What a read showed of one object; `uid` is None where the object is not there."""

    uid: str | None = None
    resource_version: str = ""
    deleting: bool = False


class Announcements(Generic[K]):
    """The announcements of each key that no read has shown yet: at most one an object, the newest.

    Who sends events is not trusted to be modest: a key keeps MOST_OBJECTS of them.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._pending: dict[K, dict[ObjectReference, Announcement]] = {}

    def announce(
        self,
        key: K,
        reference: ObjectReference,
        *,
        operation: str,
        uid: str = "",
        resource_version: str = "",
        trace: Trace = Trace(),
    ) -> bool:
        """Remember that the next read of this object has to show a change.

        Returns whether it is remembered: a key that has too many objects announced already is better read whole.
        """
        announcement = Announcement(
            reference, operation, uid, resource_version, self._clock() + PATIENCE_SECONDS, trace
        )
        objects = self._pending.setdefault(key, {})
        known = objects.get(reference)
        if known is None and len(objects) >= MOST_OBJECTS:
            return False
        objects[reference] = announcement if known is None else _newer(known, announcement)
        return True

    def of(self, key: K) -> tuple[Announcement, ...]:
        """Return what is announced for the key and not shown yet."""
        return tuple(self._pending.get(key, {}).values())

    def settle(self, key: K, read: Mapping[Announcement, Seen]) -> float | None:
        """Drop the announcements that the reads have shown, or that ran out of patience.

        Returns the seconds until the next read is worth it, or None where nothing is left to wait for. An
        announcement that arrived while the read was under way is kept: that read may be older than it.
        """
        now = self._clock()
        objects = self._pending.get(key, {})
        for announcement, seen in read.items():
            if objects.get(announcement.object) != announcement:
                continue
            shown = announcement.shown_by(uid=seen.uid, resource_version=seen.resource_version, deleting=seen.deleting)
            if shown or announcement.retry_after(now) is None:
                del objects[announcement.object]
            else:
                objects[announcement.object] = replace(announcement, attempts=announcement.attempts + 1)
        if not objects:
            self._pending.pop(key, None)
        waits = [wait for left in objects.values() if (wait := left.retry_after(now)) is not None]
        return min(waits, default=None)

    def forget(self, key: K) -> None:
        """Drop all that is announced for a key that is gone."""
        self._pending.pop(key, None)


def _newer(known: Announcement, other: Announcement) -> Announcement:
    """Choose between two announcements of one object, which may have arrived in any order.

    The later write replaces the higher version; a CREATE replaces none, and an object of another uid is a
    new object.
    """
    if known.uid == other.uid and _order(known.resource_version) > _order(other.resource_version):
        return replace(known, trace=other.trace)
    return other


def _order(resource_version: str) -> int:
    # Resource versions are comparable as integers since Kubernetes 1.35 (KEP-5504); one that is not counts as old, and
    # so does one of more digits than any has, which Python would refuse to read.
    readable = resource_version.isdecimal() and len(resource_version) <= MOST_DIGITS
    return int(resource_version) if readable else -1
