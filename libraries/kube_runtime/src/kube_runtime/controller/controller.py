"""One controller: what triggers its keys, the state it keeps for each, and the function that reconciles them.

The state of a key is dropped when a reconcile says so, when its object is deleted or replaced by another of that name,
and when the key's owner moves to another replica or comes back from one: a returning key starts from scratch. Causes
tell a reconcile what triggered it. A reconcile that raised gets its causes again, and a key that is gained those that
came before.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable
from functools import cache, partial
from typing import Any, Generic, TypeVar, cast

from kube_runtime.controller.causes import NO_CAUSES, Causes
from kube_runtime.controller.groups import decisive
from kube_runtime.controller.held_causes import HeldCauses
from kube_runtime.controller.options import ControllerOptions
from kube_runtime.controller.priority import Priority
from kube_runtime.controller.queue import WorkQueue
from kube_runtime.controller.triggers import (
    Sources,
    Start,
    as_tuple,
    guarded,
    is_replaced,
    new_trace,
    own_key,
    require_change,
    try_out,
)
from kube_runtime.controller.workers import Failure, Result, Workers
from kube_runtime.exceptions import Conflict, KubeError, TerminalError, without_frames
from kube_runtime.informer import Change, Informer
from kube_runtime.leases.lease import LeaseLost
from kube_runtime.resource import Resource
from kube_runtime.tracing import present, segment

K = TypeVar("K", bound=Hashable)
S = TypeVar("S")
T = TypeVar("T")
R = TypeVar("R")
log = logging.getLogger(__name__)

STARTED_IN_AN_ITERATION = 50
"""How many keys of a start are enqueued in one iteration of the event loop."""


class Controller(Generic[K, S]):
    """Made by `Manager.controller`, which describes its options."""

    def __init__(
        self,
        sources: Sources,
        name: str,
        options: ControllerOptions,
        *,
        state: Callable[[], S],
        owner: Callable[[K], str],
        exists: Callable[[K], bool] | None,
        not_retried: tuple[type[Exception], ...],
    ) -> None:
        self.name = name
        self._sources = sources
        self._new_state = state
        self._owner = owner
        self._exists = exists
        self._not_retried = not_retried
        self._workers: Workers[K] = Workers(
            name,
            self._reconcile_counted,
            options,
            owner=owner,
            limit=sources.limit,
            metrics=sources.metrics,
            clock=sources.clock,
        )
        self.queue: WorkQueue[K] = self._workers.queue
        self._reconcile: Callable[[K, Causes, S], Awaitable[Result]] | None = None
        self._unforeseen: Callable[[K, Exception], Awaitable[None]] | None = None
        self._foreseen: tuple[type[Exception], ...] = ()
        self._own_kind: Informer[Any] | None = None
        self._watches: list[tuple[Informer[Any], Callable[[Change[Any]], None]]] = []
        self._declared: list[tuple[Informer[Any], Callable[[Change[Any]], object]]] = []
        self._starts: list[Start[K]] = []
        self._states: dict[K, S] = {}
        self._under_way: dict[K, str] = {}
        self._held: HeldCauses[K] = HeldCauses()

    @property
    def failures(self) -> dict[K, Failure]:
        """The keys that fail at present, and why; the newest thousand of them."""
        return self._workers.failures

    def watches(
        self,
        source: Informer[T] | Resource[T],
        *,
        to: Callable[[Change[T]], Iterable[K]] | None = None,
        when: Callable[[Change[T]], bool] | None = None,
        priority: Priority = Priority.CHANGE,
        after: float = 0.0,
        cause: Hashable | None = None,
    ) -> None:
        """Enqueue keys for the changes of a kind.

        - `to`: the keys that a change concerns. Without it, it is the key of the changed object: the first source
          without `to` is the controller's own kind
        - `when`: the changes that matter; what a restored server may have (`Change.may_be_restored`) always does
        - `after`: seconds to wait for more changes
        - `cause`: what the reconcile finds in its causes
        """
        informer = source if isinstance(source, Informer) else self._sources.informer(source)
        is_own_kind = to is None and self._own_kind is None
        if is_own_kind:
            self._own_kind = informer
        causes = () if cause is None else (cause,)

        require_change(self.name, to, when)
        keys_of = guarded(self.name, as_tuple(to or partial(own_key, informer.resource)))
        matters = guarded(self.name, when or (lambda _: True))
        self._declared += [(informer, keys_of), (informer, matters)]

        def handle(change: Change[T]) -> None:
            if is_own_kind and is_replaced(informer.resource, change):
                for key in keys_of(change):
                    self._drop(key)
            if change.is_resync:
                for key in keys_of(change):
                    self.enqueue(key, *causes, priority=Priority.RESYNC)
            elif change.may_be_restored or matters(change):
                trace = new_trace(self._sources, informer.resource, change)
                for key in filter(self._is_here, keys_of(change)):  # one that is gained is reconciled from scratch
                    self.enqueue(key, *causes, priority=priority, after=after, trace=trace)

        self._watches.append((informer, handle))

    def receives(
        self,
        signal: type[T],
        *,
        to: Callable[[T], Iterable[K]],
        when: Callable[[T], bool] | None = None,
        priority: Priority = Priority.EVENT,
        after: float = 0.0,
        cause: Callable[[T], Hashable] | None = None,
    ) -> None:
        """Enqueue keys for each published signal of a type.

        - `when`: the signals that enqueue keys; the cause of any other waits for the next reconcile
        - `cause`: what the reconcile finds in its causes; by default the signal itself
        """

        def receive(published: T) -> int:
            keys = tuple(to(published))
            if not keys:
                return 0
            caused_by: Hashable = cause(published) if cause is not None else published
            if when is not None and not when(published):
                for key in keys:
                    self.queue.keep_causes(key, Causes((caused_by,)))
                return 0
            for key in keys:
                self.enqueue(key, caused_by, priority=priority, after=after)
            return len(keys)

        self._sources.on(signal, receive)

    def starts_with(
        self,
        keys: Callable[[], Iterable[K]],
        *,
        priority: Priority = Priority.RESYNC,
        cause: Hashable | None = None,
    ) -> None:
        """Enqueue these keys at the start, and when this replica gains their owners.

        Without any such call it is the keys of the controller's own kind.
        """
        self._starts.append(Start(keys, priority, NO_CAUSES if cause is None else Causes((cause,))))

    def reconciles(
        self,
        reconcile: Callable[[K, Causes, S], Awaitable[Result]],
        *,
        unforeseen: Callable[[K, Exception], Awaitable[None]] | None = None,
        foreseen: tuple[type[Exception], ...] = (),
    ) -> None:
        """Set the function that reconciles a key. What it raises concerns that key alone, which is retried.

        - `unforeseen`: reports an exception that can only be a mistake in the program, in the status of the key's
          object; the queue alone would show it to nobody but the log
        - `foreseen`: the exceptions that the reconcile itself reports, beside KubeError, TerminalError and
          those that are not retried
        """
        self._reconcile = reconcile
        self._unforeseen = unforeseen
        self._foreseen = (KubeError, LeaseLost, TerminalError, *self._not_retried, *foreseen)
        self._workers.foreseen = (TimeoutError, *self._foreseen)

    def enqueue(
        self,
        key: K,
        *causes: Hashable,
        priority: Priority = Priority.CHANGE,
        after: float = 0.0,
        trace: str = "",
    ) -> None:
        """Have a key reconciled, now or after so many seconds, as a part of a trace: by default of the present one.

        A key of another replica is not: it would cost a place in the queue and a worker, for each change of the fleet.
        """
        trace = trace or present()
        caused = Causes(causes, trace=trace) if causes or trace else NO_CAUSES
        if self._is_of_another(self._owner(key)):
            self._held.hold(key, caused)
        else:
            self.queue.add_after(key, after, priority, caused)

    def state(self, key: K) -> S | None:
        """Return the state of a key, if it has one."""
        return self._states.get(key)

    def state_or_new(self, key: K) -> S:
        """Return the state of a key, a new one if it has none."""
        if key not in self._states:
            self._states[key] = self._new_state()
        return self._states[key]

    def waiting_causes(self, key: K) -> Causes:
        """Return what arrived for a key since its last reconcile began: the causes of its next one."""
        return self.queue.waiting_causes(key)

    async def reconcile_now(self, key: K, *causes: Hashable) -> Result:
        """Reconcile a key outside of the queue and raise what the reconcile raises. For tests, and for single runs."""
        return await self._reconcile_owned(key, Causes(causes))

    def connect(self) -> None:
        """Begin to take changes.

        Raises RuntimeError for a controller without a function that reconciles, and TriggerMistaken.
        """
        if self._reconcile is None:
            raise RuntimeError(f"controller {self.name!r} has no reconcile function: call reconciles()")
        for informer, function in self._declared:
            try_out(informer, function)
        for informer, handle in self._watches:
            informer.on_change(handle, replay=False)
        self._watches.clear()

    async def run(self) -> None:
        """Work until `shutdown`, or until cancelled."""
        await self._workers.run()

    async def shutdown(self, grace_seconds: float) -> None:
        """Take no more keys, and finish events and changes that wait, and what is under way, within the grace time."""
        await self._workers.shutdown(grace_seconds)

    def owners(self) -> set[str]:
        """Return the owners of all keys to start with and of all keys with state."""
        keys = {*self._states, *self._held.keys()}.union(*(start.keys() for start in self._start_keys()))
        return {owner for key in keys if (owner := self._owner(key))}

    def begin(self, gained: Collection[str], lost: Collection[str]) -> None:
        """Drop the state of keys whose owner moved, and enqueue those of gained owners and of none."""
        for key in tuple(self._states):
            owner = self._owner(key)
            if owner in gained or owner in lost:
                self._drop(key)
        for key, held in self._held.release(self._is_here):
            self.queue.add(key, Priority.CHANGE, held)
        for start in self._start_keys():
            self._start(start, deque(start.keys()), gained)

    def _start(self, start: Start[K], keys: deque[K], gained: Collection[str]) -> None:
        """Enqueue keys of gained owners and of none, some now and the others in later iterations of the event loop."""
        is_of_another = cache(self._is_of_another)  # an owner may have many keys
        for _ in range(min(len(keys), STARTED_IN_AN_ITERATION)):
            key = keys.popleft()
            owner = self._owner(key)
            if owner and owner not in gained:
                continue
            if is_of_another(owner):
                self._held.hold(key, start.causes)
            else:
                self.queue.add(key, start.priority, start.causes)
        if keys:
            asyncio.get_running_loop().call_soon(self._start, start, keys, gained)

    async def finish(self, is_lost: Callable[[str], bool]) -> None:
        """Return once no reconcile is under way for owners that a function selects."""

        def is_selected(key: K) -> bool:
            owner = self._under_way.get(key) or self._owner(key)
            return bool(owner) and is_lost(owner)

        await self.queue.finished(is_selected)

    async def _report(self, report: Callable[[K, Exception], Awaitable[None]], key: K, error: Exception) -> None:
        """Report an unforeseen exception; that it can't be reported does not replace it."""
        try:
            await report(key, error)
        except Exception:
            log.exception("%s: the failure of %s could not be reported", self.name, key)

    def _start_keys(self) -> list[Start[K]]:
        if self._starts or self._own_kind is None:
            return self._starts
        own_keys = self._own_kind.cache.keys
        return [Start(cast("Callable[[], Iterable[K]]", own_keys), Priority.RESYNC, NO_CAUSES)]

    def _is_of_another(self, owner: str) -> bool:
        """Tell whether the keys of an owner are another replica's, or nobody's yet."""
        return bool(owner) and not self._sources.sharding.owns(owner)

    def _is_here(self, key: K) -> bool:
        return not self._is_of_another(self._owner(key))

    def _drop(self, key: K) -> None:
        self._states.pop(key, None)
        self.queue.drop_causes(key)

    def _is_there(self, key: K) -> bool:
        if self._exists is not None:
            return self._exists(key)
        return self._own_kind is None or self._own_kind.get(cast("Any", key)) is not None

    async def _reconcile_traced(self, key: K, causes: Causes) -> Result:
        tracer = self._sources.tracer
        if tracer is None or not causes.trace:
            return await self._reconcile_owned(key, causes)
        with segment(tracer, f"reconcile {self.name}", causes.trace, attributes={"key": str(key)}):
            return await self._reconcile_owned(key, causes)

    async def _reconcile_counted(self, key: K, causes: Causes) -> Result:
        try:
            result = await self._reconcile_traced(key, causes)
        except self._not_retried as error:
            log.debug("%s: %s waits for a trigger: %s", self.name, key, error)
            self.queue.return_causes(key, causes)
            without_frames(error)
            result = Result()
        except Exception as error:
            self._sources.on_result(self.name, error)
            raise
        if result.forget:
            self._states.pop(key, None)
        self._sources.on_result(self.name, result)
        return result

    async def _reconcile_owned(self, key: K, causes: Causes) -> Result:
        """Reconcile a key unless it is another replica's. Keys without an owner are for every replica to reconcile."""
        owner = self._owner(key)
        if self._is_of_another(owner):
            self._held.hold(key, causes)
            self._drop(key)
            return Result()
        if self._reconcile is None:
            raise RuntimeError(f"controller {self.name!r} has no reconcile function: call reconciles()")
        self._under_way[key] = owner
        try:
            return await self._reconcile(key, causes, self.state_or_new(key))
        except Exception as raised:
            error = decisive(raised, (LeaseLost, self._not_retried, TerminalError, Conflict, self._foreseen))
            if isinstance(error, LeaseLost):
                log.info("%s: %s is left to another replica", self.name, key)
                self._held.hold(key, causes)
                self._drop(key)
                return Result()
            if not isinstance(error, self._foreseen):
                if self._unforeseen is not None:
                    await self._report(self._unforeseen, key, error)
                raise
            if error is not raised:
                raise error from raised  # its type decides about the retry
            raise
        finally:
            self._under_way.pop(key, None)
            if not self._is_there(key):
                self._drop(key)
