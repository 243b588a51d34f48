"""What is measured of the trust between the control plane and the Watchers."""

from collections.abc import Iterator
from datetime import datetime

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from kyma_certs import Authorities, describe
from lifecycle_manager.skr_webhook.rotation import AuthorityRotation

STABLE, ANNOUNCED, SWITCHED = "Stable", "Announced", "Switched"


def certificates_issued(registry: CollectorRegistry) -> Counter:
    """Return the counter of Watchers' certificates that were issued, or that cert-manager was told to issue anew."""
    return Counter(
        "lifecycle_mgr_watcher_certificates_issued",
        "Watchers' certificates that were issued; of cert-manager, those that it was told to issue anew.",
        ["issuer"],
        registry=registry,
    )


class AuthorityCollector(Collector):
    """The authority that is in force in this process, and the rotation that is under way, when somebody asks."""

    def __init__(self, rotation: AuthorityRotation) -> None:
        self._rotation = rotation

    def collect(self) -> Iterator[Metric]:
        """Give the metrics. Called in the thread of the metrics server."""
        in_force, now = self._rotation.current, self._rotation.clock()
        phase = GaugeMetricFamily(
            "lifecycle_mgr_watcher_authority_phase",
            "The phase of the rotation of the Watchers' authority; only the one that is in force has a sample.",
            labels=["phase"],
        )
        phase.add_metric([phase_of(in_force)], 1)
        yield phase
        yield GaugeMetricFamily(
            "lifecycle_mgr_watcher_authority_phase_age_seconds",
            "How long the rotation of the Watchers' authority has been in its phase; 0 where there is none.",
            value=_seconds_since(in_force.since, now),
        )
        yield GaugeMetricFamily(
            "lifecycle_mgr_watcher_authority_expiry_timestamp_seconds",
            "When the authority ends that issues the Watchers' certificates, in Unix time.",
            value=describe(in_force.signing.certificate_pem).not_after.timestamp(),
        )
        yield GaugeMetricFamily(
            "lifecycle_mgr_watcher_authority_clusters_behind",
            "Clusters whose Watcher does not have yet what is in force; they hold a rotation up.",
            value=len(self._rotation.laggards()),
        )

    def describe(self) -> Iterator[Metric]:
        """Give no samples: what there is is known only when it is asked for."""
        yield from ()


def phase_of(authorities: Authorities) -> str:
    """Return the phase of a rotation."""
    if authorities.following is not None:
        return ANNOUNCED
    return SWITCHED if authorities.former_pem is not None else STABLE


def _seconds_since(moment: datetime | None, now: datetime) -> float:
    return max(0.0, (now - moment).total_seconds()) if moment is not None else 0.0
