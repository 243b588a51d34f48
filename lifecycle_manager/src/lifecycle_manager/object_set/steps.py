"""The steps that every owner of a set takes, and how a reconcile ends. A domain adds its own; its plan decides.

An outcome is an end without its status: the plan says what is the case, `ended` of the domain how that is reported.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from kube_runtime import ApplyResult, End, InventoryEntry, KubernetesObject, Step
from lifecycle_manager.contract.signals import ObjectReference
from lifecycle_manager.object_set.inventory import Identity
from lifecycle_manager.object_set.owner_writes import Status
from lifecycle_manager.skr import ObservedObject
from lifecycle_manager.skr.deletion_brake import Hold


@dataclass(frozen=True, slots=True)
class ResolveObjects(Step):
    """Find out what an apply of these objects may create; `own_kinds` are of kinds that the set itself defines."""

    objects: tuple[KubernetesObject, ...]
    own_kinds: tuple[InventoryEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordIntent(Step):
    """Record in the status what is in the SKR and about to be, and set the finalizer."""

    entries: tuple[InventoryEntry, ...]
    status: Status


@dataclass(frozen=True, slots=True)
class ApplyObjects(Step):
    """Apply these objects; delete none. Without `recheck` only objects with another document than before are requested.

    With identities in `recheck` these are requested too.
    `new` objects were not in the inventory before this reconcile. `namespaces` are created before where they are
    missing. They are not a part of the set: others may use them by the time it is deleted. `found` objects existed
    before the set: they are never deleted to be created anew.
    """

    objects: tuple[KubernetesObject, ...]
    inventory: tuple[InventoryEntry, ...]
    recheck: bool | frozenset[Identity]
    new: frozenset[InventoryEntry] = frozenset()
    namespaces: tuple[str, ...] = ()
    found: frozenset[Identity] = frozenset()


@dataclass(frozen=True, slots=True)
class ReleaseFound(Step):
    """Leave these objects, which existed before, to users: without the set's labels, annotations and managed fields."""

    entries: tuple[InventoryEntry, ...]


@dataclass(frozen=True, slots=True)
class PruneObjects(Step):
    """Delete objects that are in the inventory and that an apply has left over.

    No Namespace and no CRD that contains objects: these are named in the status.
    """

    applied: ApplyResult
    entries: tuple[InventoryEntry, ...]


@dataclass(frozen=True, slots=True)
class DeleteObjects(Step):
    """Delete these objects of the inventory: their owner is being deleted.

    A Namespace that contains objects of others is left, without the set's labels, annotations and managed fields. A CRD
    that has objects waits until these are deleted.
    """

    inventory: tuple[InventoryEntry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetDone(End):
    """Write the status.

    `applied` is the result of this round; `shown` what it has read of objects that events announced, None where it has
    not read them.
    """

    status: Status
    applied: ApplyResult | None = None
    shown: Mapping[ObjectReference, ObservedObject] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveFinalizer(End):
    """Remove the finalizer: nothing is left in the SKR, or it stays there for its users.

    Those `of_others` too where the SKR is gone: nobody can do anything there any more.
    """

    of_others: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NothingApplied(End):
    """The intent could not be recorded in KCP: nothing was applied, and there is no status to write."""


@dataclass(frozen=True, slots=True)
class SetFailed:
    """A step of the reconcile failed."""

    error: Exception


@dataclass(frozen=True, slots=True)
class SetBraked:
    """The deletion of the set, or of all its objects, is held."""

    hold: Hold


SetStep = ResolveObjects | RecordIntent | ApplyObjects | ReleaseFound | PruneObjects | DeleteObjects
SetEnd = SetDone | RemoveFinalizer | NothingApplied
