"""What is about to be applied, written down before the first request to the SKR. Pure functions.

So an object is known even if this process dies right after having made it. It stands in an annotation, which the write
of the finalizer can carry along, and counts until the status tells of that generation or a later one.
"""

from collections.abc import Collection, Iterable

import msgspec

from kube_runtime import InventoryEntry
from lifecycle_manager_api import State, SyncedObject, SyncResource, names

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


def intended_in(resource: SyncResource) -> tuple[InventoryEntry, ...]:
    """Return what was about to be applied, as far as no status has told what came of it."""
    try:
        intent = msgspec.json.decode(resource.metadata.annotations.get(names.INTENDED, ""), type=Intent)
    except msgspec.MsgspecError:
        return ()
    if intent.generation <= (resource.status.observed_generation or 0):
        return ()
    return tuple(InventoryEntry(*each) for each in intent.objects)


def known_objects(resource: SyncResource) -> tuple[SyncedObject, ...]:
    """Return what is in the SKR because of a SyncResource, and what may be."""
    recorded = {_identity(each) for each in resource.status.synced}
    coming = (_coming(entry) for entry in intended_in(resource) if entry.identity not in recorded)
    return (*resource.status.synced, *coming)


def intent_for(resource: SyncResource, inventory: Collection[InventoryEntry]) -> str | None:
    """Return the text that records what is about to be applied, None where all of it is known.

    Raises TooManyObjects.
    """
    recorded = {_identity(each) for each in resource.status.synced}
    fresh = tuple(entry for entry in sorted(inventory) if entry.identity not in recorded)
    if {entry.identity for entry in fresh} <= {entry.identity for entry in intended_in(resource)}:
        return None
    objects: tuple[Named, ...] = tuple(
        (each.group, each.version, each.kind, each.namespace, each.name) for each in fresh
    )
    text = msgspec.json.encode(Intent(resource.metadata.generation, objects)).decode()
    if len(text) > LARGEST_INTENT_BYTES:
        raise TooManyObjects(f"{len(fresh)} new objects at once are too many; split them into several SyncResources")
    return text


def entries_of(objects: Iterable[SyncedObject]) -> tuple[InventoryEntry, ...]:
    """Return objects of a status as they stand in an inventory."""
    return tuple(
        InventoryEntry(group=each.group, version=each.version, kind=each.kind, namespace=each.namespace, name=each.name)
        for each in objects
    )


def _identity(each: SyncedObject) -> tuple[str, str, str, str]:
    return (each.group, each.kind, each.namespace, each.name)


def _coming(entry: InventoryEntry) -> SyncedObject:
    return SyncedObject(
        group=entry.group,
        version=entry.version,
        kind=entry.kind,
        namespace=entry.namespace,
        name=entry.name,
        state=State.PROCESSING,
        message="was about to be applied",
    )
