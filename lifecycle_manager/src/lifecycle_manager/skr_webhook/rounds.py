"""Sends the canaries of Watchers in order, on one schedule: each is one request, and no reconcile.

A reconcile that leaves all in order adds its Watcher to the rounds, and the next one removes it again. Between
them its events are recorded here, and `plan` decides as in a reconcile. What is more than a canary is left to one:
silence, a broken path, objects that are due, a request that fails.
"""

import asyncio
import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

import structlog

from kube_runtime import Clock, Informer, ObjectKey
from lifecycle_manager.contract.signals import WatcherEventReceived
from lifecycle_manager.skr import Connections
from lifecycle_manager.skr_webhook.canary import send_canary
from lifecycle_manager.skr_webhook.plan import SendCanary, WatcherDone, is_managed, plan_in_order
from lifecycle_manager.skr_webhook.settings import WatcherTimes
from lifecycle_manager.skr_webhook.snapshot import WatcherState
from lifecycle_manager.skr_webhook.timers import NO_TIMERS, CanaryPlace
from lifecycle_manager_api import Kyma

MAX_UNDER_WAY = 1_000
"""How many canaries may wait for a response; those that are due meanwhile are sent as places become free."""

GATHER_SECONDS = 0.1
"""Canaries that are due within so many seconds are sent together, which takes 0.74 to 0.87 times the CPU."""

MAX_IN_A_TURN = 20
"""How many are sent in one turn of the event loop, in some milliseconds."""

MIN_SECONDS = 0.01
"""How long a Watcher waits at least until the plan is asked again: one that asks at once would hold the event loop."""

log = structlog.get_logger("skr_webhook")


@dataclass(eq=False, kw_only=True)
class CanaryRounds:
    """The Watchers with a place in their state. `state_of` returns that of a key, `enqueue` has it reconciled."""

    kymas: Informer[Kyma]
    connections: Connections
    clock: Clock
    times: WatcherTimes
    state_of: Callable[[ObjectKey], WatcherState | None]
    enqueue: Callable[[ObjectKey], None]
    _alarms: list[tuple[float, int, CanaryPlace]] = field(default_factory=list, init=False)
    _numbers: "count[int]" = field(default_factory=count, init=False)
    _next: asyncio.TimerHandle | None = field(default=None, init=False)
    _next_at: float = field(default=0.0, init=False)
    _tasks: asyncio.TaskGroup | None = field(default=None, init=False)
    _under_way: int = field(default=0, init=False)

    def add(self, key: ObjectKey, state: WatcherState, *, seconds: float) -> None:
        """Send the canaries of a Watcher from now on; there is nothing to do for so many seconds."""
        state.place = CanaryPlace(key)
        self._set(state.place, seconds)
        self._arm()

    def has(self, key: ObjectKey) -> bool:
        state = self.state_of(key)
        return state is not None and state.place is not None

    def record(self, event: WatcherEventReceived) -> None:
        """Record an event, where it is of a Watcher in order."""
        state = self.state_of(event.key)
        if state is not None and state.place is not None:
            state.timers = (state.timers or NO_TIMERS).received(self.times, (event,))
            if self._decide(state.place, state) is not None:
                self._set(state.place, 0.0)
            self._arm()

    async def run(self) -> None:
        """Send canaries until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                self._arm()
                await asyncio.get_running_loop().create_future()
            finally:
                self._tasks = None

    def _arm(self) -> None:
        """Come again when the next is due; while too many are under way, once one of them has ended."""
        if self._tasks is None or self._under_way >= MAX_UNDER_WAY or not self._alarms:
            return
        due = self._alarms[0][0]
        when = due + -due % GATHER_SECONDS
        if self._next is not None:
            if self._next_at <= when:
                return
            self._next.cancel()
        self._next, self._next_at = asyncio.get_running_loop().call_at(when, self._ring), when

    def _ring(self) -> None:
        """Send what is due, or as much of it as fits into this turn of the event loop."""
        self._next, alarms, now = None, self._alarms, max(self._next_at, asyncio.get_running_loop().time())
        last = min(MAX_UNDER_WAY, self._under_way + MAX_IN_A_TURN)
        while alarms and alarms[0][0] <= now and self._tasks is not None and self._under_way < last:
            at, _, place = heapq.heappop(alarms)
            if at != place.alarm or (state := self._state(place)) is None:
                continue
            place.alarm = float("inf")
            if place.due > now:
                self._set(place, place.due - now)
            elif (step := self._decide(place, state)) is not None:
                self._start(self._tasks, place, state, step)
        self._arm()

    def _set(self, place: CanaryPlace, seconds: float) -> None:
        """Ask the plan about a Watcher again in so many seconds."""
        place.due = asyncio.get_running_loop().time() + seconds
        if place.due < place.alarm:
            place.alarm = place.due
            heapq.heappush(self._alarms, (place.due, next(self._numbers), place))

    def _state(self, place: CanaryPlace) -> WatcherState | None:
        """Return the state that has a place; None where a reconcile or another replica has the Watcher by now."""
        state = self.state_of(place.key)
        return state if state is not None and state.place is place else None

    def _decide(self, place: CanaryPlace, state: WatcherState) -> SendCanary | None:
        """Return the canary that is due, None where it is not yet, or a reconcile has to decide."""
        kyma, timers = self.kymas.get(place.key), state.timers or NO_TIMERS
        if kyma is not None and is_managed(kyma) and not kyma.metadata.being_deleted:
            now = self.clock.monotonic()
            match plan_in_order(kyma, timers, self.times, now=now):
                case SendCanary() as step:
                    return step
                case WatcherDone(requeue_after=float() as seconds):
                    self._set(place, max(seconds, MIN_SECONDS))
                    return None
        self._leave(place, state)
        return None

    def _leave(self, place: CanaryPlace, state: WatcherState) -> None:
        """Leave a Watcher to a reconcile."""
        state.place = None
        self.enqueue(place.key)

    def _start(self, tasks: asyncio.TaskGroup, place: CanaryPlace, state: WatcherState, step: SendCanary) -> None:
        self._under_way += 1
        state.timers = (state.timers or NO_TIMERS).with_path(step.path)
        self._set(place, step.path.check_after(self.clock.monotonic()))
        tasks.create_task(self._send(place, step))

    async def _send(self, place: CanaryPlace, step: SendCanary) -> None:
        try:
            async with self.connections.to(place.key.name) as skr:
                await send_canary(skr, place.key.name, self.clock.monotonic(), write=step.write)
        except Exception as error:  # noqa: BLE001 - the reconcile that follows meets it again, and reports it
            log.debug("canary not sent", kyma=place.key.name, error=str(error))
            if (state := self._state(place)) is not None:
                path = step.path.refused().suspected(self.clock.monotonic())
                state.timers = (state.timers or NO_TIMERS).with_path(path)
                self._leave(place, state)
        else:
            if step.write and (state := self._state(place)) is not None and state.timers and state.timers.path:
                path = state.timers.path.sent(self.clock.monotonic(), write=True)
                state.timers = state.timers.with_path(path)
        finally:
            self._under_way -= 1
            self._arm()
