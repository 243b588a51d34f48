"""Which SyncResource has an object of an SKR: the first that claimed it. Pure functions.

What is claimed stands in the status of each SyncResource, recorded before the object is written. Two that come at the
same moment are told apart by what this process is about to record.
"""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from kube_runtime import InventoryEntry, KubernetesObject

DEFAULT_NAMESPACE = "default"


class Claims(NamedTuple):
    """What one SyncResource has in the SKR of its Kyma, and since when it can have had it."""

    created: str
    name: str
    entries: frozenset[InventoryEntry]


class Taken(NamedTuple):
    """An object that another SyncResource has."""

    thing: KubernetesObject
    entry: InventoryEntry
    owner: str

    def __str__(self) -> str:
        return f"document {self.thing.index}: {self.thing} belongs to SyncResource {self.owner}"


def taken(objects: Iterable[KubernetesObject], own: Claims, others: Collection[Claims]) -> tuple[Taken, ...]:
    """Return the objects that another SyncResource of the same Kyma has.

    An object that both have, as after a restore from two backups, belongs to the older one.
    """
    mine = {entry.identity for entry in own.entries}
    by_name: dict[tuple[str, str, str], list[tuple[InventoryEntry, Claims]]] = {}
    for other in others:
        for entry in other.entries:
            by_name.setdefault((entry.group, entry.kind, entry.name), []).append((entry, other))
    found = []
    for thing in objects:
        for entry, other in by_name.get((thing.api_version.rpartition("/")[0], thing.kind, thing.name), ()):
            older = (other.created, other.name) < (own.created, own.name)
            if _same_place(thing, entry) and (older or entry.identity not in mine):
                found.append(Taken(thing, entry, other.name))
    return tuple(found)


def unresolved_entries(objects: Iterable[KubernetesObject]) -> frozenset[InventoryEntry]:
    """Return what objects will be in an inventory, before the API server was asked which kinds have namespaces."""
    return frozenset(
        InventoryEntry(group, version, each.kind, each.namespace or DEFAULT_NAMESPACE, each.name)
        for each in objects
        for group, _, version in (each.api_version.rpartition("/"),)
    )


def _same_place(thing: KubernetesObject, entry: InventoryEntry) -> bool:
    """Tell whether an object as it is written is the one of an entry: an entry without namespace is cluster-scoped."""
    return not entry.namespace or entry.namespace == (thing.namespace or DEFAULT_NAMESPACE)
