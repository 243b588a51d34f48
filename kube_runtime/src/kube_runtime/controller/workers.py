"""Workers that reconcile keys, one key at a time and many keys at once.

A reconcile gets a key and nothing else: it reads what is there, brings it to what should be, and says when to look
again. It is bounded in time. Whatever it raises concerns its key alone, which is tried again later.
"""

import asyncio
import logging
import random
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar

from kube_runtime.clock import SYSTEM_CLOCK, Clock
from kube_runtime.controller.causes import Causes
from kube_runtime.controller.pace import Pace
from kube_runtime.controller.queue import Priority, QueueShutDown, WorkQueue
from kube_runtime.controller.retries import DEFAULT_POLICY, RetryPolicy
from kube_runtime.controller.turns import Turns
from kube_runtime.exceptions import Conflict, KubeError, TerminalError
from kube_runtime.metrics import ControllerMetrics, RuntimeMetrics

__all__ = ["Failure", "Result", "Workers"]

K = TypeVar("K", bound=Hashable)
log = logging.getLogger(__name__)

FAILURES_KEPT = 1_000
CONFLICT_SECONDS = 0.01
"""The pause after a first conflict: somebody has written meanwhile, and the informers hear of it any moment."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a reconcile that went well asks for: to be called again after so many seconds, or None."""

    requeue_after: float | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """The last failure of a key: what, when, and how many in a row."""

    error: str
    at: datetime
    attempts: int


class Workers(Generic[K]):
    """Reconciles the keys that are added to its queue.

    - `concurrency`: how many keys at once; a quarter of the workers leave those alone that it is only time to look at
      again, so that no change waits where many of these take long
    - `timeout_seconds`: how long one reconcile may take
    - `retry`: the pauses after failures, and `retry_priority` how urgent a key is then
    - `pace`: shared with other controllers, limits what is under way of all that is not urgent; then a quarter as many
      workers again, and never less than two, wait for events alone
    - `requeue_jitter`: the share of `requeue_after` that is added at random, so that keys spread over time
    """

    def __init__(
        self,
        name: str,
        reconcile: Callable[[K, Causes], Awaitable[Result]],
        *,
        concurrency: int = 10,
        timeout_seconds: float = 60.0,
        retry: RetryPolicy = DEFAULT_POLICY,
        retry_priority: Priority = Priority.CHANGE,
        requeue_jitter: float = 0.05,
        pace: Pace | None = None,
        metrics: RuntimeMetrics | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.name = name
        self.queue: WorkQueue[K] = WorkQueue(retry=retry, metrics=metrics.queue(name) if metrics else None)
        self._reconcile = reconcile
        self._concurrency = concurrency
        self._timeout_seconds = timeout_seconds
        self._retry_priority = retry_priority
        self._requeue_jitter = requeue_jitter
        self._pace = pace
        self._metrics = metrics.controller(name, concurrency) if metrics else ControllerMetrics(concurrency)
        self._failures: OrderedDict[K, Failure] = OrderedDict()
        self._workers: list[asyncio.Task[None]] = []
        self._turns = Turns()
        self._clock = clock

    @property
    def failures(self) -> dict[K, Failure]:
        """The keys that fail at present, and why; the newest thousand of them."""
        return dict(self._failures)

    async def run(self) -> None:
        """Work until `shutdown`, or until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for_changes = self._concurrency // 4
            self._workers = [
                tasks.create_task(
                    self._work(Priority.CHANGE if number < for_changes else Priority.RESYNC),
                    name=f"{self.name} worker {number}",
                )
                for number in range(self._concurrency)
            ]
            if self._pace is not None:
                self._workers += [
                    tasks.create_task(self._work_on_events(), name=f"{self.name} worker for events {number}")
                    for number in range(max(2, self._concurrency // 4))
                ]

    async def shutdown(self, grace_seconds: float) -> None:
        """Take no more keys; finish those that wait and those under way; stop what is left after the grace time."""
        self.queue.shut_down()
        if not self._workers:
            return
        _, late = await asyncio.wait(self._workers, timeout=grace_seconds)
        for worker in late:
            worker.cancel()
        if late:
            log.warning("%s: %d reconciles did not end in time and were stopped", self.name, len(late))
            await asyncio.wait(late)

    async def _work(self, least: Priority) -> None:
        while True:
            try:
                await self.queue.filled(least)
                async with self._slot():
                    await self._turns.mine()
                    if self.queue.holds(least):  # else somebody was faster
                        await self._work_on(await self.queue.get(least))
            except QueueShutDown:
                return

    async def _work_on_events(self) -> None:
        while True:
            try:
                await self._work_on(await self.queue.get(Priority.EVENT))
            except QueueShutDown:
                return

    def _slot(self) -> AbstractAsyncContextManager[None]:
        return nullcontext() if self._pace is None else self._pace.slot()

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
        deadline = asyncio.timeout(self._timeout_seconds)
        causes = self.queue.take_causes(key)
        try:
            async with deadline:
                result = await self._reconcile(key, causes)
        except TerminalError as error:
            self._metrics.terminal_errors += 1
            self.queue.forget(key)
            self._note(key, error)
            log.error("%s: %s failed for good: %s", self.name, key, error)  # noqa: TRY400 - it said why itself
        except Exception as error:  # noqa: BLE001 - whatever it is, it concerns this key alone
            if deadline.expired():
                self._metrics.timeouts += 1
            self._retry(key, error, causes)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            self._retry(key, error, causes)  # it awaited something that was cancelled; this worker was not
        else:
            self._finish(key, result)

    def _finish(self, key: K, result: Result) -> None:
        self.queue.forget(key)
        self._failures.pop(key, None)
        if result.requeue_after is None:
            self._metrics.results["success"] += 1
            return
        self._metrics.results["requeue_after"] += 1
        seconds = result.requeue_after * (1.0 + self._requeue_jitter * random.random())  # noqa: S311 - no secret
        self.queue.add_after(key, seconds, Priority.RESYNC)

    def _retry(self, key: K, error: BaseException, causes: Causes) -> None:
        self._note(key, error)
        soon = CONFLICT_SECONDS if isinstance(error, Conflict) else None
        self.queue.add_rate_limited(key, self._retry_priority, first_seconds=soon, causes=causes)
        if isinstance(error, KubeError | TimeoutError):
            log.warning("%s: %s failed: %s: %s", self.name, key, type(error).__name__, error)
        else:
            self._metrics.panics += 1
            log.error("%s: %s failed", self.name, key, exc_info=error)

    def _note(self, key: K, error: BaseException) -> None:
        self._metrics.errors += 1
        self._metrics.results["error"] += 1
        text = f"{type(error).__name__}: {error}"
        self._failures.pop(key, None)
        self._failures[key] = Failure(text, self._clock.now(), self.queue.failures(key) + 1)
        if len(self._failures) > FAILURES_KEPT:
            self._failures.popitem(last=False)
