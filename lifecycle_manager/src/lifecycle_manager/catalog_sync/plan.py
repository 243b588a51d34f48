"""The rules of the catalog in an SKR: pure functions from a snapshot to the next step.

The order of the lines is the order of the steps. Never deleted are objects that LM did not create, and CRDs that have
objects.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from kube_runtime import Revision
from lifecycle_manager.catalog_sync.record import Record
from lifecycle_manager.catalog_sync.snapshot import RemovalSnapshot, SyncSnapshot
from lifecycle_manager.catalog_sync.status import GONE, CatalogCondition, removing, synced
from lifecycle_manager.catalog_sync.wanted import KINDS, Item, Key, WantedCatalog, WantedItem
from lifecycle_manager.kyma_conditions import CATALOG, is_introduced, may_have, watcher_removed
from lifecycle_manager_api import ModuleReleaseMeta, find


@dataclass(frozen=True, slots=True)
class Done:
    """The reconcile ends, with this condition unless it is None, and with this record unless that is None."""

    condition: CatalogCondition | None = None
    requeue_after: float | None = None
    record: Record | None = None


@dataclass(frozen=True, slots=True)
class WriteObjects:
    """Apply and delete objects, then record the resource versions of some kinds."""

    kinds: tuple[str, ...]
    apply: tuple[WantedItem, ...]
    delete: tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class DeleteObjects:
    """Delete objects."""

    objects: tuple[Key, ...]


@dataclass(frozen=True)
class _Plain:
    """A step that needs no more than its name."""


class ApplyCRDs(_Plain):
    """Apply the CRDs of the catalog."""


class ReadOwnObjects(_Plain):
    """List the resource versions of all objects of LM."""


class RemoveFinalizers(_Plain):
    """Remove the finalizers of others from LM's objects that are being deleted."""


@dataclass(frozen=True)
class _OfKinds:
    """A step for some kinds."""

    kinds: tuple[str, ...]


class CheckResourceVersions(_OfKinds):
    """List the resource versions of LM's objects, and compare them with the record."""


class ReadObjects(_OfKinds):
    """Read LM's objects.

    Kinds that are new in the SKR are left out: right after a CRD, an API server answers lists with "retry in a second".
    """


class ReadRemainingObjects(_OfKinds):
    """List the objects that exist after the deletion, whoever created them."""


class DeleteCRDs(_OfKinds):
    """Delete the CRDs of kinds without objects."""


SyncStep = Done | ApplyCRDs | CheckResourceVersions | ReadObjects | WriteObjects
RemovalStep = Done | ReadOwnObjects | DeleteObjects | ReadRemainingObjects | DeleteCRDs | RemoveFinalizers


def plan_sync(seen: SyncSnapshot) -> SyncStep:
    """Return the next step for a catalog that has to be kept up to date."""
    if seen.kyma.metadata.is_paused or not is_introduced(seen.kyma):
        return Done()  # the change of the Kyma triggers this again
    if not seen.is_due and _is_up_to_date(seen):
        return Done(requeue_after=seen.seconds_until_due)
    if seen.are_crds_missing or seen.record.crds != seen.crds_digest:
        return ApplyCRDs()
    return _synchronization(seen) or Done(_outcome(seen), seen.interval_seconds, seen.record)


def plan_removal(seen: RemovalSnapshot) -> RemovalStep:
    """Return the next step for the catalog of a Kyma that is being deleted. It is removed after the Watcher."""
    if not may_have(seen.kyma, CATALOG) or not watcher_removed(seen.kyma):
        return Done()
    return _deletion(seen) or _end_of_removal(seen)


def _synchronization(seen: SyncSnapshot) -> SyncStep | None:
    changed = seen.changed_kinds if seen.record.catalog == seen.wanted.digest else KINDS
    if changed is None:
        return CheckResourceVersions(seen.kinds_to_check)
    if not changed:
        return None
    if seen.live is None:
        return ReadObjects(tuple(kind for kind in changed if kind not in seen.new_kinds))
    apply, delete = differences(seen.wanted, seen.live, changed)
    return WriteObjects(changed, apply, delete)


def _outcome(seen: SyncSnapshot) -> CatalogCondition:
    return synced(len(seen.wanted.items), is_frozen=seen.wanted.is_frozen)


def _deletion(seen: RemovalSnapshot) -> RemovalStep | None:
    if seen.own is None:
        return ReadOwnObjects()
    if not seen.are_deleted:
        return DeleteObjects(tuple((kind, each.metadata.name) for kind, own in seen.own.items() for each in own))
    if seen.remaining is None:
        return ReadRemainingObjects(tuple(seen.own))
    unused = tuple(kind for kind, objects in seen.remaining.items() if not objects and kind not in seen.deleted_crds)
    return DeleteCRDs(unused) if unused else None


def _end_of_removal(seen: RemovalSnapshot) -> RemovalStep:
    left = _uids(seen.own or {}) & _uids(seen.remaining or {})
    if not left:
        return Done(GONE)
    if not seen.are_finalizers_removed and _may_purge(seen):
        return RemoveFinalizers()
    return Done(removing(len(left)), seen.interval_seconds)


def _uids(objects: Mapping[str, tuple[Revision, ...]]) -> set[str]:
    return {each.metadata.uid for of_kind in objects.values() for each in of_kind}


def differences(
    wanted: WantedCatalog, live: Mapping[Key, Item], kinds: Iterable[str]
) -> tuple[tuple[WantedItem, ...], tuple[Key, ...]]:
    """Return what to apply and what to delete, of some kinds, where `live` are LM's objects in the SKR.

    Deleted is what is no longer known; another object that this Kyma may no longer have stays as it is.
    """
    if wanted.is_frozen:
        return (), ()
    compared = frozenset(kinds)
    apply = tuple(
        each
        for key, each in wanted.items.items()
        if key[0] in compared and (key not in live or not is_as_wanted(live[key], each.item))
    )
    return apply, tuple(sorted(key for key in live if key not in wanted.items and key not in wanted.known))


def is_as_wanted(live: Item, wanted: Item) -> bool:
    """Tell whether an object has exactly the wanted content, and at least the wanted labels and annotations."""
    return (
        wanted.metadata.labels.items() <= live.metadata.labels.items()
        and wanted.metadata.annotations.items() <= live.metadata.annotations.items()
        and (live.spec == wanted.spec or _compared(live) == _compared(wanted))
    )


def _is_up_to_date(seen: SyncSnapshot) -> bool:
    """Tell whether catalog and condition are as wanted."""
    condition = find(seen.kyma.status.conditions, CATALOG)
    is_told = condition is not None and (condition.status, condition.reason, condition.message) == _outcome(seen)
    return is_told and (seen.record.crds, seen.record.catalog) == (seen.crds_digest, seen.wanted.digest)


def _may_purge(seen: RemovalSnapshot) -> bool:
    since = seen.kyma.metadata.deletion_timestamp
    return since is not None and seen.purge_after is not None and seen.now - since >= seen.purge_after


def _compared(item: Item) -> tuple[object, ...]:
    """Return what is compared; embedded objects by value, since API servers format them differently."""
    if isinstance(item, ModuleReleaseMeta):
        return (item.spec,)
    nothing = msgspec.Raw(b"null")
    embedded = [msgspec.json.decode(each) for each in (item.spec.descriptor, item.spec.data)]
    return (msgspec.structs.replace(item.spec, descriptor=nothing, data=nothing), *embedded)
