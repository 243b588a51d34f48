"""Whether the way of events from a cluster works, as its Kyma's `SKRWebhook` condition says it."""

from lifecycle_manager_api import Condition, Kyma, find

CONDITION = "SKRWebhook"
SILENT = "WatcherSilent"
"""The reason of the condition where nothing is heard any more from a Watcher that was heard before."""

BROKEN = "EventPathBroken"
"""The reason of the condition where the Watcher is heard, and changes in the cluster do not reach it."""

NEVER_HEARD = "WatcherNeverHeard"
"""The reason where a Watcher was brought to the cluster long enough ago, and nothing was ever heard from it."""

WORKED_BEFORE = frozenset({SILENT, BROKEN})
"""The faults of a cluster whose webhook is in place."""

FAULTS = WORKED_BEFORE | {NEVER_HEARD}

FAULT_INTERVAL_SECONDS = 5.0
"""How often a cluster is looked at while no event can tell of its changes."""


def fault_of(kyma: Kyma | None) -> Condition | None:
    """Return what is wrong with a way of events that should work by now; None where nothing is."""
    condition = find(kyma.status.conditions, CONDITION) if kyma is not None else None
    return condition if condition is not None and condition.reason in FAULTS else None


def is_faulty(kyma: Kyma | None) -> bool:
    """Tell whether no event can be expected from a Kyma's cluster although there should be some."""
    return fault_of(kyma) is not None


def interval_for(kyma: Kyma | None, seconds: float) -> float:
    """Return how often to look at a cluster: more often while no event can tell of its changes."""
    return min(seconds, FAULT_INTERVAL_SECONDS) if is_faulty(kyma) else seconds
