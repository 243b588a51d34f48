"""Metrics with controller-runtime's names, so that its dashboards and alerts work unchanged.

Counting is a plain addition in the hot paths; only a scrape turns the numbers into Prometheus' form. All counting
happens on the event loop's thread, a scrape may come from another: it reads numbers that are a moment old, never wrong.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

_RECONCILE_SECONDS = (
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9,
    1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0,
    25.0, 30.0, 40.0, 50.0, 60.0,
)  # fmt: skip
_QUEUE_SECONDS = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 50.0, 100.0, 1000.0)
RESULTS = ("success", "error", "requeue", "requeue_after")


class Histogram:
    """Counts observations by bucket."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """Count a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def read(self) -> tuple[list[tuple[str, float]], float]:
        """Return the cumulated buckets as Prometheus wants them, and the sum."""
        buckets: list[tuple[str, float]] = []
        total = 0
        for bound, count in zip((*map(str, self._bounds), "+Inf"), self._counts, strict=True):
            total += count
            buckets.append((bound, total))
        return buckets, self._sum


class QueueMetrics:
    """The metrics of one work queue."""

    def __init__(self) -> None:
        self.adds = 0
        self.retries = 0
        self.depth: Callable[[], dict[int, int]] = dict
        self.unfinished_seconds: Callable[[], tuple[float, float]] = lambda: (0.0, 0.0)
        self.queue_seconds = Histogram(_QUEUE_SECONDS)
        self.work_seconds = Histogram(_QUEUE_SECONDS)


class ControllerMetrics:
    """The metrics of one controller."""

    def __init__(self, concurrency: int) -> None:
        self.results = dict.fromkeys(RESULTS, 0)
        self.errors = 0
        self.terminal_errors = 0
        self.timeouts = 0
        self.panics = 0
        self.active_workers = 0
        self.waiting_workers = 0
        self.concurrency = concurrency
        self.reconcile_seconds = Histogram(_RECONCILE_SECONDS)


class InformerMetrics:
    """The metrics of one informer."""

    def __init__(self) -> None:
        self.lists = 0
        self.watches = 0
        self.events = 0
        self.failures = 0
        self.unreadable = 0
        self.objects: Callable[[], int] = lambda: 0


class RuntimeMetrics(Collector):
    """The metrics of all queues, controllers, informers and clients of a process, for a Prometheus registry."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self._queues: dict[str, QueueMetrics] = {}
        self._controllers: dict[str, ControllerMetrics] = {}
        self._informers: dict[str, InformerMetrics] = {}
        self._requests: defaultdict[tuple[str, str, str], int] = defaultdict(int)
        if registry is not None:
            registry.register(self)

    def queue(self, name: str) -> QueueMetrics:
        """Return the metrics of the queue of this name."""
        return self._queues.setdefault(name, QueueMetrics())

    def controller(self, name: str, concurrency: int) -> ControllerMetrics:
        """Return the metrics of the controller of this name."""
        return self._controllers.setdefault(name, ControllerMetrics(concurrency))

    def informer(self, resource: str) -> InformerMetrics:
        """Return the metrics of the informers of this resource."""
        return self._informers.setdefault(resource, InformerMetrics())

    def request(self, code: str, method: str, host: str) -> None:
        """Count a request; `<error>` as the code stands for one without a response."""
        self._requests[code, method, host] += 1

    def collect(self) -> Iterable[Metric]:
        """Yield all metrics as Prometheus wants them."""
        yield from self._of_queues()
        yield from self._of_controllers()
        yield from self._of_informers()
        requests = CounterMetricFamily(
            "rest_client_requests", "Requests to API servers.", labels=("code", "method", "host")
        )
        for labels, count in list(self._requests.items()):
            requests.add_metric(labels, count)
        yield requests

    def _of_queues(self) -> Iterator[Metric]:
        adds = CounterMetricFamily("workqueue_adds", "Keys added.", labels=("name",))
        retries = CounterMetricFamily("workqueue_retries", "Keys added after a failure.", labels=("name",))
        depth = GaugeMetricFamily("workqueue_depth", "Keys that wait for a worker.", labels=("name", "priority"))
        unfinished = GaugeMetricFamily(
            "workqueue_unfinished_work_seconds", "Seconds of work under way.", labels=("name",)
        )
        longest = GaugeMetricFamily(
            "workqueue_longest_running_processor_seconds",
            "Seconds since the oldest reconcile under way began.",
            labels=("name",),
        )
        waited = HistogramMetricFamily("workqueue_queue_duration_seconds", "Seconds in the queue.", labels=("name",))
        worked = HistogramMetricFamily("workqueue_work_duration_seconds", "Seconds of work.", labels=("name",))
        for name, queue in list(self._queues.items()):
            adds.add_metric((name,), queue.adds)
            retries.add_metric((name,), queue.retries)
            for priority, count in queue.depth().items():
                depth.add_metric((name, str(priority)), count)
            total, oldest = queue.unfinished_seconds()
            unfinished.add_metric((name,), total)
            longest.add_metric((name,), oldest)
            waited.add_metric((name,), *queue.queue_seconds.read())
            worked.add_metric((name,), *queue.work_seconds.read())
        yield from (adds, retries, depth, unfinished, longest, waited, worked)

    def _of_controllers(self) -> Iterator[Metric]:
        total = CounterMetricFamily(
            "controller_runtime_reconcile", "Reconciles by result.", labels=("controller", "result")
        )
        counters = {
            "errors": ("reconcile_errors", "Reconciles that failed."),
            "terminal_errors": ("terminal_reconcile_errors", "Reconciles that failed with a terminal error."),
            "timeouts": ("reconcile_timeouts", "Reconciles that timed out."),
            "panics": ("reconcile_panics", "Reconciles that raised an unexpected exception."),
        }
        families = {
            counter: CounterMetricFamily(f"controller_runtime_{name}", help_text, labels=("controller",))
            for counter, (name, help_text) in counters.items()
        }
        active = GaugeMetricFamily("controller_runtime_active_workers", "Busy workers.", labels=("controller",))
        waiting = GaugeMetricFamily(
            "kube_runtime_waiting_workers",
            "Workers that have a key to take and wait for the limit that all controllers share.",
            labels=("controller",),
        )
        allowed = GaugeMetricFamily("controller_runtime_max_concurrent_reconciles", "Workers.", labels=("controller",))
        seconds = HistogramMetricFamily(
            "controller_runtime_reconcile_time_seconds", "Seconds a reconcile.", labels=("controller",)
        )
        for name, controller in list(self._controllers.items()):
            for result, count in controller.results.items():
                total.add_metric((name, result), count)
            for counter, family in families.items():
                family.add_metric((name,), getattr(controller, counter))
            active.add_metric((name,), controller.active_workers)
            waiting.add_metric((name,), controller.waiting_workers)
            allowed.add_metric((name,), controller.concurrency)
            seconds.add_metric((name,), *controller.reconcile_seconds.read())
        yield from (total, *families.values(), active, waiting, allowed, seconds)

    def _of_informers(self) -> Iterator[Metric]:
        counters = {
            "lists": "Times the whole resource was listed.",
            "watches": "Watches begun.",
            "events": "Events received.",
            "failures": "Lists and watches that failed.",
            "unreadable": "Objects that could not be decoded.",
        }
        for counter, help_text in counters.items():
            family = CounterMetricFamily(f"kube_runtime_informer_{counter}", help_text, labels=("resource",))
            for resource, informer in list(self._informers.items()):
                family.add_metric((resource,), getattr(informer, counter))
            yield family
        objects = GaugeMetricFamily("kube_runtime_informer_objects", "Objects in the cache.", labels=("resource",))
        for resource, informer in list(self._informers.items()):
            objects.add_metric((resource,), informer.objects())
        yield objects
