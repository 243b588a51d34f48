"""Objects that several modules of a cluster bring: a Namespace, a definition, a ClusterRole. Pure functions.

Such an object stays for as long as one of them has it. It carries the labels of the one that wrote it last; whoever
goes hands it over. While it carries those of another module that looks after it, it is as it should be: otherwise two
modules would overwrite each other's labels for ever, each woken by what the other wrote.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kube_runtime import InventoryEntry, ObjectKey
from lifecycle_manager.module_catalog import module_of_manifest
from lifecycle_manager.module_installation.plan import inventory_of, is_left_alone
from lifecycle_manager_api import Manifest, names

Identity = tuple[str, str, str, str]
"""Group, kind, namespace and name of an object, as an inventory has it."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Another module of the same cluster, with what it has there. One that is left alone `looks_after` nothing."""

    key: ObjectKey
    module: str
    has: frozenset[Identity]
    looks_after: bool = True


def holder(manifest: Manifest, known: Iterable[InventoryEntry], given_up: Collection[Identity]) -> Holder | None:
    """Return a Manifest as a holder of what is in its cluster; None where it is on its way out.

    `known` is what this process has brought, `given_up` what it has handed over, beyond what the status says.
    """
    if manifest.metadata.being_deleted:
        return None
    key = ObjectKey(manifest.metadata.namespace, manifest.metadata.name)
    has = {each.identity for each in (*inventory_of(manifest), *known)} - {*given_up}
    return Holder(key, module_of_manifest(manifest), frozenset(has), looks_after=not is_left_alone(manifest))


def left_to(leaving: Iterable[InventoryEntry], others: Iterable[Holder]) -> dict[InventoryEntry, Holder]:
    """Return which of the objects that a module gives up stay in the cluster, and to whom each one is left."""
    in_order = sorted(others, key=lambda other: (not other.looks_after, other.key))
    found = ((each, next((other for other in in_order if each.identity in other.has), None)) for each in leaving)
    return {entry: other for entry, other in found if other is not None}


def holding(gone: Iterable[InventoryEntry], others: Iterable[Holder]) -> tuple[ObjectKey, ...]:
    """Return who has any of these objects."""
    identities = {each.identity for each in gone}
    return tuple(sorted(other.key for other in others if other.has & identities))


def is_looked_after(entry: InventoryEntry, live: Mapping[str, Any], others: Iterable[Holder]) -> bool:
    """Tell whether an object, as it is, is what another module has made of it."""
    owner = (live["metadata"].get("annotations") or {}).get(names.OWNED_BY)
    return any(str(other.key) == owner and other.looks_after and entry.identity in other.has for other in others)
