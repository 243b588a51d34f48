"""Metrics with upstream's names: why keys are enqueued again, and long reconciles."""

import pytest
from prometheus_client import CollectorRegistry

from kube_runtime import ClusterUnreachable, KubeError, Result
from lifecycle_manager.process.telemetry import LongReconciles, requeue_counter

REQUEUES = "lifecycle_mgr_requeue_reason_total"


@pytest.mark.parametrize(
    ("controller", "outcome", "expected"),
    [
        ("kyma", Result(5.0), ("kyma_interval", "intended")),
        ("kyma", Result(5.0, ("kyma_deletion",)), ("kyma_deletion", "intended")),
        ("manifest", Result(None, ("manifest_reconcile_finished",)), ("manifest_reconcile_finished", "intended")),
        ("kyma", ClusterUnreachable("no answer"), ("sync_context_retrieval", "unexpected")),
        ("kyma", KubeError("refused"), ("processing_kyma_state", "unexpected")),
        ("manifest", KubeError("refused"), ("manifest_sync_resources", "unexpected")),
        ("catalog", KubeError("refused"), ("module_catalog_sync", "unexpected")),
        ("watcher", KubeError("refused"), ("skr_webhook_installation", "unexpected")),
        ("sync-resource", KubeError("refused"), ("sync-resource_KubeError", "unexpected")),
        ("manifest", ZeroDivisionError(), ("manifest_ZeroDivisionError", "unexpected")),
    ],
)
def test_requeue_is_counted_by_upstreams_reason_where_it_means_the_same(
    controller: str, outcome: Result | Exception, expected: tuple[str, str]
) -> None:
    registry = CollectorRegistry()
    requeue_counter(registry)(controller, outcome)
    reason, kind = expected
    assert registry.get_sample_value(REQUEUES, {"requeue_reason": reason, "requeue_type": kind}) == 1.0
    (family,) = registry.collect()
    assert len([each for each in family.samples if each.name == REQUEUES]) == 1


def test_key_that_is_not_enqueued_again_is_not_counted() -> None:
    registry = CollectorRegistry()
    requeue_counter(registry)("kyma", Result())
    (family,) = registry.collect()
    assert family.samples == []


def test_duration_of_a_reconcile_is_shown_while_it_takes_a_minute_or_longer() -> None:
    registry = CollectorRegistry()
    durations = LongReconciles(registry)

    def shown() -> float | None:
        return registry.get_sample_value("reconcile_duration_seconds", {"manifest_name": "demo-api"})

    durations.observe("demo-api", 59.0)
    assert shown() is None
    durations.observe("demo-api", 75.0)
    assert shown() == 75.0
    durations.observe("demo-api", 0.1)
    durations.observe("demo-api", 0.1)
    assert shown() is None
