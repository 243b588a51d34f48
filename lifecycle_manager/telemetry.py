"""What the Lifecycle Manager measures of itself, beyond what every controller does."""

from datetime import UTC, datetime

from prometheus_client import CollectorRegistry, Gauge, Histogram

BUCKETS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


def silent_watchers(registry: CollectorRegistry) -> Gauge:
    """Return the gauge that is 1 for a Kyma whose Watcher is not heard from any more."""
    return Gauge(
        "lifecycle_mgr_skr_watcher_silent",
        "Whether nothing is heard from a cluster's Watcher any more.",
        ["kyma_name"],
        registry=registry,
    )


class ChangeLatency:
    """How long a user's change took from its admission in the SKR to each station on its way."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._stations = {
            station: Histogram(
                f"lifecycle_mgr_change_to_{station}_seconds",
                f"Seconds from the admission of a change in the SKR to: {meaning}.",
                buckets=BUCKETS,
                registry=registry,
            )
            for station, meaning in (
                ("event_taken", "its event taken"),
                ("module_config_written", "its ModuleConfig written"),
                ("sync_resource_applied", "its SyncResource applied in the SKR"),
            )
        }

    def event_taken(self, observed_at: str) -> None:
        """Count an event that was taken."""
        self._observe("event_taken", observed_at)

    def module_config_written(self, observed_at: str) -> None:
        """Count a ModuleConfig that was written."""
        self._observe("module_config_written", observed_at)

    def sync_resource_applied(self, observed_at: str) -> None:
        """Count a SyncResource that was applied."""
        self._observe("sync_resource_applied", observed_at)

    def _observe(self, station: str, observed_at: str) -> None:
        """Take the time since the admission; what is no time, or one of another clock, is left out."""
        try:
            seconds = (datetime.now(UTC) - datetime.fromisoformat(observed_at)).total_seconds()
        except (ValueError, TypeError):
            return  # sent by a Watcher that does not say
        if 0 <= seconds <= 3600:
            self._stations[station].observe(seconds)
