"""Which SyncResource has an object of an SKR: the first that claimed it.

What is claimed stands in each SyncResource, recorded before the object is written; an index of the cache finds it by
the object. Two that come at the same moment are told apart by what this process is about to record.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from kube_runtime import InventoryEntry, KubernetesObject, ObjectKey

DEFAULT_NAMESPACE = "default"


class Claim(NamedTuple):
    """An object that a SyncResource has in the SKR of its Kyma, and since when it can have had it."""

    entry: InventoryEntry
    created: str
    owner: str


Claimed = Callable[[KubernetesObject], Iterable[Claim]]
"""Gives what other SyncResources of the same Kyma claim of an object's kind and name."""


class Taken(NamedTuple):
    """An object that another SyncResource has."""

    thing: KubernetesObject
    claim: Claim

    def __str__(self) -> str:
        return f"document {self.thing.index}: {self.thing} belongs to SyncResource {self.claim.owner}"


def taken(
    objects: Iterable[KubernetesObject], own: Collection[InventoryEntry], since: tuple[str, str], claimed: Claimed
) -> tuple[Taken, ...]:
    """Return the objects that another SyncResource of the same Kyma has.

    `since` is when the one that asks was created, and its name. An object that both have, as after a restore from two
    backups, belongs to the older one.
    """
    mine = {entry.identity for entry in own}
    return tuple(
        Taken(thing, claim)
        for thing in objects
        for claim in claimed(thing)
        if _same_place(thing, claim.entry) and ((claim[1:] < since) or claim.entry.identity not in mine)
    )


def claim_key(kyma: str, group: str, kind: str, name: str) -> str:
    """Return the key of the index: an object's Kyma, kind and name, whatever its namespace."""
    return f"{kyma}/{group}/{kind}/{name}"


@dataclass(eq=False)
class ClaimBook:
    """What the SyncResources of this process are about to have, before their statuses say so."""

    _entries: dict[ObjectKey, tuple[str, frozenset[InventoryEntry]]] = field(default_factory=dict)
    _owners: dict[str, dict[ObjectKey, InventoryEntry]] = field(default_factory=dict)

    def note(self, key: ObjectKey, kyma: str, entries: Iterable[InventoryEntry]) -> None:
        """Put what a SyncResource claims in the place of what it claimed before."""
        wanted = frozenset(entries)
        if self._entries.get(key) == (kyma, wanted):
            return
        self.drop(key)
        self._entries[key] = (kyma, wanted)
        for entry in wanted:
            self._owners.setdefault(claim_key(kyma, entry.group, entry.kind, entry.name), {})[key] = entry

    def drop(self, key: ObjectKey) -> None:
        """Forget a SyncResource."""
        kyma, entries = self._entries.pop(key, ("", frozenset()))
        for entry in entries:
            place = claim_key(kyma, entry.group, entry.kind, entry.name)
            owners = self._owners.get(place, {})
            owners.pop(key, None)
            if not owners:
                self._owners.pop(place, None)

    def owners(self, place: str) -> tuple[tuple[ObjectKey, InventoryEntry], ...]:
        """Return who claims an object, by the key of the index."""
        return tuple(self._owners.get(place, {}).items())


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
