"""A certificate that should have been renewed is noted until it was, and no other is."""

from datetime import UTC, datetime, timedelta
from typing import Any

from kyma_certs import KeyPair, LeafRequest, create_authority, issue
from lifecycle_manager.skr_webhook import SkrWebhookReconciler
from tests import builders

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
AUTHORITY = create_authority("authority", lifetime=timedelta(days=100), now=NOW)


def lasting(days: int) -> KeyPair:
    return issue(AUTHORITY, LeafRequest(common_name="demo", lifetime=timedelta(days=days)), now=NOW)


def test_overdue_renewal_is_noted_until_it_took_place() -> None:
    overdue: set[str] = set()
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
        overdue,
    )
    kyma = builders.kyma()
    reconciler._alarm(kyma, lasting(60))
    assert overdue == set()
    reconciler._alarm(kyma, lasting(59))
    assert overdue == {"demo"}
    reconciler._alarm(kyma, lasting(90))
    assert overdue == set()
