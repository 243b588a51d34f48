"""Whether the way of events from a cluster works, as its Kyma's `SKRWebhook` condition says it."""

from lifecycle_manager_api import Kyma, find

CONDITION = "SKRWebhook"
SILENT = "WatcherSilent"
"""The reason of the condition where nothing is heard any more from a Watcher that was heard before."""

SILENT_INTERVAL_SECONDS = 5.0
"""How often a cluster is looked at while no event can tell of its changes."""


def is_silent(kyma: Kyma | None) -> bool:
    """Tell whether a Kyma's Watcher was heard before and is not any more."""
    condition = find(kyma.status.conditions, CONDITION) if kyma is not None else None
    return condition is not None and condition.reason == SILENT


def interval_for(kyma: Kyma | None, seconds: float) -> float:
    """Return how often to look at a cluster: more often while no event can tell of its changes."""
    return min(seconds, SILENT_INTERVAL_SECONDS) if is_silent(kyma) else seconds
