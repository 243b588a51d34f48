"""The rules of the catalog in an SKR, in the order of its steps.

May delete: objects of LM that are deleted in KCP, or whose module is for selected Kymas that this one is not among.
Once the Kyma is being deleted, and its modules and Watcher are removed: all objects of LM, then CRDs without objects.
Never deleted are objects that LM did not create, and CRDs that have objects.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from kube_runtime import End, Revision, Step
from lifecycle_manager.catalog_sync.snapshot import CatalogRecord, CatalogSnapshot
from lifecycle_manager.catalog_sync.status import GONE, CatalogRefused, failed, removing, synced
from lifecycle_manager.catalog_sync.wanted import KINDS, Item, Key, WantedCatalog, WantedItem
from lifecycle_manager.contract.conditions import CATALOG, ConditionContent, is_introduced, may_have, watcher_removed
from lifecycle_manager.skr import AccessSecretMissing
from lifecycle_manager_api import ModuleReleaseMeta, find


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogDone(End):
    """The reconcile ends.

    - `condition`: what is written; None where it stays, and then `record` too waits for another write
    - `record`: that of a catalog that is as wanted
    - `is_checked`: the objects in the SKR were compared
    """

    condition: ConditionContent | None = None
    record: CatalogRecord | None = None
    is_checked: bool = False


@dataclass(frozen=True, slots=True)
class ApplyCatalogCRDs(Step):
    """Apply the CRDs of the catalog."""


@dataclass(frozen=True, slots=True)
class CheckResourceVersions(Step):
    """List the resource versions of LM's objects, and compare them with those that are remembered."""

    kinds: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReadItems(Step):
    """Read LM's objects.

    Kinds that are new in the SKR are left out: right after a CRD, an API server answers lists with "retry in a second".
    """

    kinds: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WriteItems(Step):
    """Apply and delete objects. `kinds` are those that were read: the resource versions of these are known then."""

    kinds: tuple[str, ...]
    apply: tuple[WantedItem, ...]
    delete: tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class ListOwnItems(Step):
    """List the resource versions of all objects of LM."""


@dataclass(frozen=True, slots=True)
class DeleteOwnItems(Step):
    """Delete objects, then list those of these kinds that still exist, whoever created them."""

    items: tuple[Key, ...]
    kinds: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeleteCatalogCRDs(Step):
    """Delete the CRDs of kinds without objects."""

    kinds: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RemoveOthersFinalizers(Step):
    """Remove the finalizers of others from LM's objects that are being deleted."""


SyncStep = ApplyCatalogCRDs | CheckResourceVersions | ReadItems | WriteItems
RemovalStep = ListOwnItems | DeleteOwnItems | DeleteCatalogCRDs | RemoveOthersFinalizers


def plan(seen: CatalogSnapshot) -> SyncStep | RemovalStep | CatalogDone:
    return _removal(seen) if seen.kyma.metadata.being_deleted else _synchronization(seen)


def _synchronization(seen: CatalogSnapshot) -> SyncStep | CatalogDone:
    if seen.kyma.metadata.is_paused or not is_introduced(seen.kyma):
        return CatalogDone()  # the change of the Kyma triggers this again
    if not seen.is_due and _is_up_to_date(seen):
        return CatalogDone(requeue_after=seen.seconds_until_due)
    if seen.error is not None:
        return CatalogDone(condition=failed(seen.error), error=seen.error)
    if seen.are_crds_missing and seen.new_kinds is not None:
        error = CatalogRefused("the cluster does not have the CRDs of the catalog although it accepted them")
        return CatalogDone(condition=failed(error), error=error)
    if seen.are_crds_missing or seen.record.crds != seen.crds_digest:
        return ApplyCatalogCRDs()
    changed = seen.changed_kinds
    if seen.record.catalog != seen.wanted.digest:
        if (found := _known_differences(seen)) is not None:
            return WriteItems((), *found)
        changed = KINDS
    if changed is None:
        if not seen.is_due and seen.record != CatalogRecord.of(seen.kyma):
            return _done(seen, seen.seconds_until_due)
        return CheckResourceVersions(seen.kinds_to_check if _is_reported(seen) else KINDS)
    if not changed:
        return _done(seen, seen.interval_seconds, is_checked=True)
    if seen.live is None:
        return ReadItems(tuple(kind for kind in changed if kind not in (seen.new_kinds or ())))
    return WriteItems(changed, *differences(seen.wanted, seen.live, changed))


def _done(seen: CatalogSnapshot, requeue_after: float, *, is_checked: bool = False) -> CatalogDone:
    """Return the end with a catalog that is as wanted. A new record alone waits for another write to the status."""
    is_new = seen.record != CatalogRecord.of(seen.kyma)
    if is_new and _is_reported(seen) and seen.hold_seconds > 0:
        again = min(requeue_after, seen.hold_seconds)
        return CatalogDone(record=seen.record, requeue_after=again, is_checked=is_checked)
    return CatalogDone(
        condition=_condition(seen), record=seen.record, requeue_after=requeue_after, is_checked=is_checked
    )


def _known_differences(seen: CatalogSnapshot) -> tuple[tuple[WantedItem, ...], tuple[Key, ...]] | None:
    """Return what to write in an SKR that has another catalog by its record; None where it has to be read first.

    It need not be read while nothing says that it has something else; the next check finds that.
    """
    if seen.former is None or seen.changed_kinds is not None or seen.new_kinds is not None or not _is_reported(seen):
        return None
    return between(seen.former, seen.wanted)


def between(former: WantedCatalog, wanted: WantedCatalog) -> tuple[tuple[WantedItem, ...], tuple[Key, ...]] | None:
    """Return what to apply and what to delete to get from one catalog to another.

    None where something is to be deleted that the former one left as it was: the SKR need not have it from LM.
    """
    if wanted.is_frozen:
        return (), ()
    leaving = former.known - wanted.known - wanted.items.keys()
    if former.is_frozen or not leaving <= former.items.keys():
        return None
    new = (
        each
        for key, each in wanted.items.items()
        if key not in former.items or former.items[key].document != each.document
    )
    return tuple(new), tuple(sorted(leaving))


def _removal(seen: CatalogSnapshot) -> RemovalStep | CatalogDone:
    if not may_have(seen.kyma, CATALOG) or not watcher_removed(seen.kyma):
        return CatalogDone()  # the catalog is removed after the Watcher
    if isinstance(seen.error, AccessSecretMissing):
        return CatalogDone()
    if seen.error is not None:
        return CatalogDone(condition=failed(seen.error), error=seen.error)
    if seen.own is None:
        return ListOwnItems()
    if seen.remaining is None:
        own = tuple((kind, each.metadata.name) for kind, items in seen.own.items() for each in items)
        return DeleteOwnItems(own, tuple(seen.own))
    if unused := tuple(kind for kind, items in seen.remaining.items() if not items):
        return DeleteCatalogCRDs(unused)
    left = _uids(seen.own) & _uids(seen.remaining)
    if not left:
        return CatalogDone(condition=GONE)
    if not seen.are_finalizers_removed and _may_purge(seen):
        return RemoveOthersFinalizers()
    return CatalogDone(condition=removing(len(left)), requeue_after=seen.interval_seconds)


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


def _condition(seen: CatalogSnapshot) -> ConditionContent:
    return synced(is_frozen=seen.wanted.is_frozen)


def _is_up_to_date(seen: CatalogSnapshot) -> bool:
    """Tell whether condition and record of the Kyma say that its catalog is as wanted."""
    wanted = CatalogRecord(seen.crds_digest, seen.wanted.digest)
    return _is_reported(seen) and wanted == seen.record == CatalogRecord.of(seen.kyma)


def _is_reported(seen: CatalogSnapshot) -> bool:
    """Tell whether the condition of the Kyma says that its catalog is as wanted, be it in the words of a former one."""
    found = find(seen.kyma.status.conditions, CATALOG)
    return found is not None and (found.status, found.reason) == _condition(seen)[:2]


def _uids(items: Mapping[str, tuple[Revision, ...]]) -> set[str]:
    return {each.metadata.uid for of_kind in items.values() for each in of_kind}


def _may_purge(seen: CatalogSnapshot) -> bool:
    since = seen.kyma.metadata.deletion_timestamp
    return since is not None and seen.purge_after is not None and seen.now - since >= seen.purge_after


def _compared(item: Item) -> tuple[object, ...]:
    """Return what is compared; embedded objects by value, since API servers format them differently."""
    if isinstance(item, ModuleReleaseMeta):
        return (item.spec,)
    nothing = msgspec.Raw(b"null")
    embedded = [msgspec.json.decode(each) for each in (item.spec.descriptor, item.spec.data)]
    return (msgspec.structs.replace(item.spec, descriptor=nothing, data=nothing), *embedded)
