"""The rules of the catalog in an SKR. Pure functions, one for each decision of `controller`.

May delete: objects of LM that are deleted in KCP, or whose module is for selected Kymas that this one is not among.
Once the Kyma is being deleted, and its modules and Watcher are removed: all objects of LM, then CRDs without objects.
Never deleted are objects that LM did not create, and CRDs that have objects.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from kube_runtime import End, Revision
from lifecycle_manager.catalog_sync.snapshot import CatalogRecord, CatalogSnapshot
from lifecycle_manager.catalog_sync.status import GONE, failed, removing, synced
from lifecycle_manager.catalog_sync.wanted import CRDS_DIGEST, Item, Key, WantedCatalog, WantedItem
from lifecycle_manager.contract.conditions import CATALOG, ConditionContent, is_introduced, may_have, watcher_removed
from lifecycle_manager.skr.access import AccessSecretMissing
from lifecycle_manager_api import ModuleReleaseMeta, find


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogDone(End):
    """What a reconcile reports.

    - `condition`: what is written; None where it stays
    - `record`: that of a catalog that was compared, and is as wanted
    """

    condition: ConditionContent | None = None
    record: CatalogRecord | None = None


class CatalogDifferences(NamedTuple):
    """What is applied and what is deleted."""

    apply: tuple[WantedItem, ...] = ()
    delete: tuple[Key, ...] = ()


Revisions = Mapping[str, tuple[Revision, ...]]
"""Objects by kind, without kinds that the SKR does not serve."""


def pause(seen: CatalogSnapshot) -> CatalogDone | None:
    """Return the end where there is nothing to do in the SKR for now; a change of the Kyma triggers this again."""
    if seen.kyma.metadata.being_deleted:  # the catalog is removed after the Watcher
        return None if may_have(seen.kyma, CATALOG) and watcher_removed(seen.kyma) else CatalogDone()
    if seen.kyma.metadata.is_paused or not is_introduced(seen.kyma):
        return CatalogDone()
    wanted = CatalogRecord(CRDS_DIGEST, seen.wanted.digest)
    is_up_to_date = _is_reported(seen) and wanted == seen.record
    return CatalogDone(requeue_after=seen.seconds_until_due) if is_up_to_date and not seen.is_due else None


def failure(seen: CatalogSnapshot, error: Exception) -> CatalogDone:
    if seen.kyma.metadata.being_deleted and isinstance(error, AccessSecretMissing):
        return CatalogDone()
    return CatalogDone(condition=failed(error), error=error)


def done(seen: CatalogSnapshot) -> CatalogDone:
    """Return the end with a catalog that is as wanted."""
    condition = synced(is_frozen=seen.wanted.is_frozen)
    return CatalogDone(condition=condition, record=seen.record, requeue_after=seen.interval_seconds)


def differences(wanted: WantedCatalog, live: Mapping[Key, Item], kinds: Iterable[str]) -> CatalogDifferences:
    """Return what to apply and what to delete, of some kinds, where `live` are LM's objects in the SKR.

    Deleted is what is no longer known; another object that this Kyma may no longer have stays as it is.
    """
    if wanted.is_frozen:
        return CatalogDifferences()
    compared = frozenset(kinds)
    apply = tuple(
        each
        for key, each in wanted.items.items()
        if key[0] in compared and (key not in live or not is_as_wanted(live[key], each.item))
    )
    return CatalogDifferences(
        apply, tuple(sorted(key for key in live if key not in wanted.items and key not in wanted.known))
    )


def is_as_wanted(live: Item, wanted: Item) -> bool:
    """Tell whether an object has exactly the wanted content, and at least the wanted labels and annotations."""
    return (
        wanted.metadata.labels.items() <= live.metadata.labels.items()
        and wanted.metadata.annotations.items() <= live.metadata.annotations.items()
        and (live.spec == wanted.spec or _compared(live) == _compared(wanted))
    )


def unused(remaining: Revisions) -> tuple[str, ...]:
    """Return the kinds of which the SKR has no objects, whoever created them: their CRDs may be deleted."""
    return tuple(kind for kind, items in remaining.items() if not items)


def left_over(own: Revisions, remaining: Revisions) -> frozenset[str]:
    """Return the uids of LM's objects that were deleted and still exist."""
    before, after = (frozenset(each.metadata.uid for of in found.values() for each in of) for found in (own, remaining))
    return before & after


def may_purge(seen: CatalogSnapshot) -> bool:
    """Tell whether the Kyma has been deleted for so long that nobody waits for finalizers of others any more."""
    since = seen.kyma.metadata.deletion_timestamp
    return since is not None and seen.purge_after is not None and seen.now - since >= seen.purge_after


def removed(seen: CatalogSnapshot, left: frozenset[str]) -> CatalogDone:
    if not left:
        return CatalogDone(condition=GONE)
    return CatalogDone(condition=removing(len(left)), requeue_after=seen.interval_seconds)


def _is_reported(seen: CatalogSnapshot) -> bool:
    """Tell whether the condition of the Kyma says that its catalog is as wanted, be it in the words of a former one."""
    found, wanted = find(seen.kyma.status.conditions, CATALOG), synced(is_frozen=seen.wanted.is_frozen)
    return found is not None and (found.status, found.reason) == wanted[:2]


def _compared(item: Item) -> tuple[object, ...]:
    """Return what is compared; embedded objects by value, since API servers format them differently."""
    if isinstance(item, ModuleReleaseMeta):
        return (item.spec,)
    nothing = msgspec.Raw(b"null")
    embedded = [msgspec.json.decode(each) for each in (item.spec.descriptor, item.spec.data)]
    return (msgspec.structs.replace(item.spec, descriptor=nothing, data=nothing), *embedded)
