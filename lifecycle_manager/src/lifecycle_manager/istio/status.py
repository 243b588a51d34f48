"""The condition VirtualService of a Watcher CR with its reasons, and when it is an Event."""

from typing import NamedTuple

from lifecycle_manager.contract.conditions import VIRTUAL_SERVICE
from lifecycle_manager.istio.snapshot import Document
from lifecycle_manager.skr.failure import failure_of
from lifecycle_manager_api import ConditionStatus, Watcher, find


class RouteCondition(NamedTuple):
    """The condition that a reconcile reports."""

    status: ConditionStatus
    reason: str
    message: str


CONFIGURED = RouteCondition("True", "Configured", "VirtualService is configured")


def gateway_not_found(watcher: Watcher) -> RouteCondition:
    """Return the status of a Watcher CR that selects no Gateway."""
    selector = watcher.spec.gateway.selector
    wanted = [f"{key}={value}" for key, value in sorted(selector.match_labels.items())]
    wanted += [f"{each.key} {each.operator} {','.join(each.values)}".strip() for each in selector.match_expressions]
    return RouteCondition("False", "GatewayNotFound", f"spec.gateway: no Gateway has the labels {', '.join(wanted)}")


def without_hosts(gateway: Document) -> RouteCondition:
    """Return the status of a Watcher CR with a Gateway that serves no host."""
    metadata = gateway["metadata"]
    return RouteCondition(
        "False", "GatewayWithoutHosts", f"Gateway {metadata['namespace']}/{metadata['name']} has no hosts"
    )


def name_taken(watcher: Watcher) -> RouteCondition:
    """Return the status of a Watcher CR whose name a foreign VirtualService has."""
    name = f"{watcher.metadata.namespace}/{watcher.metadata.name}"
    return RouteCondition(
        "False", "NameTaken", f"VirtualService {name} has no owner reference to this Watcher: delete it"
    )


def failed(error: Exception) -> RouteCondition:
    """Return the condition for an unforeseen exception."""
    failure = failure_of(error)
    return RouteCondition("False", failure.reason, failure.message)


def begins_a_fault(watcher: Watcher, status: RouteCondition) -> bool:
    """Tell whether a status is a fault that was not reported before."""
    before = find(watcher.status.conditions, VIRTUAL_SERVICE)
    return status.status == "False" and (before is None or before.reason != status.reason)
