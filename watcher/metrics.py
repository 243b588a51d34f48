"""What the Watcher counts, under the names of upstream's Watcher where it counts the same."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class Metrics:
    """The Watcher's metrics in a registry of their own."""

    def __init__(self, pending: Callable[[], float]) -> None:
        self.registry = CollectorRegistry()
        self._admissions = Counter("watcher_admission_request_total", "Admission requests.", registry=self.registry)
        self._malformed = Counter(
            "watcher_admission_request_error_total", "Admission requests that are none.", registry=self.registry
        )
        self._duration = Histogram(
            "watcher_request_processing_duration_seconds",
            "Time to answer an admission request.",
            buckets=(0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 1),
            registry=self.registry,
        )
        self._requests = Counter("watcher_kcp_request_total", "Events that were sent.", registry=self.registry)
        self._failed = Counter(
            "watcher_failed_kcp_total", "Events that were not taken.", ["reason"], registry=self.registry
        )
        depth = Gauge("watcher_outbox_entries", "Changes that are still to be told.", registry=self.registry)
        depth.set_function(pending)

    def admitted(self, seconds: float) -> None:
        """Count an admission."""
        self._admissions.inc()
        self._duration.observe(seconds)

    def malformed(self) -> None:
        """Count a request that is no admission."""
        self._malformed.inc()

    def delivered(self) -> None:
        """Count an event that was taken."""
        self._requests.inc()

    def failed(self, reason: str) -> None:
        """Count an event that was not taken, this time."""
        self._requests.inc()
        self._failed.labels(reason).inc()
