"""Metrics of the CAs and of the Watchers' certificates."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from kyma_certs import CAs, describe


class AtScrape(Collector):
    """Metrics whose samples are known only at the time of a scrape, in the thread of the metrics server."""

    def __init__(self, samples: Callable[[], Iterator[Metric]]) -> None:
        self._samples = samples

    def collect(self) -> Iterator[Metric]:
        return self._samples()


def ca_metrics(in_force: CAs | None, clusters_behind: Callable[[], Sequence[str]], now: datetime) -> Iterator[Metric]:
    """Give the metrics of the CAs in force in this process, and of the phase of the rotation."""
    if in_force is None:
        return  # the manager has not started yet
    phase = GaugeMetricFamily(
        "lifecycle_mgr_watcher_ca_phase",
        "The phase of the rotation of the Watchers' CA; only the present one has a sample.",
        labels=["phase"],
    )
    is_switched = in_force.former_pem is not None
    phase.add_metric(["Announced" if in_force.following is not None else "Switched" if is_switched else "Stable"], 1)
    yield phase
    yield GaugeMetricFamily(
        "lifecycle_mgr_watcher_ca_phase_age_seconds",
        "How long the rotation of the Watchers' CA has been in its phase; 0 where there is none.",
        value=max(0.0, (now - in_force.since).total_seconds()) if in_force.rotating and in_force.since else 0.0,
    )
    yield GaugeMetricFamily(
        "lifecycle_mgr_watcher_ca_expiry_timestamp_seconds",
        "When the CA expires that issues the Watchers' certificates, in Unix time.",
        value=describe(in_force.signing.certificate_pem).not_after.timestamp(),
    )
    yield GaugeMetricFamily(
        "lifecycle_mgr_watcher_ca_clusters_behind",
        "Clusters whose Watcher does not have the CAs in force yet; a rotation waits for them.",
        value=len(clusters_behind()),
    )


def renewal_metrics(overdue: Iterable[str]) -> Iterator[Metric]:
    family = GaugeMetricFamily(
        "lifecycle_mgr_self_signed_cert_not_renew",
        "Whether a Watcher's certificate should have been renewed; one without a sample was.",
        labels=["kyma_name"],
    )
    for name in overdue:
        family.add_metric([name], 1)
    yield family
