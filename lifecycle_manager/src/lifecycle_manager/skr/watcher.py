"""What the rest of LM knows of the Watcher in an SKR: which events are canaries."""

from lifecycle_manager.contract.signals import ObjectReference
from lifecycle_manager_api import WatchEvent, names

CANARY = ObjectReference("", "ServiceAccount", names.SKR_NAMESPACE, "skr-webhook")
"""The object that LM writes to test the event path: it exists anyway, and only LM writes it."""

HEARTBEAT = "HEARTBEAT"
CANARY_HEARTBEAT = "canary"
"""The name in a heartbeat by which the Watcher answers a dry run of that write."""


def is_canary(event: WatchEvent) -> bool:
    """Tell whether an event answers a test of the event path."""
    gvk, watched = event.watched_gvk, event.watched
    if event.operation == HEARTBEAT:
        return watched.name == CANARY_HEARTBEAT
    return (gvk.group, gvk.kind, watched.namespace, watched.name) == CANARY
