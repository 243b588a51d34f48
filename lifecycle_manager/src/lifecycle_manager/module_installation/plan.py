"""The rules of a Manifest: what it needs next. Pure functions, no I/O."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from kube_runtime import InventoryEntry
from lifecycle_manager.module_catalog import kyma_of_manifest
from lifecycle_manager.oci import Source, SourceInvalid, source_in
from lifecycle_manager_api import Manifest, SyncedReference, find, names

MODULE_CR = "ModuleCR"
"""The condition that tells which default Module CR was made."""


@dataclass(frozen=True, slots=True)
class LeaveAlone:
    """Do nothing: the user looks after the module, or the Manifest is on its way out."""


@dataclass(frozen=True, slots=True)
class LetGo:
    """Take the finalizer off: nothing was ever brought to the cluster."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """Bring nothing, remove nothing, and say why."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Install:
    """Have the objects behind a source in the cluster, and nothing else of what the inventory names."""

    kyma: str
    source: Source
    inventory: tuple[InventoryEntry, ...]


@dataclass(frozen=True, slots=True)
class Remove:
    """Have the cluster without the module."""

    kyma: str
    inventory: tuple[InventoryEntry, ...]


Step = LeaveAlone | LetGo | Refuse | Install | Remove


def plan(manifest: Manifest, remembered: Collection[InventoryEntry] = ()) -> Step:
    """Decide what a Manifest needs next.

    `remembered` is what this process knows to be in the cluster beyond what the status in its cache says, which may be
    older than the last write.
    """
    kyma = kyma_of_manifest(manifest)
    inventory = tuple(sorted({*inventory_of(manifest), *remembered}))
    if manifest.metadata.being_deleted:
        return _removal(manifest, kyma, inventory)
    if is_left_alone(manifest):
        return LeaveAlone()
    if not kyma:
        return Refuse("KymaUnnamed", f"the label {names.KYMA_NAME} does not say in which cluster the module belongs")
    if not manifest.spec.remote:
        return Refuse("NotRemote", "spec.remote is false; modules are installed in the users' clusters only")
    try:
        return Install(kyma, source_in(manifest.spec.install.source), inventory)
    except SourceInvalid as error:
        return Refuse(error.reason, str(error))


def _removal(manifest: Manifest, kyma: str, inventory: tuple[InventoryEntry, ...]) -> Step:
    if names.MANIFEST_FINALIZER not in manifest.metadata.finalizers:
        return LeaveAlone()
    if names.IS_UNMANAGED in manifest.metadata.annotations:
        return LetGo()  # its users look after what is in the cluster by now
    made = find(manifest.status.conditions, MODULE_CR)
    brought = bool(inventory) or (made is not None and made.status == "True")
    return Remove(kyma, inventory) if kyma and brought else LetGo()


def is_left_alone(manifest: Manifest) -> bool:
    """Tell whether a module is installed, and not to be touched."""
    metadata = manifest.metadata
    return names.IS_UNMANAGED in metadata.annotations or metadata.labels.get(names.SKIP_RECONCILIATION) == "true"


def inventory_of(manifest: Manifest) -> tuple[InventoryEntry, ...]:
    """Return what a Manifest says is in the cluster, or may be."""
    return tuple(
        InventoryEntry(each.group, each.version, each.kind, each.namespace, each.name)
        for each in manifest.status.synced
    )


def references_to(inventory: Iterable[InventoryEntry]) -> tuple[SyncedReference, ...]:
    """Return an inventory as a status has it."""
    return tuple(
        SyncedReference(
            group=each.group, version=each.version, kind=each.kind, namespace=each.namespace, name=each.name
        )
        for each in inventory
    )
