"""The inventory of a set: the objects that exist in the SKR, or may exist, as a status names them. Pure functions."""

from collections.abc import Callable, Collection, Iterable

import msgspec

from kube_runtime import InventoryEntry, KubernetesObject, ObjectOutcome
from lifecycle_manager_api import Manifest, State, SyncedObject, SyncedReference, SyncResource
from lifecycle_manager_api.conditions import listed
from lifecycle_manager_api.policy_objects import Scopes

Identity = tuple[str, str, str, str]
"""Group, kind, namespace and name of an object."""

CRD_GROUP, CRD_KIND = "apiextensions.k8s.io", "CustomResourceDefinition"
DEFAULT_NAMESPACE = "default"


def entries_of(references: Iterable[SyncedReference | SyncedObject]) -> tuple[InventoryEntry, ...]:
    return tuple(InventoryEntry(each.group, each.version, each.kind, each.namespace, each.name) for each in references)


def inventory_of(resource: Manifest | SyncResource) -> tuple[InventoryEntry, ...]:
    """Return what the status of an owner names: the objects that exist in the SKR because of it, or may exist."""
    return entries_of(resource.status.synced)


def references_to(inventory: Iterable[InventoryEntry]) -> tuple[SyncedReference, ...]:
    return msgspec.convert(tuple(inventory), tuple[SyncedReference, ...], from_attributes=True)


def synced_object(entry: InventoryEntry, state: State, message: str) -> SyncedObject:
    shown = msgspec.convert(entry, SyncedObject, from_attributes=True)
    return msgspec.structs.replace(shown, state=state, message=message)


def pending_object(entry: InventoryEntry) -> SyncedObject:
    """Return an object of an intent as a status shows it: in a status of many objects, each value costs time."""
    return synced_object(entry, State.PROCESSING, "")


def found_before(resource: Manifest | SyncResource) -> frozenset[Identity]:
    """Return the objects in the inventory of an owner that existed in the SKR before it had them."""
    return identities(entries_of(resource.status.found)) if resource.status.found else frozenset()


def known_inventory(
    resource: Manifest | SyncResource, remembered: tuple[InventoryEntry, ...]
) -> tuple[InventoryEntry, ...]:
    """Return the inventory by the record of an owner and the memory of this process, sorted.

    They are mostly equal, which costs less to find out than to sort.
    """
    recorded = inventory_of(resource)
    return recorded if recorded == remembered else tuple(sorted({*recorded, *remembered}))


def identities(entries: Iterable[InventoryEntry]) -> frozenset[Identity]:
    return frozenset(each.identity for each in entries)


def without(entries: Iterable[InventoryEntry], others: Iterable[InventoryEntry]) -> tuple[InventoryEntry, ...]:
    """Return the entries that are not among others, in their order."""
    excluded = identities(others)
    return tuple(each for each in entries if each.identity not in excluded)


def own_inventory(resource: Manifest | SyncResource) -> tuple[InventoryEntry, ...]:
    """Return what may be deleted of the inventory of an owner: without what existed before."""
    found = found_before(resource)
    return tuple(each for each in inventory_of(resource) if each.identity not in found)


def among(entries: Iterable[InventoryEntry], chosen: Collection[Identity]) -> tuple[InventoryEntry, ...]:
    """Return the entries that are chosen, in their order."""
    return tuple(each for each in entries if each.identity in chosen)


def is_crd(entry: InventoryEntry) -> bool:
    return (entry.group, entry.kind) == (CRD_GROUP, CRD_KIND)


def is_namespace(entry: InventoryEntry) -> bool:
    return (entry.group, entry.kind) == ("", "Namespace")


def unresolved_entries(objects: Iterable[KubernetesObject]) -> frozenset[InventoryEntry]:
    """Return the entries of objects before discovery: each without a namespace is taken to be in `default`."""
    return frozenset(
        InventoryEntry(group, version, each.kind, each.namespace or DEFAULT_NAMESPACE, each.name)
        for each in objects
        for group, _, version in (each.api_version.rpartition("/"),)
    )


def scopes_of(entries: Iterable[InventoryEntry]) -> Scopes:
    return {(each.group, each.kind): bool(each.namespace) for each in entries}


def namespace_in(scopes: Scopes, default_namespace: str) -> Callable[[KubernetesObject], str]:
    """Return what says the namespace of an object; a kind of which the scope is not known counts as namespaced."""

    def namespace_of(thing: KubernetesObject) -> str:
        is_namespaced = scopes.get((thing.api_version.rpartition("/")[0], thing.kind), True)
        return (thing.namespace or default_namespace) if is_namespaced else ""

    return namespace_of


def name_of(entry: InventoryEntry) -> str:
    """Name an object for people: `Deployment kyma-system/manager`."""
    return f"{entry.kind} {entry.namespace}/{entry.name}" if entry.namespace else f"{entry.kind} {entry.name}"


def found_message(entries: Iterable[InventoryEntry], found: Collection[Identity]) -> str:
    """Return what a condition adds about those objects of an inventory that existed before; mostly nothing."""
    named = [name_of(each) for each in among(entries, found)] if found else []
    return f"; existed before and will stay: {listed(named)}" if named else ""


def held_message(outcome: ObjectOutcome) -> str:
    """Return why an object that is no longer wanted stays."""
    return f"{name_of(outcome.entry)} has {listed(outcome.contents)}"


def failure_message(outcome: ObjectOutcome) -> str:
    """Return why an object could not be applied, with the document that it came from."""
    where = f"document {outcome.index}: " if outcome.index is not None else ""
    return f"{where}{name_of(outcome.entry)}: {outcome.error}"
