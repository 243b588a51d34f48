"""What is about to be applied, written down before the first request to the SKR. Pure functions.

So an object is known even if this process dies right after having made it. For a generation that no status has told of
yet it stands in an annotation, which the write of the finalizer carries along, and counts until a status does tell.
What comes later in the same generation, as when a kind came to be known, stands in the status itself.
"""

from collections.abc import Collection, Iterator

import msgspec

from kube_runtime import InventoryEntry
from lifecycle_manager.sync_resource.claims import claim_key
from lifecycle_manager.sync_resource.inventory import entry_of, identity_of, synced_object
from lifecycle_manager_api import State, SyncedObject, SyncResource, SyncResourceStatus, names

LARGEST_INTENT_BYTES = 192 * 1024
"""Annotations may take 256 KiB all together."""

Named = tuple[str, str, str, str, str]
"""Group, version, kind, namespace and name of an object."""


class Intent(msgspec.Struct, frozen=True):
    """The generation that was begun, and what it may have brought that the status does not name."""

    generation: int
    objects: tuple[Named, ...]


class TooManyObjects(Exception):
    """An intent does not fit into an annotation; the message says what to do."""


def known_objects(resource: SyncResource) -> tuple[SyncedObject, ...]:
    """Return what is in the SKR because of a SyncResource, and what may be."""
    intended = _intended_in(resource)
    if not intended:
        return resource.status.synced
    recorded = {identity_of(each) for each in resource.status.synced}
    return (*resource.status.synced, *(_coming(entry) for entry in intended if entry.identity not in recorded))


def inventory_of(resource: SyncResource) -> tuple[InventoryEntry, ...]:
    """Return what a SyncResource says is in the SKR, or may be."""
    return tuple(map(entry_of, known_objects(resource)))


def claim_index(resource: SyncResource) -> Iterator[str]:
    """Index a SyncResource by what it has in its SKR, or may have."""
    for entry in inventory_of(resource):
        yield claim_key(resource.spec.kyma, entry.group, entry.kind, entry.name)


def unknown_in(resource: SyncResource, inventory: Collection[InventoryEntry]) -> tuple[InventoryEntry, ...]:
    """Return what a SyncResource does not say yet of what is about to be in the SKR."""
    known = {identity_of(each) for each in known_objects(resource)}
    return tuple(entry for entry in sorted(inventory) if entry.identity not in known)


def as_annotation(resource: SyncResource, fresh: Collection[InventoryEntry]) -> str | None:
    """Return the text that says what is about to be applied, None where it has to stand in the status.

    Raises TooManyObjects.
    """
    if _is_told(resource, resource.metadata.generation):
        return None
    objects: list[Named] = [
        (each.group, each.version, each.kind, each.namespace, each.name) for each in (*_intended_in(resource), *fresh)
    ]
    text = msgspec.json.encode(Intent(resource.metadata.generation, tuple(objects))).decode()
    if len(text) > LARGEST_INTENT_BYTES:
        raise TooManyObjects(f"{len(objects)} new objects at once are too many; split them into several SyncResources")
    return text


def as_status(resource: SyncResource, fresh: Collection[InventoryEntry]) -> SyncResourceStatus:
    """Return the status that says what is about to be applied."""
    return msgspec.structs.replace(resource.status, synced=(*known_objects(resource), *map(_coming, fresh)))


def _intended_in(resource: SyncResource) -> tuple[InventoryEntry, ...]:
    """Return what the annotation says, as far as no status has told what came of it."""
    text = resource.metadata.annotations.get(names.INTENDED)
    if text is None:
        return ()
    try:
        intent = msgspec.json.decode(text, type=Intent)
    except msgspec.MsgspecError:
        return ()
    return () if _is_told(resource, intent.generation) else tuple(InventoryEntry(*each) for each in intent.objects)


def _is_told(resource: SyncResource, generation: int) -> bool:
    return (resource.status.observed_generation or 0) >= generation


def _coming(entry: InventoryEntry) -> SyncedObject:
    return synced_object(entry, State.PROCESSING, "was about to be applied")
