"""The intent of a SyncResource: the objects about to be applied, recorded before the first request to the SKR.

So an object is known even if this process dies right after creating it. The intent is recorded in the status alone,
which nobody but the Lifecycle Manager may write: what is recorded may be deleted. Pure functions.
"""

from collections.abc import Collection, Iterator

import msgspec

from kube_runtime import InventoryEntry
from lifecycle_manager.object_set.inventory import Identity, among, inventory_of, references_to, without
from lifecycle_manager.object_set.ownership import claim_key
from lifecycle_manager_api import State, SyncedObject, SyncResource, SyncResourceStatus

MAX_STATUS_BYTES = 768 * 1024
"""etcd stores objects of up to 1.5 MiB; the text of the SyncResource needs room, too."""


class TooManyObjects(Exception):
    """An intent does not fit into a status; the message says what to do."""


def claim_index(resource: SyncResource) -> Iterator[str]:
    for entry in inventory_of(resource):
        yield claim_key(resource.spec.kyma, entry.group, entry.kind, entry.name)


def begun(
    resource: SyncResource, intended: Collection[InventoryEntry], found: Collection[Identity] = frozenset()
) -> SyncResourceStatus:
    """Return the status that records an intent: its new objects are pending, some were found. Raises TooManyObjects.

    Without new objects it differs only where it is the first one; conditions stay until there is a result.
    """
    before = resource.status
    fresh = without(intended, inventory_of(resource))
    status = msgspec.structs.replace(
        before,
        state=State.PROCESSING if fresh or before.state is State.EMPTY else before.state,
        synced=(*before.synced, *map(pending_object, fresh)),
        found=(*before.found, *references_to(among(fresh, found))),
        owner_uid=before.owner_uid or resource.metadata.uid,
    )
    if fresh and len(msgspec.json.encode(status)) > MAX_STATUS_BYTES:
        raise TooManyObjects(f"{len(status.synced)} objects are too many; split them into several SyncResources")
    return status


def synced_object(entry: InventoryEntry, state: State, message: str) -> SyncedObject:
    shown = msgspec.convert(entry, SyncedObject, from_attributes=True)
    return msgspec.structs.replace(shown, state=state, message=message)


def pending_object(entry: InventoryEntry) -> SyncedObject:
    """Return an object of an intent as a status shows it: in a status of many objects, each value costs time."""
    return synced_object(entry, State.PROCESSING, "")
