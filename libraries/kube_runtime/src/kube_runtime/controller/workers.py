"""Workers that reconcile keys, one key at a time and many keys at once.

A reconcile gets a key and its causes. It reads the present state, changes it to the desired one, and returns when to
reconcile again. It is bounded in time. Whatever it raises concerns its key alone, which is retried later.
"""

import asyncio
import logging
import random
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, TypeVar

from kube_runtime.client.limits import IN_BACKGROUND
from kube_runtime.clock import SYSTEM_CLOCK, Clock
from kube_runtime.controller.causes import NO_CAUSES, Causes
from kube_runtime.controller.options import ControllerOptions
from kube_runtime.controller.priority import Priority
from kube_runtime.controller.queue import QueueShutDown, WorkQueue
from kube_runtime.controller.shared_limit import SharedLimit
from kube_runtime.exceptions import Conflict, KubeError, TerminalError, without_frames
from kube_runtime.metrics import ControllerMetrics, RuntimeMetrics

K = TypeVar("K", bound=Hashable)
log = logging.getLogger(__name__)

DEFAULTS = ControllerOptions()
FAILURES_KEPT = 1_000
MIN_REQUEUE_SECONDS = 0.01
SAME_CHANGE_SECONDS = 2.0
AT_ONCE = 3
CONFLICT_SECONDS = 0.01
"""The pause after a first conflict: another write came first, and the informers will see it any moment."""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a successful reconcile: after how many seconds to reconcile again, None for never.

    0 or less is at once; a key for which that is so AT_ONCE times in a row waits as after failures.
    `reasons` is for metrics: what it has begun and not seen the end of. With `forget` the state of the key is dropped:
    there is nothing to remember.
    """

    requeue_after: float | None = None
    reasons: tuple[str, ...] = field(default=(), compare=False)
    forget: bool = False


@dataclass(frozen=True, slots=True)
class Failure:
    """The last failure of a key: what, when, and how many in a row."""

    error: str
    at: datetime
    attempts: int


class Workers(Generic[K]):
    """Reconciles the keys that are added to its queue.

    - `owner`: returns the owner of a key, for `max_per_owner`
    - `limit`: what the workers of several controllers share
    - `foreseen`: the exceptions that are no mistake in the program
    """

    foreseen: tuple[type[BaseException], ...] = (KubeError, TimeoutError)

    def __init__(
        self,
        name: str,
        reconcile: Callable[[K, Causes], Awaitable[Result]],
        options: ControllerOptions = DEFAULTS,
        *,
        owner: Callable[[K], str] = str,
        limit: SharedLimit | None = None,
        metrics: RuntimeMetrics | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.name = name
        self.queue: WorkQueue[K] = WorkQueue(
            retry=options.retry,
            owner=owner,
            max_per_owner=options.max_per_owner,
            metrics=metrics.queue(name) if metrics else None,
        )
        self._reconcile = reconcile
        self._options = options
        self._limit = limit if options.is_limited else None
        concurrency = options.concurrency
        self._metrics = metrics.controller(name, concurrency) if metrics else ControllerMetrics(concurrency)
        self._failures: OrderedDict[K, Failure] = OrderedDict()
        self._workers: list[asyncio.Task[None]] = []
        self._clock = clock

    @property
    def failures(self) -> dict[K, Failure]:
        """The keys that fail at present, and why; the newest thousand of them."""
        return dict(self._failures)

    async def run(self) -> None:
        """Work until `shutdown`, or until cancelled."""
        options = self._options
        without_resyncs = min(options.workers_without_resyncs, options.concurrency)
        numbers = {
            Priority.EVENT: options.workers_for_events,
            Priority.CHANGE: without_resyncs,
            Priority.RESYNC: options.concurrency - without_resyncs,
        }
        async with asyncio.TaskGroup() as tasks:
            self._workers = [
                tasks.create_task(self._work(least), name=f"{self.name} worker {least.name} {each}")
                for least, number in numbers.items()
                for each in range(number)
            ]

    async def shutdown(self, grace_seconds: float) -> None:
        """Take no more keys; finish events and changes that wait, and what is under way.

        What is left after the grace time is cancelled.
        """
        self.queue.shut_down()
        if not self._workers:
            return
        _, late = await asyncio.wait(self._workers, timeout=grace_seconds)
        for worker in late:
            worker.cancel()
        if late:
            log.warning("%s: cancelled %d reconciles that did not end within the grace time", self.name, len(late))
            await asyncio.wait(late)

    async def _work(self, least: Priority) -> None:
        limit = self._limit if least is not Priority.EVENT else None
        IN_BACKGROUND.set(least is not Priority.EVENT)
        while True:
            try:
                await self.queue.filled(least)
                async with limit.place(least, self._metrics) if limit is not None else nullcontext():
                    if self.queue.holds(least):  # else somebody was faster
                        await self._work_on(await self.queue.get(least))
            except QueueShutDown:
                return

    async def _work_on(self, key: K) -> None:
        self._metrics.active_workers += 1
        began = time.perf_counter()
        try:
            await self._attempt(key)
        finally:
            self._metrics.reconcile_seconds.observe(time.perf_counter() - began)
            self._metrics.active_workers -= 1
            self.queue.done(key)

    async def _attempt(self, key: K) -> None:
        deadline = asyncio.timeout(self._options.timeout_seconds)
        causes = self.queue.take_causes(key)
        try:
            async with deadline:
                # A task of its own: before Python 3.13 an error in a TaskGroup leaves its task counted as being
                # cancelled (python/cpython#116720), and this worker would take that for its own end.
                result = await asyncio.ensure_future(self._reconcile(key, causes))
        except TerminalError as error:
            self._metrics.terminal_errors += 1
            self.queue.forget(key)
            log.error("%s: %s failed with a terminal error: %s", self.name, key, error)  # noqa: TRY400 - the message says why
            self._note(key, error)
        except Exception as error:  # noqa: BLE001 - whatever it is, it concerns this key alone
            if deadline.expired():
                self._metrics.timeouts += 1
            self._retry(key, error, causes)
        except asyncio.CancelledError as error:
            if _is_cancelled():
                raise
            self._retry(key, error, causes)  # it awaited something that was cancelled; this worker was not
        else:
            self._finish(key, result, causes.trace)
        if _is_cancelled():  # what the reconcile did at its end, or beside, hid that
            raise asyncio.CancelledError

    def _finish(self, key: K, result: Result, trace: str) -> None:
        self._failures.pop(key, None)
        if result.requeue_after is None:
            self.queue.forget(key)
            self._metrics.results["success"] += 1
            return
        self._metrics.results["requeue_after"] += 1
        # What is due again so soon waits for something of the same change.
        same_change = Causes(trace=trace) if trace and result.requeue_after <= SAME_CHANGE_SECONDS else NO_CAUSES
        if result.requeue_after >= MIN_REQUEUE_SECONDS:
            self.queue.forget(key)
            seconds = result.requeue_after * (1.0 + self._options.requeue_jitter * random.random())  # noqa: S311 - no secret
            self.queue.add_after(key, seconds, Priority.RESYNC, same_change)
        else:  # a key that is overdue whenever it ends would hold a worker for ever
            self.queue.add_rate_limited(
                key, Priority.RESYNC, first_seconds=0.0, first_times=AT_ONCE, causes=same_change
            )

    def _retry(self, key: K, error: BaseException, causes: Causes) -> None:
        text = _text(error)
        if isinstance(error, self.foreseen):
            log.warning("%s: %s failed: %s", self.name, key, text)
        else:
            self._metrics.panics += 1
            is_known = any(each.error == text for each in self._failures.values())
            times = self.queue.failures(key) + 1
            log.error(
                "%s: %s failed (%d in a row): %s", self.name, key, times, text, exc_info=None if is_known else error
            )
        self._note(key, error)
        soon = CONFLICT_SECONDS if isinstance(error, Conflict) else None
        self.queue.add_rate_limited(key, self._options.retry_priority, first_seconds=soon, causes=causes)

    def _note(self, key: K, error: BaseException) -> None:
        """Note a failure that was logged: from here on it has no frames."""
        without_frames(error)
        self._metrics.errors += 1
        self._metrics.results["error"] += 1
        self._failures.pop(key, None)
        self._failures[key] = Failure(_text(error), self._clock.now(), self.queue.failures(key) + 1)
        if len(self._failures) > FAILURES_KEPT:
            self._failures.popitem(last=False)


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _is_cancelled() -> bool:
    """Tell whether this worker is cancelled, and not only something that its reconcile awaited."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
