"""A certificate that should have been renewed is told by a metric, under upstream's name, and no other is."""

from datetime import UTC, datetime, timedelta
from typing import Any

from prometheus_client import CollectorRegistry

from certs import KeyPair, LeafRequest, create_authority, issue
from lifecycle_manager.skr_webhook import SkrWebhookReconciler
from lifecycle_manager.telemetry import certificates_not_renewed
from tests import builders

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
AUTHORITY = create_authority("authority", lifetime=timedelta(days=100), now=NOW)


def lasting(days: int) -> KeyPair:
    return issue(AUTHORITY, LeafRequest(common_name="demo", lifetime=timedelta(days=days)), now=NOW)


def test_overdue_renewal_is_told_until_it_took_place() -> None:
    registry = CollectorRegistry()
    none: Any = None
    reconciler = SkrWebhookReconciler(
        none,
        none,
        none,
        none,
        none,
        none,
        none,
        none,
        none,
        lambda: NOW,
        none,
        none,
        certificates_not_renewed(registry),
    )

    def told() -> float | None:
        return registry.get_sample_value("lifecycle_mgr_self_signed_cert_not_renew", {"kyma_name": "demo"})

    kyma = builders.kyma()
    reconciler._alarm(kyma, lasting(60))
    assert told() is None
    reconciler._alarm(kyma, lasting(59))
    assert told() == 1
    reconciler._alarm(kyma, lasting(90))
    assert told() is None
