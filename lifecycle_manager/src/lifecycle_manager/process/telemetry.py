"""Metrics that several domains count into. Those of the fleet's state are in `kyma.fleet_metrics`."""

from collections.abc import Callable, Mapping
from datetime import datetime

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from kube_runtime import Clock, ClusterUnreachable, KubeError, Result, Unauthorized
from kube_runtime.tracing import exemplar
from kyma_certs import fips_mode

LONG_SECONDS = 60.0
BUCKETS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


def show_fips_mode(registry: CollectorRegistry, *, only: bool) -> None:
    """Report the FIPS mode of this process."""
    text = "FIPS mode of this process: 0 off, 1 on, 2 only."
    Gauge("lifecycle_mgr_fips_mode", text, registry=registry).set(fips_mode(only=only))


class LongReconciles:
    """How long the last reconcile of a Manifest took, of those that took a minute or longer."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._gauge = Gauge(
            "reconcile_duration_seconds",
            "Seconds that the last reconcile of a Manifest took, if it was a minute or longer.",
            ["manifest_name"],
            registry=registry,
        )
        self._shown: set[str] = set()

    def observe(self, manifest: str, seconds: float) -> None:
        if seconds >= LONG_SECONDS:
            self._gauge.labels(manifest).set(seconds)
            self._shown.add(manifest)
        elif manifest in self._shown:
            self._gauge.remove(manifest)
            self._shown.remove(manifest)


def policy_readable(registry: CollectorRegistry) -> Gauge:
    """Return the gauge that is 1 where the maintenance policy could be read."""
    return Gauge(
        "lifecycle_mgr_maintenance_window_config_read_success",
        "Whether the maintenance policy was read successfully.",
        registry=registry,
    )


_FAILURES: Mapping[str, Mapping[type[Exception], str]] = {
    "kyma": {
        Unauthorized: "kyma_unauthorized",
        ClusterUnreachable: "sync_context_retrieval",
        KubeError: "processing_kyma_state",
    },
    "manifest": {
        Unauthorized: "manifest_unauthorized",
        ClusterUnreachable: "manifest_client_init",
        KubeError: "manifest_sync_resources",
    },
    "catalog": {KubeError: "module_catalog_sync"},
    "watcher": {KubeError: "skr_webhook_installation"},
}
"""Upstream's reasons for failures of a controller, those that are more special first."""


def requeue_counter(registry: CollectorRegistry) -> Callable[[str, Result | Exception], None]:
    """Return a function that counts keys that are enqueued again, by the controller and the reason.

    Reasons have upstream's names where they mean the same.
    """
    counter = Counter(
        "lifecycle_mgr_requeue_reason",
        "Keys that were put into a queue again.",
        ["requeue_reason", "requeue_type"],
        registry=registry,
    )

    def count(controller: str, result: Result | Exception) -> None:
        if isinstance(result, Exception):
            named = (name for kind, name in _FAILURES.get(controller, {}).items() if isinstance(result, kind))
            counter.labels(next(named, f"{controller}_{type(result).__name__}"), "unexpected").inc()
            return
        interval = (f"{controller}_interval",) if result.requeue_after is not None else ()
        for reason in result.reasons or interval:
            counter.labels(reason, "intended").inc()

    return count


class ChangeLatency:
    """The time from the admission of a user's change in the SKR to each station on its way."""

    def __init__(self, registry: CollectorRegistry, clock: Clock) -> None:
        self._registry = registry
        self._clock = clock
        self.event_taken = self._station("event_taken", "its event taken")
        self.module_config_written = self._station("module_config_written", "its ModuleConfig written")
        self.sync_resource_applied = self._station("sync_resource_applied", "its SyncResource applied in the SKR")

    def _station(self, name: str, meaning: str) -> Callable[[str], None]:
        """Return a function that observes the seconds since the admission of a change, whose time it is given.

        Invalid times, and those of another clock, are ignored.
        """
        histogram = Histogram(
            f"lifecycle_mgr_change_to_{name}_seconds",
            f"Seconds from the admission of a change in the SKR to: {meaning}.",
            buckets=BUCKETS,
            registry=self._registry,
        )

        def observe(observed_at: str) -> None:
            try:
                seconds = (self._clock.now() - datetime.fromisoformat(observed_at)).total_seconds()
            except (ValueError, TypeError):
                return  # the Watcher did not send the time
            if 0 <= seconds <= 3600:
                histogram.observe(seconds, exemplar=exemplar())

        return observe
