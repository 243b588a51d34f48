"""The metrics of the Watcher, with the names of upstream's Watcher for the same figures."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from kyma_certs import FipsMode


class Metrics:
    """The Watcher's metrics in their own registry."""

    def __init__(self, mode: FipsMode = FipsMode.OFF) -> None:
        self.registry = registry = CollectorRegistry()
        self._admissions = Counter("watcher_admission_request", "Admission requests.", registry=registry)
        self._malformed = Counter(
            "watcher_admission_request_error", "Admission requests that could not be decoded.", registry=registry
        )
        self._missed = Counter(
            "watcher_admission_request_shed",
            "Changes that were allowed without inspection, for lack of CPU time or memory.",
            registry=registry,
        )
        self._duration = Histogram(
            "watcher_request_duration",
            "Seconds from the last byte of an admission request to its response.",
            buckets=(0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 1),
            registry=registry,
        )
        self._requests = Counter("watcher_kcp_requests", "Events sent to the control plane.", registry=registry)
        self._failed = Counter(
            "watcher_failed_kcp",
            "Events that were not accepted, by status or error.",
            ["error_reason"],
            registry=registry,
        )
        self._retries = Counter("watcher_kcp_retries", "Events to be retried.", registry=registry)
        self._resyncs = Counter("watcher_resyncs", "RESYNC events.", registry=registry)
        self._depth = Gauge("watcher_outbox_entries", "Changes to be delivered.", registry=registry)
        self._age = Gauge(
            "watcher_outbox_oldest_age_seconds", "Age of the oldest change to be delivered.", registry=registry
        )
        Gauge("watcher_fips_mode", "FIPS mode: 0 off, 1 on, 2 only.", registry=registry).set(mode)

    def show_outbox(self, depth: Callable[[], float], age: Callable[[], float]) -> None:
        """Read depth and age from the outbox at each scrape."""
        self._depth.set_function(depth)
        self._age.set_function(age)

    def admitted(self, seconds: float) -> None:
        """Count an admission."""
        self._admissions.inc()
        self._duration.observe(seconds)

    def malformed(self) -> None:
        """Count a request that could not be decoded."""
        self._admissions.inc()
        self._malformed.inc()

    def missed(self) -> None:
        """Count a change that was not inspected."""
        self._missed.inc()

    def delivered(self) -> None:
        """Count an event that was accepted."""
        self._requests.inc()

    def failed(self, reason: str, *, retried: bool) -> None:
        """Count an event that was not accepted, and whether it is retried."""
        self._requests.inc()
        self._failed.labels(reason).inc()
        if retried:
            self._retries.inc()

    def resynced(self) -> None:
        """Count a RESYNC."""
        self._resyncs.inc()
