"""The metrics of the CAs in force and of the rotation."""

from datetime import UTC, datetime, timedelta

from prometheus_client import CollectorRegistry

from kyma_certs import CAs, announced, create_ca, describe, dropped, switched
from lifecycle_manager.watcher_certificates.metrics import AtScrape, ca_metrics

NOW = datetime(2026, 11, 21, tzinfo=UTC)
LIFETIME = timedelta(days=30)
OLD, NEW = (create_ca("ca", lifetime=LIFETIME, now=NOW) for _ in range(2))
PREFIX = "lifecycle_mgr_watcher_ca"


def registry_of(in_force: CAs | None, *behind: str) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(AtScrape(lambda: ca_metrics(in_force, lambda: behind, NOW + timedelta(seconds=90))))
    return registry


def test_phase_and_its_age_are_reported() -> None:
    alone = CAs(OLD)
    first = announced(alone, NEW, now=NOW)
    second = switched(first, now=NOW)
    phases = [(alone, "Stable", 0), (first, "Announced", 90), (second, "Switched", 90), (dropped(second), "Stable", 0)]
    for in_force, phase, age in phases:
        registry = registry_of(in_force)
        assert registry.get_sample_value(f"{PREFIX}_phase", {"phase": phase}) == 1
        assert registry.get_sample_value(f"{PREFIX}_phase_age_seconds") == age


def test_adopted_ca_that_is_not_being_replaced_has_no_phase_that_could_last_too_long() -> None:
    adopted = CAs(OLD, since=NOW)  # as CAStore stores the only CA of a former version
    assert registry_of(adopted).get_sample_value(f"{PREFIX}_phase_age_seconds") == 0


def test_clusters_that_a_rotation_waits_for_are_counted() -> None:
    registry = registry_of(announced(CAs(OLD), NEW, now=NOW), "one", "two")
    assert registry.get_sample_value(f"{PREFIX}_clusters_behind") == 2


def test_end_of_the_issuing_ca_is_reported() -> None:
    expiry = registry_of(CAs(OLD)).get_sample_value(f"{PREFIX}_expiry_timestamp_seconds")
    assert expiry == describe(OLD.certificate_pem).not_after.timestamp()


def test_nothing_is_reported_before_the_cas_are_read() -> None:
    assert registry_of(None).get_sample_value(f"{PREFIX}_clusters_behind") is None
