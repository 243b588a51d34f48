"""The condition VirtualService of a Watcher CR with its reasons, and when it is an Event."""

from collections.abc import Mapping
from typing import Any

from lifecycle_manager.contract.conditions import VIRTUAL_SERVICE, ConditionContent
from lifecycle_manager_api import Watcher, find

CONFIGURED = ConditionContent("True", "Configured", "VirtualService is configured")


def gateway_not_found(watcher: Watcher) -> ConditionContent:
    selector = watcher.spec.gateway.selector
    wanted = [f"{key}={value}" for key, value in sorted(selector.match_labels.items())]
    wanted += [f"{each.key} {each.operator} {','.join(each.values)}".strip() for each in selector.match_expressions]
    return ConditionContent("False", "GatewayNotFound", f"spec.gateway: no Gateway has the labels {', '.join(wanted)}")


def without_hosts(gateway: Mapping[str, Any]) -> ConditionContent:
    metadata = gateway["metadata"]
    return ConditionContent(
        "False", "GatewayWithoutHosts", f"Gateway {metadata['namespace']}/{metadata['name']} has no hosts"
    )


def name_taken(watcher: Watcher) -> ConditionContent:
    """Return the status of a Watcher CR whose name a foreign VirtualService has."""
    name = f"{watcher.metadata.namespace}/{watcher.metadata.name}"
    return ConditionContent(
        "False", "NameTaken", f"VirtualService {name} has no owner reference to this Watcher: delete it"
    )


def begins_a_fault(watcher: Watcher, status: ConditionContent) -> bool:
    before = find(watcher.status.conditions, VIRTUAL_SERVICE)
    return status.status == "False" and (before is None or before.reason != status.reason)
