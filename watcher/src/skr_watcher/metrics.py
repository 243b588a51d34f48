"""What the Watcher counts, under the names of upstream's Watcher where it counts the same."""

import _hashlib
from collections.abc import Callable
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

FIPS_OFF, FIPS_ON, FIPS_ONLY = 0, 1, 2
KERNEL_FIPS = Path("/proc/sys/crypto/fips_enabled")


class Metrics:
    """The Watcher's metrics in a registry of their own."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self._admissions = Counter("watcher_admission_request", "Admission requests.", registry=registry)
        self._malformed = Counter(
            "watcher_admission_request_error", "Admission requests that could not be read.", registry=registry
        )
        self._missed = Counter(
            "watcher_admission_request_shed",
            "Changes that were allowed without a look, for lack of time or room.",
            registry=registry,
        )
        self._duration = Histogram(
            "watcher_request_duration",
            "Seconds to answer an admission request, from its last byte.",
            buckets=(0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 1),
            registry=registry,
        )
        self._requests = Counter("watcher_kcp_requests", "Events that were sent.", registry=registry)
        self._failed = Counter(
            "watcher_failed_kcp", "Events that were not taken, by status or error.", ["error_reason"], registry=registry
        )
        self._retries = Counter("watcher_kcp_retries", "Events that have to be sent again.", registry=registry)
        self._resyncs = Counter("watcher_resyncs", "Times that everything is to be looked at.", registry=registry)
        self._depth = Gauge("watcher_outbox_entries", "Changes that are still to be told.", registry=registry)
        self._age = Gauge(
            "watcher_outbox_oldest_age_seconds", "Age of the oldest change that is still to be told.", registry=registry
        )
        fips = Gauge("watcher_fips_mode", "FIPS mode of the cryptography: 0 off, 1 on, 2 only.", registry=registry)
        fips.set(fips_mode())

    def show_outbox(self, depth: Callable[[], float], age: Callable[[], float]) -> None:
        """Have the outbox asked whenever somebody reads the metrics."""
        self._depth.set_function(depth)
        self._age.set_function(age)

    def admitted(self, seconds: float) -> None:
        """Count an admission."""
        self._admissions.inc()
        self._duration.observe(seconds)

    def malformed(self) -> None:
        """Count a request that is no admission."""
        self._admissions.inc()
        self._malformed.inc()

    def missed(self) -> None:
        """Count a change that was not looked at."""
        self._missed.inc()

    def delivered(self) -> None:
        """Count an event that was taken."""
        self._requests.inc()

    def failed(self, reason: str, *, again: bool) -> None:
        """Count an event that was not taken, this time or for ever."""
        self._requests.inc()
        self._failed.labels(reason).inc()
        if again:
            self._retries.inc()

    def resynced(self) -> None:
        """Count a RESYNC."""
        self._resyncs.inc()


def fips_mode(kernel: Path = KERNEL_FIPS) -> int:
    """Return the FIPS mode as far as it can be told from here.

    Only: OpenSSL gives nothing but what is approved. On: the kernel says so, and OpenSSL gives other things too. To ask
    hashlib for what is not approved tells nothing: what OpenSSL refuses it makes by itself.
    """
    if _hashlib.get_fips_mode():
        return FIPS_ONLY
    try:
        return FIPS_ON if kernel.read_text().strip() == "1" else FIPS_OFF
    except OSError:
        return FIPS_OFF
