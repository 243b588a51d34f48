"""The controller of the catalogs in the SKRs: what triggers a reconcile, and what a reconcile does.

A catalog is reconciled when

- the metadata of its Kyma changes, its SKR was read for the first time, its event path breaks or works again, or its
  modules and Watcher are removed
- a ModuleTemplate or ModuleReleaseMeta changes: those of all Kymas
- an event reports a change of an object of the catalog: it is checked at once, and until that shows it
- its SKR answers again, is replaced by another, or all of it is to be read again
- the interval has passed: the resource versions of its objects are listed

Limits: `CatalogSettings`; `MAX_SILENT_SECONDS` in snapshot.py.
"""

from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

from kube_runtime import (
    Causes,
    Controller,
    Informer,
    KindUnknown,
    KubeError,
    Manager,
    ObjectKey,
    Priority,
    Request,
    Result,
)
from lifecycle_manager.catalog_sync import rules
from lifecycle_manager.catalog_sync.apply import FIELD_MANAGER, SkrCatalog
from lifecycle_manager.catalog_sync.rules import CatalogDone
from lifecycle_manager.catalog_sync.snapshot import CatalogReader, CatalogRecord, CatalogSnapshot, CatalogState
from lifecycle_manager.catalog_sync.status import CatalogRefused, failed
from lifecycle_manager.catalog_sync.wanted import CRDS_DIGEST, KINDS
from lifecycle_manager.contract.changes import kyma_changed
from lifecycle_manager.contract.conditions import (
    CATALOG,
    ConditionContent,
    is_event_path_faulty,
    is_introduced,
    watcher_removed,
    write_condition,
)
from lifecycle_manager.contract.resources import KYMAS
from lifecycle_manager.contract.signals import (
    ClusterReachable,
    ClusterReplaced,
    ObjectChanged,
    ResyncRequested,
)
from lifecycle_manager.module_catalog.affected import watch_offer
from lifecycle_manager.module_catalog.controller import Offers
from lifecycle_manager.options.kymas import CatalogSettings
from lifecycle_manager.skr.access import SkrAccessError
from lifecycle_manager.skr.connections import Connections
from lifecycle_manager_api import Kyma, names


def setup(
    manager: Manager, connections: Connections, offers: Offers, settings: CatalogSettings
) -> Controller[ObjectKey, CatalogState]:
    """Add the controller of the catalogs; its keys are those of the Kymas."""
    kymas = manager.informer(KYMAS)
    controller: Controller[ObjectKey, CatalogState] = manager.controller(
        "catalog", state=CatalogState, concurrency=settings.concurrency, not_retried=(SkrAccessError,)
    )
    controller.watches(kymas, when=kyma_changed(is_introduced, watcher_removed, is_event_path_faulty))
    watch_offer(controller, manager)
    controller.receives(ClusterReachable, to=lambda signal: (signal.key,), priority=Priority.CHANGE)
    controller.receives(ObjectChanged, to=_key_of_catalog_object)
    controller.receives(ClusterReplaced, to=lambda signal: (signal.key,), priority=Priority.CHANGE)
    controller.receives(ResyncRequested, to=lambda signal: (signal.key,), priority=Priority.CHANGE)

    reader = CatalogReader(kymas, offers, manager.clock, settings)
    reconciler = CatalogReconciler(manager, kymas, connections, reader)
    controller.reconciles(reconciler.reconcile, unforeseen=reconciler.report_unforeseen)
    return controller


@dataclass(frozen=True, eq=False)
class CatalogReconciler:
    """Keeps the catalogs in the SKRs as the offer in KCP and the labels of the Kymas say."""

    manager: Manager
    kymas: Informer[Kyma]
    connections: Connections
    reader: CatalogReader

    async def reconcile(self, key: ObjectKey, causes: Causes, state: CatalogState) -> Result:
        """Bring the catalog to the SKR, or remove it there, and write the condition. Raises what failed."""
        async with Request(key, state, causes) as request:
            seen = self.reader.read(request)
            if seen is None:
                return Result()
            catalog = SkrCatalog(self.connections, request)
            try:
                end = rules.pause(seen)
                if end is None:
                    end = await (remove if seen.kyma.metadata.being_deleted else bring)(catalog, seen)
            except (KubeError, SkrAccessError) as error:
                end = rules.failure(seen, error)
            result = await self._report(catalog, seen, end)
        if end.error is not None:
            raise end.error
        return result

    async def _report(self, catalog: SkrCatalog, seen: CatalogSnapshot, end: CatalogDone) -> Result:
        """Write the condition and the record; return when to reconcile again. Raises KubeError."""
        state, now = catalog.state, self.manager.clock.monotonic()
        if end.condition is not None:
            await self._write(self.kymas.get(catalog.request.key) or seen.kyma, end.condition, end.record)
        if end.record is None:
            return Result(end.requeue_after)
        state.checked(next_check=now + seen.interval_seconds)
        again = state.announcements.settle({each: catalog.shows(each) for each in state.announcements.of()}, now=now)
        return Result(end.requeue_after if again is None else again)

    async def report_unforeseen(self, key: ObjectKey, error: Exception) -> None:
        """Report an unforeseen exception. Raises KubeError."""
        kyma = self.kymas.get(key)
        if kyma is not None:
            await self._write(kyma, failed(error))

    async def _write(self, kyma: Kyma, condition: ConditionContent, record: CatalogRecord | None = None) -> None:
        """Write the condition, and the record unless that is None, where they differ."""
        is_known = record is None or record == CatalogRecord.of(kyma)
        records = {"catalog": kyma.status.records.catalog if is_known else str(record)}
        now = self.manager.clock.now()
        written = await write_condition(
            self.manager.client, kyma, CATALOG, condition, now=now, field_manager=FIELD_MANAGER, records=records
        )
        if written is not None:
            self.kymas.wrote(written)


async def bring(catalog: SkrCatalog, seen: CatalogSnapshot) -> CatalogDone:
    """Have the SKR have the CRDs and the catalog; return what to report. Raises KubeError, SkrAccessError."""
    if seen.record.crds == CRDS_DIGEST:
        with suppress(KindUnknown):  # the SKR has lost the CRDs
            return await synchronize(catalog, seen)
    new = await catalog.apply_crds()
    seen = replace(seen, record=replace(seen.record, crds=CRDS_DIGEST))
    try:
        return await synchronize(catalog, seen, new)
    except KindUnknown as error:
        text = "the cluster does not have the CRDs of the catalog although it accepted them"
        raise CatalogRefused(text) from error


async def synchronize(catalog: SkrCatalog, seen: CatalogSnapshot, new: Collection[str] = ()) -> CatalogDone:
    """Have the SKR have the objects of the catalog. Raises KindUnknown where it lacks a CRD.

    Objects of `new` kinds are not read: right after a CRD, an API server answers lists with "retry in a second".
    """
    is_recorded = not new and seen.record.catalog == seen.wanted.digest
    if changed := await catalog.changed() if is_recorded else KINDS:
        live = await catalog.read([kind for kind in changed if kind not in new])
        seen = await catalog.write(seen, rules.differences(seen.wanted, live, changed), changed, live)
    return rules.done(seen)


async def remove(catalog: SkrCatalog, seen: CatalogSnapshot) -> CatalogDone:
    """Delete LM's objects, and CRDs without objects; return what to report. Raises KubeError, SkrAccessError."""
    own = await catalog.revisions(KINDS, own=True)
    await catalog.delete(own)
    remaining = await catalog.revisions(own, own=False)
    await catalog.delete_crds(rules.unused(remaining))
    left = rules.left_over(own, remaining)
    if left and rules.may_purge(seen):
        await catalog.remove_finalizers(seen.kyma)
    return rules.removed(seen, left)


def _key_of_catalog_object(change: ObjectChanged) -> Iterable[ObjectKey]:
    """Return the key of the Kyma whose SKR has a changed ModuleTemplate or ModuleReleaseMeta."""
    if change.reference.group == names.GROUP and change.reference.kind in KINDS:
        yield change.key
