"""What the Lifecycle Manager measures of itself, beyond what every controller does."""

from collections.abc import Callable, Iterator, Set
from datetime import UTC, datetime

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from kube_runtime import Informer
from lifecycle_manager.kyma_conditions import event_path_fault as fault_of
from lifecycle_manager.module_catalog import Offers, is_mandatory_manifest, kyma_of_manifest, module_of_manifest
from lifecycle_manager_api import Kyma, Manifest, names

BUCKETS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


def policy_readable(registry: CollectorRegistry) -> Gauge:
    """Return the gauge that is 1 where the maintenance policy could be read."""
    return Gauge(
        "lifecycle_mgr_maintenance_window_config_read_success",
        "Whether the maintenance policy was read successfully.",
        registry=registry,
    )


def requeue_reasons(registry: CollectorRegistry) -> Counter:
    """Return the counter of keys that come again, by the reason and by whether that was intended."""
    return Counter(
        "lifecycle_mgr_requeue_reason",
        "Keys that were put into a queue again.",
        ["requeue_reason", "requeue_type"],
        registry=registry,
    )


class FleetCollector(Collector):
    """The states of Kymas and modules as the caches have them when somebody asks.

    Read at that moment and kept nowhere, so that what is gone from the fleet is gone from the metrics. Only the state
    that is in force has a sample, with the value 1: a fleet has tens of thousands of modules. Each replica tells of the
    Kymas that it looks after, which `owns` says of a name, so that the sums over all replicas are right. `not_renewed`
    are those whose Watcher's certificate should have been renewed; somebody else keeps that set.
    """

    def __init__(
        self,
        kymas: Informer[Kyma],
        manifests: Informer[Manifest],
        offers: Offers,
        owns: Callable[[str], bool],
        not_renewed: Set[str] = frozenset(),
    ) -> None:
        self._kymas = kymas
        self._not_renewed = not_renewed
        self._manifests = manifests
        self._offers = offers
        self._owns = owns

    def collect(self) -> Iterator[Metric]:
        """Give the metrics. Called in the thread of the metrics server."""
        yield from self._of_kymas()
        yield from self._of_mandatory_modules()
        yield self._of_certificates()

    def describe(self) -> Iterator[Metric]:
        """Give no samples: what there is is known only when it is asked for."""
        yield from ()

    def _of_kymas(self) -> Iterator[Metric]:
        whole = GaugeMetricFamily(
            "lifecycle_mgr_kyma_state", "State of a Kyma.", labels=["kyma_name", "state", "shoot", "instance_id"]
        )
        parts = GaugeMetricFamily(
            "lifecycle_mgr_module_state",
            "State of a module in a Kyma.",
            labels=["module_name", "kyma_name", "state", "shoot", "instance_id"],
        )
        faults = GaugeMetricFamily(
            "lifecycle_mgr_skr_event_path_broken",
            "Clusters whose changes reach us by no event, and why; a cluster without a sample is well.",
            labels=["kyma_name", "reason"],
        )
        ours = [kyma for kyma in self._kymas.cache.list() if self._owns(kyma.metadata.name)]
        share = GaugeMetricFamily("lifecycle_mgr_replica_kymas", "Kymas that this replica looks after.")
        share.add_metric([], len(ours))
        for kyma in ours:
            metadata = kyma.metadata
            if (fault := fault_of(kyma)) is not None:
                faults.add_metric([metadata.name, fault.reason], 1)
            whose = [
                metadata.annotations.get(names.SKR_DOMAIN, "").removeprefix("*.").partition(".")[0],
                metadata.labels.get(names.INSTANCE_ID, ""),
            ]
            whole.add_metric([metadata.name, str(kyma.status.state), *whose], 1)
            for module in kyma.status.modules:
                parts.add_metric([module.name, metadata.name, str(module.state), *whose], 1)
        yield share
        yield whole
        yield parts
        yield faults

    def _of_mandatory_modules(self) -> Iterator[Metric]:
        count = GaugeMetricFamily("lifecycle_mgr_mandatory_modules", "Number of mandatory modules.")
        count.add_metric([], len(self._offers.current().mandatory))
        states = GaugeMetricFamily(
            "lifecycle_mgr_mandatory_module_state",
            "State of a mandatory module in a Kyma.",
            labels=["module_name", "kyma_name", "state"],
        )
        for manifest in self._manifests.cache.list():
            kyma = kyma_of_manifest(manifest)
            if is_mandatory_manifest(manifest) and self._owns(kyma):
                states.add_metric([module_of_manifest(manifest), kyma, str(manifest.status.state)], 1)
        yield count
        yield states

    def _of_certificates(self) -> Metric:
        overdue = GaugeMetricFamily(
            "lifecycle_mgr_self_signed_cert_not_renew",
            "Whether a Watcher's certificate should have been renewed; one without a sample was.",
            labels=["kyma_name"],
        )
        for name in filter(self._owns, tuple(self._not_renewed)):
            overdue.add_metric([name], 1)
        return overdue


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
