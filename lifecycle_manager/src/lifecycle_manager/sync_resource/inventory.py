"""One object in an SKR, as an inventory names it and as a status shows it."""

from kube_runtime import InventoryEntry
from lifecycle_manager_api import State, SyncedObject

Identity = tuple[str, str, str, str]
"""What tells an object from every other: group, kind, namespace and name."""


def entry_of(shown: SyncedObject) -> InventoryEntry:
    """Return an object of a status as it stands in an inventory."""
    return InventoryEntry(shown.group, shown.version, shown.kind, shown.namespace, shown.name)


def identity_of(shown: SyncedObject) -> Identity:
    """Return what tells an object of a status from every other."""
    return entry_of(shown).identity


def synced_object(entry: InventoryEntry, state: State, message: str) -> SyncedObject:
    """Return an object of an inventory as a status shows it."""
    return SyncedObject(
        group=entry.group,
        version=entry.version,
        kind=entry.kind,
        namespace=entry.namespace,
        name=entry.name,
        state=state,
        message=message,
    )
