"""How the workers of a controller are numbered, bounded and retried."""

from dataclasses import dataclass

from kube_runtime.controller.priority import Priority
from kube_runtime.controller.retries import DEFAULT_POLICY, RetryPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerOptions:
    """The options of the workers of one controller.

    - `concurrency`: how many keys at once
    - `timeout_seconds`: how long one reconcile may take
    - `retry`: the pauses after failures, and `retry_priority` how urgent a key is then
    - `requeue_jitter`: the portion of `requeue_after` that is added at random, so that keys spread over time
    - `max_per_owner`: how many keys of one `owner` at once, so that a slow cluster holds no more workers

    How urgent keys get past the others; benchmarks/kube_runtime_priorities.py measures each, in the scenario named:

    - `is_limited`: take part in the limit that all controllers share, which events pass (`remote`)
    - `reserved_workers`: so many of `concurrency` take no resyncs, by default a quarter: no change waits for resyncs
      that take long (`silent`, `busy`)
    - `event_workers`: so many more take events alone, by default with the shared limit a quarter again and at least
      two: no event waits for changes that take long, nor for the limit (`silent`, `busy`)
    """

    concurrency: int = 10
    timeout_seconds: float = 60.0
    retry: RetryPolicy = DEFAULT_POLICY
    retry_priority: Priority = Priority.CHANGE
    requeue_jitter: float = 0.05
    max_per_owner: int | None = None
    is_limited: bool = False
    reserved_workers: int | None = None
    event_workers: int | None = None

    @property
    def workers_without_resyncs(self) -> int:
        return self.concurrency // 4 if self.reserved_workers is None else self.reserved_workers

    @property
    def workers_for_events(self) -> int:
        if self.event_workers is not None:
            return self.event_workers
        return max(2, self.concurrency // 4) if self.is_limited else 0
