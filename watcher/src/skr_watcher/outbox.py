"""What is still to be told: one entry an object, the newest, for as long as it takes.

A burst of changes of one object becomes one event. While an event of an object is on its way, a further change of it
waits, so that order is kept for each object. When there are too many to remember, all are dropped for one RESYNC, on
which the control plane looks at everything.

All entries go to one place, so when one fails they all wait, and then a single one finds out whether it goes again.
Nothing here looks through what is pending: with a full outbox and the control plane away, admission costs what it
always does.
"""

import asyncio
from collections import OrderedDict, deque
from dataclasses import dataclass
from itertools import chain

from skr_watcher.changes import HEARTBEAT, ObjectChange

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
    """Pending entries, in the order of their first change; a sign of life goes before them, and so does a RESYNC.

    What failed goes behind the others, so that nothing which always fails holds them up; a RESYNC behind one of them.
    """

    def __init__(self, resync: ObjectChange, most: int) -> None:
        self._resync = resync
        self._most = most
        self._pending: OrderedDict[Key, Entry] = OrderedDict()
        self._under_way: dict[Key, Entry] = {}
        self._takers: deque[asyncio.Future[None]] = deque()
        self._emptied = asyncio.Event()
        self._paused: asyncio.TimerHandle | None = None
        self._one_at_a_time = False
        self.overflows = 0

    def __len__(self) -> int:
        return len(self._pending) + len(self._under_way)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """What is not told yet."""
        return tuple(chain(self._under_way.values(), self._pending.values()))

    def put(self, entry: Entry) -> None:
        """Remember an entry in place of an older one of the same object."""
        if len(self._pending) >= self._most and entry.change.key not in self._pending:
            self.overflows += 1
            self._pending.clear()
            entry = Entry(self._resync, entry.sequence, entry.observed_at, entry.event_id, entry.traceparent)
        self._pending[entry.change.key] = entry
        if entry.change.operation in {HEARTBEAT, RESYNC}:
            self._pending.move_to_end(entry.change.key, last=False)
        self._wake()

    async def take(self) -> Entry:
        """Wait for an entry that may go now, and return it. Follow up with `done` or `again`."""
        while (entry := self._next()) is None:
            taker: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._takers.append(taker)
            try:
                await taker
            except asyncio.CancelledError:
                if taker.done() and not taker.cancelled():
                    self._wake()  # the entry that this was woken for is somebody else's now
                raise
        return entry

    def done(self, entry: Entry) -> None:
        """Note that an entry was told, or never can be."""
        self._under_way.pop(entry.change.key, None)
        self._one_at_a_time = False
        self._wake_all()

    def again(self, entry: Entry, after_seconds: float) -> None:
        """Have all wait, and this entry told later, unless a newer one of its object has come."""
        self._under_way.pop(entry.change.key, None)
        self._pending.setdefault(entry.change.key, entry)
        if entry.change.operation == RESYNC:
            self._put_second(entry.change.key)
        self._one_at_a_time = True
        loop = asyncio.get_running_loop()
        if self._paused is not None:
            self._paused.cancel()
        self._paused = loop.call_later(after_seconds, self._go_on)

    def hurry(self) -> None:
        """Wait no longer with what failed before."""
        if self._paused is not None:
            self._paused.cancel()
            self._go_on()

    async def drained(self) -> None:
        """Wait until nothing is left."""
        while len(self):
            self._emptied.clear()
            await self._emptied.wait()

    def _put_second(self, key: Key) -> None:
        first = next(iter(self._pending))
        self._pending.move_to_end(key, last=False)
        if first != key:
            self._pending.move_to_end(first, last=False)

    def _next(self) -> Entry | None:
        if self._paused is not None or (self._one_at_a_time and self._under_way):
            return None
        for key, entry in self._pending.items():  # passes over those under way, which are few
            if key not in self._under_way:
                del self._pending[key]
                self._under_way[key] = entry
                return entry
        return None

    def _go_on(self) -> None:
        self._paused = None
        self._wake_all()

    def _wake(self) -> None:
        while self._takers:
            taker = self._takers.popleft()
            if not taker.done():
                taker.set_result(None)
                return

    def _wake_all(self) -> None:
        for _ in range(len(self._takers)):
            self._wake()
        if not len(self):
            self._emptied.set()
