"""The work queue: which keys need a reconcile, and in what order.

What holds at every moment:

- a key waits at most once, however often it is added;
- a key is never given to two workers at once: one added while it is worked on comes again when that is done;
- a key that was added is given out after the add, or still waits (until the queue is shut down: what is less urgent
  than a change is left to the next process then, which reconciles everything);
- more urgent keys go first, yet one in sixteen is of the least urgent, so that no key waits for ever;
- with `max_per_owner`, never more keys of one owner are given out, and the others of that owner delay nobody else's.

Everything happens on one event loop, so there are no locks. Nothing is stored: a restart lists everything again.
"""

import asyncio
import heapq
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from itertools import count
from typing import Generic, TypeVar

from kube_runtime.controller.causes import NO_CAUSES, Causes
from kube_runtime.controller.priority import Priority, next_lane
from kube_runtime.controller.retries import DEFAULT_POLICY, Retries, RetryPolicy
from kube_runtime.controller.shares import Shares
from kube_runtime.metrics import QueueMetrics

K = TypeVar("K", bound=Hashable)


MIN_ALARMS = 64
"""Stale alarms that are not worth a search."""
MAX_DELAY_SECONDS = 365 * 86_400.0
"""No event loop takes a timer without an end."""
LAST_AT_A_STOP = Priority.CHANGE
"""How urgent a key is at least that is still given out when the queue is shut down."""


class QueueShutDown(Exception):
    """Raised by `get` when the queue is shut down and nothing is left in it."""


class WorkQueue(Generic[K]):
    """Keys that wait for a worker; of those with the same `owner`, at most `max_per_owner` are given out at a time."""

    def __init__(
        self,
        *,
        retry: RetryPolicy = DEFAULT_POLICY,
        owner: Callable[[K], str] = str,
        max_per_owner: int | None = None,
        metrics: QueueMetrics | None = None,
    ) -> None:
        self._lanes: tuple[OrderedDict[K, float], ...] = tuple(OrderedDict() for _ in Priority)
        self._waiting: dict[K, Priority] = {}
        self._working: dict[K, float] = {}
        self._again: dict[K, Priority] = {}
        self._delayed: dict[K, tuple[float, Priority, Causes]] = {}
        self._causes: dict[K, Causes] = {}
        self._alarms: list[tuple[float, int, K]] = []
        self._numbers = count()
        self._alarm: asyncio.Handle | None = None
        self._alarm_at = 0.0
        self._getters: tuple[deque[asyncio.Future[None]], ...] = tuple(deque() for _ in Priority)
        self._done_waiters: list[asyncio.Future[None]] = []
        self._taken = 0
        self._shut_down = False
        self._retries: Retries[K] = Retries(retry)
        self._metrics = metrics or QueueMetrics()
        self._shares = None if max_per_owner is None else Shares(owner, max_per_owner)
        self._metrics.depth = self._depth
        self._metrics.unfinished_seconds = self._unfinished

    def __len__(self) -> int:
        return len(self._waiting)

    def keys(self) -> frozenset[K]:
        """Return the keys that wait, those whose time has not come included."""
        return frozenset(self._waiting) | self._delayed.keys()

    def add(self, key: K, priority: Priority = Priority.CHANGE, causes: Causes = NO_CAUSES) -> None:
        """Enqueue a key. Where it waits already, the higher urgency and the causes of both hold."""
        if self._shut_down:
            return
        if causes is not NO_CAUSES:  # nearly every key has none
            self.keep_causes(key, causes)
        if key in self._working:
            self._again[key] = min(priority, self._again.get(key, priority))
            return
        before = self._waiting.get(key)
        if before is None:
            self._metrics.adds += 1
            self._waiting[key] = priority
            now = time.perf_counter()
            if self._shares is None or self._has_place(self._shares, key, priority, now):
                self._lanes[priority][key] = now
                self._notify(priority)
        elif priority < before:
            self._waiting[key] = priority
            if self._shares is None or self._shares.raised(key, priority):
                added_at = self._lanes[before].pop(key)
            else:
                added_at = self._shares.withdraw(key, before)
                if not self._has_place(self._shares, key, priority, added_at):
                    return
            self._lanes[priority][key] = added_at
            self._notify(priority)

    def add_after(
        self, key: K, seconds: float, priority: Priority = Priority.RESYNC, causes: Causes = NO_CAUSES
    ) -> None:
        """Enqueue a key later. Where that is due anyway, the earlier time, the higher urgency and all causes hold.

        A time that has passed is now, as is one that is no number.
        """
        if self._shut_down:
            return
        if not seconds > 0:
            self.add(key, priority, causes)
            return
        when = asyncio.get_running_loop().time() + min(seconds, MAX_DELAY_SECONDS)
        known = self._delayed.get(key)
        if known is not None:
            priority = min(priority, known[1])
            when = min(when, known[0])
            causes = known[2].merged(causes)
        self._delayed[key] = (when, priority, causes)
        if known is None or when < known[0]:
            heapq.heappush(self._alarms, (when, next(self._numbers), key))
            if len(self._alarms) > MIN_ALARMS + 2 * len(self._delayed):
                self._drop_stale_alarms()
            self._set_alarm()

    def add_rate_limited(
        self,
        key: K,
        priority: Priority = Priority.CHANGE,
        *,
        first_seconds: float | None = None,
        first_times: int = 1,
        causes: Causes = NO_CAUSES,
    ) -> None:
        """Enqueue a key that failed, after a pause that grows with each failure until `forget`.

        `first_seconds` replaces the policy's pause after a first failure, or after the first `first_times`. The causes
        go to the next reconcile of the key, which may come before its retry.
        """
        self._metrics.retries += 1
        self.return_causes(key, causes)
        self.add_after(key, self._retries.pause(key, first_seconds, first_times), priority)

    def keep_causes(self, key: K, causes: Causes) -> None:
        """Keep causes for the next reconcile of a key, without enqueueing it."""
        if causes:
            self._causes[key] = self._causes.get(key, NO_CAUSES).merged(causes)

    def return_causes(self, key: K, causes: Causes) -> None:
        """Keep the causes of a reconcile that failed: they are older than those that arrived meanwhile."""
        if causes:
            self._causes[key] = causes.merged(self._causes.get(key, NO_CAUSES))

    def take_causes(self, key: K) -> Causes:
        """Return the causes of a key that was given out, and forget them."""
        return self._causes.pop(key, NO_CAUSES)

    def waiting_causes(self, key: K) -> Causes:
        """Return the causes for which a key will be reconciled next."""
        return self._causes.get(key, NO_CAUSES)

    def drop_causes(self, key: K) -> None:
        """Forget the causes of a key that neither waits nor is worked on."""
        if key not in self._waiting and key not in self._working:
            self._causes.pop(key, None)

    def numbers(self) -> dict[str, int]:
        """Return how many keys wait by urgency, are worked on, and are due later."""
        waiting = {f"wait as {Priority(lane).name}": number for lane, number in self._depth().items()}
        return waiting | {"worked on": len(self._working), "later": len(self._delayed)}

    def forget(self, key: K) -> None:
        """Reset the failures of a key: its next failure counts as the first."""
        self._retries.forget(key)

    def failures(self, key: K) -> int:
        """Return how many times in a row a key failed."""
        return self._retries.failures(key)

    async def get(self, least: Priority = Priority.RESYNC) -> K:
        """Return the next key that is at least so urgent, waiting for one. Its worker calls `done`.

        Raises QueueShutDown at the end.
        """
        await self.filled(least)
        return self._take(least)

    async def filled(self, least: Priority = Priority.RESYNC) -> None:
        """Wait until a key waits that is at least so urgent, and leave it there. Raises QueueShutDown at the end."""
        while not self.holds(least):
            if self._shut_down and not (self._shares and any(self._shares.aside)):
                raise QueueShutDown
            self._notify_waiting()  # it may have been notified of a key that another one took instead of its own
            await self._wait(self._getters[least])

    def holds(self, least: Priority) -> bool:
        """Tell whether a key waits that is at least so urgent and may be given out."""
        return any(self._lanes[: least + 1])

    def done(self, key: K) -> None:
        """Report that the reconcile of a key has ended, whatever its result."""
        self._metrics.work_seconds.observe(time.perf_counter() - self._working.pop(key))
        if self._shares is not None:
            self._pass_on(self._shares, key)
        priority = self._again.pop(key, None)
        if priority is not None:
            self.add(key, priority)
        self._release_done_waiters()

    def shut_down(self) -> None:
        """Take no more keys. Waiting events and changes are still given out; all else is dropped."""
        self._shut_down = True
        self._drop_less_urgent()
        self._delayed.clear()
        self._alarms.clear()
        self._again.clear()
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        self._release_getters()
        self._release_done_waiters()

    async def drained(self) -> None:
        """Wait until no key waits and none is reconciled. Delayed keys don't count."""
        while self._waiting or self._working:
            await self._next_done()

    async def finished(self, selects: Callable[[K], bool]) -> None:
        """Wait until none of the keys that are worked on is selected. Those that wait don't count."""
        while any(selects(key) for key in self._working):
            await self._next_done()

    async def _next_done(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._done_waiters.append(waiter)
        await waiter

    def _has_place(self, shares: Shares[K], key: K, priority: Priority, added_at: float) -> bool:
        """Tell whether a key may be given out; where it may not, it waits aside."""
        if shares.enter(key, priority, added_at):
            return True
        other = shares.less_urgent(key, priority, self._waiting)
        if other is None:
            return False
        shares.swap(key, priority, other[0], self._lanes[other[1]].pop(other[0]))
        return True

    def _pass_on(self, shares: Shares[K], done: K) -> None:
        """Pass the place of a key on to one of its owner that waits aside."""
        following = shares.leave(done)
        if following is not None:
            key, priority, added_at = following
            self._waiting[key] = priority
            self._lanes[priority][key] = added_at
            self._notify(priority)
        if self._shut_down and not any(shares.aside):
            self._release_getters()  # those who waited for what was aside

    def _take(self, least: Priority) -> K:
        self._taken += 1
        key, added_at = next_lane(self._lanes[: least + 1], self._taken).popitem(last=False)
        del self._waiting[key]
        now = time.perf_counter()
        self._working[key] = now
        self._metrics.queue_seconds.observe(now - added_at)
        return key

    async def _wait(self, getters: deque[asyncio.Future[None]]) -> None:
        getter = asyncio.get_running_loop().create_future()
        getters.append(getter)
        try:
            await getter
        except asyncio.CancelledError:
            if getter.done() and not getter.cancelled():
                self._notify_waiting()  # notified in vain: pass it on
            elif getter in getters:
                getters.remove(getter)
            raise

    def _notify(self, priority: Priority) -> None:
        """Have somebody come for a key: those first who take nothing less urgent."""
        for getters in self._getters[priority:]:
            if self._notify_first(getters):
                return

    def _notify_waiting(self) -> None:
        """Have somebody come for each urgency at which keys wait."""
        for priority in Priority:
            if self._lanes[priority]:
                self._notify(priority)

    @staticmethod
    def _notify_first(getters: deque[asyncio.Future[None]]) -> bool:
        while getters:
            getter = getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return True
        return False

    def _drop_less_urgent(self) -> None:
        """Drop what need not be done before a stop: first what waits aside, so that no place is passed on to it."""
        dropped = [key for key, priority in self._waiting.items() if priority > LAST_AT_A_STOP]
        for key in sorted(dropped, key=lambda it: it in self._lanes[self._waiting[it]]):
            priority = self._waiting.pop(key)
            self._causes.pop(key, None)
            is_aside = self._lanes[priority].pop(key, None) is None
            if self._shares is not None and is_aside:
                self._shares.withdraw(key, priority)
            elif self._shares is not None:
                self._pass_on(self._shares, key)

    def _release_done_waiters(self) -> None:
        waiters, self._done_waiters = self._done_waiters, []
        self._release(waiters)

    def _release_getters(self) -> None:
        for getters in self._getters:
            waiters = [*getters]
            getters.clear()
            self._release(waiters)

    @staticmethod
    def _release(waiters: list[asyncio.Future[None]]) -> None:
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _set_alarm(self) -> None:
        when = self._alarms[0][0]
        if self._alarm is not None:
            if self._alarm_at <= when:
                return
            self._alarm.cancel()
        # Not asked of the handle: one for right now knows no time on every event loop.
        self._alarm_at = when
        self._alarm = asyncio.get_running_loop().call_at(when, self._ring)

    def _drop_stale_alarms(self) -> None:
        """Drop the alarms of keys that are due at another time by now.

        Each would hold its key until its own time. A key that is retried soon after every change leaves one each time.
        """
        self._alarms = [
            alarm for alarm in self._alarms if (due := self._delayed.get(alarm[2])) is not None and due[0] == alarm[0]
        ]
        heapq.heapify(self._alarms)

    def _ring(self) -> None:
        """Add the keys whose time has come."""
        self._alarm = None
        now = asyncio.get_running_loop().time() + 0.001
        while self._alarms and self._alarms[0][0] <= now:
            when, _, key = heapq.heappop(self._alarms)
            due = self._delayed.get(key)
            if due is not None and due[0] == when:
                del self._delayed[key]
                self.add(key, due[1], due[2])
        if self._alarms:
            self._set_alarm()

    def _depth(self) -> dict[int, int]:
        aside = self._shares.aside if self._shares is not None else [0 for _ in Priority]
        return {int(lane): len(self._lanes[lane]) + aside[lane] for lane in Priority}

    def _unfinished(self) -> tuple[float, float]:
        now = time.perf_counter()
        ages = [now - began for began in self._working.copy().values()]
        return sum(ages), max(ages, default=0.0)
