"""The changes to be delivered: for each object one entry, the newest, until the control plane accepts it.

A burst of changes of one object becomes one event. While an event of an object is being sent, a further change of it
waits, so the order is kept for each object. Above the maximum number of entries, all are dropped: after a RESYNC the
control plane reconciles everything.

All entries have the same destination. So after a failure all wait, and then a single one probes whether delivery works
again. No operation iterates over the pending entries: admission costs the same with a full outbox.
"""

import asyncio
import time
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from itertools import chain

from skr_watcher.changes import HEARTBEAT, ObjectChange

RESYNC = "RESYNC"


@dataclass(frozen=True, slots=True)
class Entry:
    """A change, the sequence number of its event, and the time of its admission: Unix and monotonic seconds."""

    change: ObjectChange
    sequence: int
    observed_at: float
    event_id: str
    traceparent: str
    recorded_at: float = field(default_factory=time.monotonic)


Key = tuple[str, str, str, str, str]


class Outbox:
    """Pending entries in the order of their first change; heartbeats and RESYNCs come first.

    A failed entry goes to the end, so that one which always fails does not block the others; a failed RESYNC goes to
    the second place.
    """

    def __init__(self, max_pending: int) -> None:
        self._max_pending = max_pending
        self._pending: OrderedDict[Key, Entry] = OrderedDict()
        self._in_flight: dict[Key, Entry] = {}
        self._takers: deque[asyncio.Future[None]] = deque()
        self._emptied = asyncio.Event()
        self._paused: asyncio.TimerHandle | None = None
        self._resume_at = 0.0
        self._probing = False
        self.overflows = 0

    def __len__(self) -> int:
        return len(self._pending) + len(self._in_flight)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All entries that are not delivered yet."""
        return tuple(chain(self._in_flight.values(), self._pending.values()))

    def put(self, entry: Entry) -> bool:
        """Add an entry; it replaces an older one of the same object.

        Return whether there was room. Without it all are dropped, except a RESYNC, and another RESYNC has to follow.
        """
        if self._is_full and entry.change.operation != RESYNC and entry.change.key not in self._pending:
            self.overflows += 1
            resyncs = [each for each in self._pending.values() if each.change.operation == RESYNC]
            self._pending.clear()
            self._pending.update((each.change.key, each) for each in resyncs)
            return False
        self._pending[entry.change.key] = entry
        if entry.change.operation in {HEARTBEAT, RESYNC}:
            self._pending.move_to_end(entry.change.key, last=False)
        self._notify_one()
        return True

    async def take(self) -> Entry:
        """Wait for an entry that may be sent now, and return it. Call `done` or `retry` afterwards."""
        while (entry := self._next()) is None:
            taker: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._takers.append(taker)
            try:
                await taker
            except asyncio.CancelledError:
                if taker.done() and not taker.cancelled():
                    self._notify_one()  # hand the entry on to the next taker
                raise
        return entry

    def done(self, entry: Entry) -> None:
        """Remove an entry that was accepted, or refused for good."""
        self._in_flight.pop(entry.change.key, None)
        self._probing = False
        self._notify_all()

    def retry(self, entry: Entry, after_seconds: float) -> None:
        """Pause delivery, and keep this entry unless there is a newer one of its object.

        Of several pauses the one that ends last holds: the control plane may have asked for it.
        """
        self._in_flight.pop(entry.change.key, None)
        self._pending.setdefault(entry.change.key, entry)
        if entry.change.operation == RESYNC:
            self._move_to_second_place(entry.change.key)
        self._probing = True
        loop = asyncio.get_running_loop()
        resume_at = loop.time() + max(after_seconds, 0.0)
        if self._paused is not None:
            if self._resume_at >= resume_at:
                return
            self._paused.cancel()
        self._resume_at = resume_at
        self._paused = loop.call_at(resume_at, self._resume)

    def hurry(self) -> None:
        """End the pause after a failure."""
        if self._paused is not None:
            self._paused.cancel()
            self._resume()

    async def drained(self) -> None:
        """Wait until the outbox is empty."""
        while len(self):
            self._emptied.clear()
            await self._emptied.wait()

    @property
    def _is_full(self) -> bool:
        return len(self._pending) >= self._max_pending

    def _move_to_second_place(self, key: Key) -> None:
        first = next(iter(self._pending))
        self._pending.move_to_end(key, last=False)
        if first != key:
            self._pending.move_to_end(first, last=False)

    def _next(self) -> Entry | None:
        if self._paused is not None or (self._probing and self._in_flight):
            return None
        for key, entry in self._pending.items():  # skips those in flight, which are few
            if key not in self._in_flight:
                del self._pending[key]
                self._in_flight[key] = entry
                return entry
        return None

    def _resume(self) -> None:
        self._paused = None
        self._notify_all()

    def _notify_one(self) -> None:
        while self._takers:
            taker = self._takers.popleft()
            if not taker.done():
                taker.set_result(None)
                return

    def _notify_all(self) -> None:
        for _ in range(len(self._takers)):
            self._notify_one()
        if not len(self):
            self._emptied.set()
