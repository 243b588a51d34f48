"""What Prometheus is told of the authority in force, and of the rotation that is under way."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

from prometheus_client import CollectorRegistry

from kube_runtime import ObjectKey
from kube_runtime.informer.cache import Cache
from kyma_certs import Authorities, announced, create_authority, describe, dropped, switched
from lifecycle_manager.skr_webhook import TRUST_RECORD, WATCHER_RECORD, AuthorityCollector, AuthorityRotation
from lifecycle_manager_api import Kyma
from tests import builders

NOW = datetime(2026, 11, 21, tzinfo=UTC)
LIFETIME = timedelta(days=30)
OLD, NEW = (create_authority("authority", lifetime=LIFETIME, now=NOW) for _ in range(2))
PREFIX = "lifecycle_mgr_watcher_authority"


def telling(in_force: Authorities, *kymas: Kyma) -> CollectorRegistry:
    cache: Cache[Kyma] = Cache({})
    for kyma in kymas:
        cache.put(ObjectKey("", kyma.metadata.name), kyma)
    store: Any = SimpleNamespace(namespace="kcp-system", name="klm-watcher")
    informer: Any = SimpleNamespace(cache=cache)
    registry = CollectorRegistry()
    clock = NOW + timedelta(seconds=90)
    registry.register(AuthorityCollector(AuthorityRotation(store, informer, lambda: clock, in_force)))
    return registry


def cluster(name: str, trust: str) -> Kyma:
    """A Kyma whose cluster has a Watcher, with the authorities of a fingerprint."""
    return builders.kyma(name, annotations={WATCHER_RECORD: "digest", TRUST_RECORD: trust})


def test_phase_and_its_age_are_told() -> None:
    alone = Authorities(OLD)
    first = announced(alone, NEW, now=NOW)
    second = switched(first, now=NOW)
    phases = [(alone, "Stable", 0), (first, "Announced", 90), (second, "Switched", 90), (dropped(second), "Stable", 0)]
    for in_force, phase, age in phases:
        registry = telling(in_force)
        assert registry.get_sample_value(f"{PREFIX}_phase", {"phase": phase}) == 1
        assert registry.get_sample_value(f"{PREFIX}_phase_age_seconds") == age


def test_clusters_that_hold_a_rotation_up_are_counted() -> None:
    first = announced(Authorities(OLD), NEW, now=NOW)
    behind = Authorities(OLD).fingerprint
    registry = telling(first, cluster("has-it", first.fingerprint), cluster("one", behind), cluster("two", behind))
    assert registry.get_sample_value(f"{PREFIX}_clusters_behind") == 2


def test_end_of_the_authority_that_issues_is_told() -> None:
    told = telling(Authorities(OLD)).get_sample_value(f"{PREFIX}_expiry_timestamp_seconds")
    assert told == describe(OLD.certificate_pem).not_after.timestamp()
