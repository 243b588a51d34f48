"""The intent of a SyncResource: the objects about to be applied, recorded before the first request to the SKR.

So an object is known even if this process dies right after creating it. For a generation that no status covers yet the
intent is in an annotation, which the write of the finalizer carries along, and counts until a status covers the
generation. Objects added later in the same generation, as when a kind became known, are recorded in the status.
Pure functions.
"""

from collections.abc import Collection, Iterator

import msgspec

from kube_runtime import InventoryEntry
from lifecycle_manager.object_set.inventory import entries_of, identities, missing_from
from lifecycle_manager.object_set.ownership import claim_key
from lifecycle_manager_api import State, SyncedObject, SyncResource, SyncResourceStatus, names

MAX_INTENT_BYTES = 192 * 1024
"""All annotations of an object may take 256 KiB together."""

Named = tuple[str, str, str, str, str]
"""Group, version, kind, namespace and name of an object."""


class Intent(msgspec.Struct, frozen=True):
    """The generation that was begun, and the objects it may have created that the status does not name."""

    generation: int
    objects: tuple[Named, ...]


class TooManyObjects(Exception):
    """An intent does not fit into an annotation; the message says what to do."""


def known_objects(resource: SyncResource) -> tuple[SyncedObject, ...]:
    """Return the objects in the SKR because of a SyncResource, also those that may be there."""
    intended = _intended_in(resource)
    if not intended:
        return resource.status.synced
    recorded = identities(entries_of(resource.status.synced))
    return (*resource.status.synced, *(pending_object(each) for each in intended if each.identity not in recorded))


def inventory_of(resource: SyncResource) -> tuple[InventoryEntry, ...]:
    """Return the objects that exist in the SKR because of a SyncResource, or may exist."""
    return entries_of(known_objects(resource))


def claim_index(resource: SyncResource) -> Iterator[str]:
    """Index a SyncResource by the objects in its inventory."""
    for entry in inventory_of(resource):
        yield claim_key(resource.spec.kyma, entry.group, entry.kind, entry.name)


def unrecorded(resource: SyncResource, intended: Collection[InventoryEntry]) -> tuple[InventoryEntry, ...]:
    """Return the intended objects that the SyncResource does not record yet."""
    return missing_from(inventory_of(resource), intended)


def as_annotation(resource: SyncResource, fresh: Collection[InventoryEntry]) -> str | None:
    """Return the annotation that records the intent, None where it belongs in the status. Raises TooManyObjects."""
    if _is_covered(resource, resource.metadata.generation):
        return None
    objects: list[Named] = [
        (each.group, each.version, each.kind, each.namespace, each.name) for each in (*_intended_in(resource), *fresh)
    ]
    text = msgspec.json.encode(Intent(resource.metadata.generation, tuple(objects))).decode()
    if len(text) > MAX_INTENT_BYTES:
        raise TooManyObjects(f"{len(objects)} new objects at once are too many; split them into several SyncResources")
    return text


def as_status(resource: SyncResource, fresh: Collection[InventoryEntry]) -> SyncResourceStatus:
    """Return the status that records the intent."""
    return msgspec.structs.replace(resource.status, synced=(*known_objects(resource), *map(pending_object, fresh)))


def synced_object(entry: InventoryEntry, state: State, message: str) -> SyncedObject:
    """Return an inventory entry as a status shows it."""
    shown = msgspec.convert(entry, SyncedObject, from_attributes=True)
    return msgspec.structs.replace(shown, state=state, message=message)


def pending_object(entry: InventoryEntry) -> SyncedObject:
    """Return an object of an intent as a status shows it."""
    return synced_object(entry, State.PROCESSING, "was about to be applied")


def _intended_in(resource: SyncResource) -> tuple[InventoryEntry, ...]:
    """Return the objects of the annotation, unless a status covers its generation."""
    text = resource.metadata.annotations.get(names.INTENDED)
    if text is None:
        return ()
    try:
        intent = msgspec.json.decode(text, type=Intent)
    except msgspec.MsgspecError:
        return ()
    return () if _is_covered(resource, intent.generation) else tuple(InventoryEntry(*each) for each in intent.objects)


def _is_covered(resource: SyncResource, generation: int) -> bool:
    return (resource.status.observed_generation or 0) >= generation
