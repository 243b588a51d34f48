"""The steps of the removal of a module, and how a reconcile ends. `plan` decides on them, `apply` carries them out."""

from collections.abc import Mapping
from dataclasses import dataclass

from kube_runtime import End, InventoryEntry, JsonObject, Resource, Step
from lifecycle_manager.module_installation.module_cr import DefaultCr
from lifecycle_manager.module_installation.reading import KindObject
from lifecycle_manager.module_sources.references import Source
from lifecycle_manager.object_set.inventory import Identity
from lifecycle_manager.object_set.ownership import Holder
from lifecycle_manager.object_set.reporting import SetReport
from lifecycle_manager_api import ManifestStatus


@dataclass(frozen=True, slots=True)
class FindModuleCRs(Step):
    """Find the kinds of the module, its default Module CRs, and what the other modules have."""

    inventory: tuple[InventoryEntry, ...]
    wanted: DefaultCr | None


@dataclass(frozen=True, slots=True)
class DeleteDefaultCRs(Step):
    """Delete the default Module CRs of the module."""

    crs: tuple[KindObject, ...]


@dataclass(frozen=True, slots=True)
class CheckManagersMissing(Step):
    """Find out whether anything that runs the module still exists."""

    managers: tuple[InventoryEntry, ...]


@dataclass(frozen=True, slots=True)
class StripFinalizers(Step):
    """Remove the finalizers of default Module CRs: nobody is left to act on them."""

    crs: tuple[tuple[KindObject, JsonObject], ...]


@dataclass(frozen=True, slots=True)
class ListUsersObjects(Step):
    """List the objects of these kinds that are neither the module's own nor of these SyncResources."""

    kinds: tuple[Resource[JsonObject], ...]
    own: frozenset[Identity]
    sync_resources: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Upgrade(Step):
    """Bring the version that the Manifest names to the SKR while something blocks the removal."""

    source: Source


@dataclass(frozen=True, slots=True)
class HandOverObjects(Step):
    """Hand objects over to other modules that have them too."""

    objects: Mapping[InventoryEntry, Holder]


@dataclass(frozen=True, slots=True)
class ReleaseFound(Step):
    """Leave these objects, which existed before, to users: without the set's labels, annotations and managed fields."""

    entries: tuple[InventoryEntry, ...]


@dataclass(frozen=True, slots=True)
class DeleteObjects(Step):
    """Delete these objects of the inventory.

    A Namespace that contains objects of others is left, without the set's labels, annotations and managed fields. A CRD
    that has objects waits until these are deleted.
    """

    inventory: tuple[InventoryEntry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveFinalizer(End):
    """Remove the finalizer: nothing is left in the SKR, or it stays there for its users.

    Those `of_others` too where the SKR is gone: nobody can do anything there any more.
    """

    of_others: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveAlone(End):
    """Do nothing: the module is unmanaged or skipped, or the Manifest waits for other finalizers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitForCheck(End):
    """Do nothing before the first check: a new process relies on the status of a settled module until then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestDone(SetReport):
    """Write the status. `check_all` has the next reconcile read every object."""

    status: ManifestStatus
    check_all: bool = False


ModuleCrStep = FindModuleCRs | DeleteDefaultCRs | CheckManagersMissing | StripFinalizers | ListUsersObjects
"""Steps on what no inventory names: Module CRs, and what runs the module."""
ManifestStep = ModuleCrStep | Upgrade | HandOverObjects | ReleaseFound | DeleteObjects
ManifestEnd = ManifestDone | RemoveFinalizer | LeaveAlone | WaitForCheck
