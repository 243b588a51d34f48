"""What is still to be told: one entry an object, the newest, for as long as it takes.

A burst of changes of one object becomes one event. While an event of an object is on its way, a further change of it
waits, so that order is kept for each object. When there are too many to remember, all are dropped for one RESYNC, on
which the control plane looks at everything.
"""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass

from watcher.changes import ObjectChange

RESYNC = "RESYNC"


@dataclass(frozen=True, slots=True)
class Entry:
    """A change, the number of its event, and when it was seen (Unix seconds)."""

    change: ObjectChange
    sequence: int
    observed_at: float
    event_id: str
    traceparent: str


Key = tuple[str, str, str, str, str]


class Outbox:
    """Pending entries, in the order of their first change."""

    def __init__(self, resync: ObjectChange, most: int) -> None:
        self._resync = resync
        self._most = most
        self._pending: OrderedDict[Key, Entry] = OrderedDict()
        self._under_way: set[Key] = set()
        self._not_before: dict[Key, float] = {}
        self._changed = asyncio.Event()
        self.overflows = 0

    def __len__(self) -> int:
        return len(self._pending) + len(self._under_way)

    def put(self, entry: Entry) -> None:
        """Remember an entry in place of an older one of the same object."""
        if len(self._pending) >= self._most and entry.change.key not in self._pending:
            self.overflows += 1
            self._pending.clear()
            self._not_before.clear()
            entry = Entry(self._resync, entry.sequence, entry.observed_at, entry.event_id, entry.traceparent)
        self._pending[entry.change.key] = entry
        self._changed.set()

    async def take(self) -> Entry:
        """Wait for an entry that may go now, and return it. Follow up with `done` or `again`."""
        while True:
            now = asyncio.get_running_loop().time()
            for key, entry in self._pending.items():
                if key not in self._under_way and self._not_before.get(key, 0.0) <= now:
                    del self._pending[key]
                    self._under_way.add(key)
                    return entry
            await self._wait(now)

    def done(self, entry: Entry) -> None:
        """Note that an entry was told, or never can be."""
        self._under_way.discard(entry.change.key)
        self._not_before.pop(entry.change.key, None)
        self._changed.set()

    def again(self, entry: Entry, after_seconds: float) -> None:
        """Have an entry told later, unless a newer one of its object has come."""
        self._under_way.discard(entry.change.key)
        self._not_before[entry.change.key] = asyncio.get_running_loop().time() + after_seconds
        self._pending.setdefault(entry.change.key, entry)
        self._changed.set()

    async def drained(self) -> None:
        """Wait until nothing is left."""
        while len(self):
            self._changed.clear()
            await self._changed.wait()

    async def _wait(self, now: float) -> None:
        """Wait for a change, or until the next entry may go."""
        self._changed.clear()
        due = [self._not_before[key] for key in self._pending if key not in self._under_way and key in self._not_before]
        try:
            async with asyncio.timeout(max(0.0, min(due) - now) if due else None):
                await self._changed.wait()
        except TimeoutError:
            return
