"""The steps of a Manifest, and how a reconcile ends. `plan` decides on them, `apply` carries them out.

An outcome is an end without its status: the plan says what is the case, `ending` how that is reported.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from kube_runtime import End, InventoryEntry, JsonObject, Resource, Step
from lifecycle_manager.module_installation.module_cr import DefaultCr
from lifecycle_manager.module_installation.reading import KindObject
from lifecycle_manager.module_sources import Source
from lifecycle_manager.object_set.inventory import Identity
from lifecycle_manager.object_set.ownership import Holder
from lifecycle_manager.object_set.steps import NothingApplied, RemoveFinalizer, SetBraked, SetDone, SetFailed, SetStep
from lifecycle_manager_api import ManifestStatus


@dataclass(frozen=True, slots=True)
class Render(Step):
    source: Source


@dataclass(frozen=True, slots=True)
class Connect(Step):
    """Connect to the SKR and recall what this process remembers of the module there."""


@dataclass(frozen=True, slots=True)
class HandOverObjects(Step):
    """Hand objects over to other modules that have them too."""

    objects: Mapping[InventoryEntry, Holder]


@dataclass(frozen=True, slots=True)
class ListObjectsOfCRDs(Step):
    """List the objects of CRDs that the module no longer has."""

    crds: tuple[InventoryEntry, ...]


@dataclass(frozen=True, slots=True)
class ReadManagers(Step):
    """Read what runs the module; `optional` ones count only while they exist."""

    managers: tuple[InventoryEntry, ...]
    optional: tuple[InventoryEntry, ...]


@dataclass(frozen=True, slots=True)
class ReadModuleCR(Step):
    """Read the default Module CR; create it where it is missing and was never created."""

    wanted: DefaultCr
    was_created: bool


@dataclass(frozen=True, slots=True)
class ReleaseObjects(Step):
    """Leave the module's objects to its users: remove the label by which tools see who manages them."""

    objects: tuple[InventoryEntry, ...]


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
    """List the objects of these kinds that are not the module's own."""

    kinds: tuple[Resource[JsonObject], ...]
    own: frozenset[Identity]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveAlone(End):
    """Do nothing: the module is unmanaged or skipped, or the Manifest waits for other finalizers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitForCheck(End):
    """Do nothing before the first check: a new process relies on the status of a settled module until then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestDone(SetDone):
    """Write the status. `check_all` has the next reconcile read every object."""

    status: ManifestStatus
    check_all: bool = False


@dataclass(frozen=True, slots=True)
class ManifestRefused:
    """The objects can't be read, or may not be applied. `is_awaited`: they are being fetched."""

    reason: str
    message: str
    again: float | None = None
    is_awaited: bool = False


@dataclass(frozen=True, slots=True)
class ModuleInstalled:
    """The objects are applied, or some were refused; what was found out about the module says whether it runs."""


@dataclass(frozen=True, slots=True)
class ModuleReleased:
    """The objects belong to the users from now on."""


@dataclass(frozen=True, slots=True)
class RemovalWaits:
    """The removal waits; with `needs_users` until these act."""

    waits_for: str
    needs_users: bool = False


@dataclass(frozen=True, slots=True)
class OthersFinalizers:
    """The Manifest is being deleted, has finalizers of others only, and waits for these."""


ModuleCrStep = (
    ListObjectsOfCRDs
    | ReadManagers
    | ReadModuleCR
    | FindModuleCRs
    | DeleteDefaultCRs
    | CheckManagersMissing
    | StripFinalizers
    | ListUsersObjects
)
"""Steps on what no inventory names: Module CRs, and what runs the module."""
ManifestStep = Render | Connect | HandOverObjects | ReleaseObjects | SetStep | ModuleCrStep
ManifestEnd = ManifestDone | RemoveFinalizer | LeaveAlone | WaitForCheck | NothingApplied
ManifestOutcome = (
    SetFailed | SetBraked | ManifestRefused | ModuleInstalled | ModuleReleased | RemovalWaits | OthersFinalizers
)
