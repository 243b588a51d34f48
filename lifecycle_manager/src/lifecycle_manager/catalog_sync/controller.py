"""The controller of the catalogs in the SKRs: its triggers.

A catalog is reconciled when

- the metadata of its Kyma changes, its SKR was read for the first time, its event path breaks or works again, or its
  modules and Watcher are removed
- a ModuleTemplate or ModuleReleaseMeta changes that is in the catalogs: those of all Kymas
- the version of a channel changes: those of its Kymas first, so that one write to the status reports both
- an event reports a change of an object of the catalog: its kind is checked at once, and until that shows it
- its SKR answers again, is replaced by another, or all of it is to be read again
- the interval has passed: the resource versions of one kind are listed, the two kinds in turns

Limits: `CatalogSettings`; `CONCURRENT_WRITES` in apply.py; `MAX_SILENT_SECONDS`, `MAX_HOLD_SECONDS` in snapshot.py;
`MAX_REMEMBERED` in wanted.py.
"""

from collections.abc import Iterable

from kube_runtime import Change, Controller, Manager, ObjectKey, Priority
from lifecycle_manager.catalog_sync.apply import CatalogActions, CatalogReports
from lifecycle_manager.catalog_sync.plan import plan
from lifecycle_manager.catalog_sync.settings import CatalogSettings
from lifecycle_manager.catalog_sync.snapshot import CatalogReader, CatalogState
from lifecycle_manager.catalog_sync.wanted import KINDS
from lifecycle_manager.contract.changes import kyma_changed
from lifecycle_manager.contract.conditions import is_event_path_faulty, is_introduced, watcher_removed
from lifecycle_manager.contract.indexes import BY_CHANNEL, BY_MODULE
from lifecycle_manager.contract.resources import DATED_RELEASE_METAS, KYMAS, DatedReleaseMeta
from lifecycle_manager.contract.signals import ClusterReachable, ClusterReplaced, ObjectChanged, ResyncRequested
from lifecycle_manager.module_catalog import Offers
from lifecycle_manager.module_catalog.affected import is_for_rollouts, kymas_using_release, watch_offer
from lifecycle_manager.skr import Connections, SkrAccessError
from lifecycle_manager_api import names


def setup(
    manager: Manager, connections: Connections, offers: Offers, settings: CatalogSettings
) -> Controller[ObjectKey, CatalogState]:
    """Add the controller of the catalogs; its keys are those of the Kymas."""
    kymas = manager.informer(KYMAS, indexes=(BY_MODULE, BY_CHANNEL))
    controller: Controller[ObjectKey, CatalogState] = manager.controller(
        "catalog", state=CatalogState, concurrency=settings.concurrency, not_retried=(SkrAccessError,)
    )
    controller.watches(kymas, when=kyma_changed(is_introduced, watcher_removed, is_event_path_faulty))
    watch_offer(controller, manager, affects=lambda affected: affected.catalogs)
    controller.watches(
        manager.informer(DATED_RELEASE_METAS),
        to=lambda change: map(KYMAS.key_of, kymas_using_release(change, kymas=kymas)),
        when=channels_changed,
    )
    controller.receives(ClusterReachable, to=_key_of, priority=Priority.CHANGE)
    controller.receives(ObjectChanged, to=_key_of_catalog_object)
    controller.receives(ClusterReplaced, to=_key_of, priority=Priority.CHANGE)
    controller.receives(ResyncRequested, to=_key_of, priority=Priority.CHANGE)

    reader = CatalogReader(
        kymas=kymas,
        offers=offers,
        clock=manager.clock,
        interval_seconds=settings.interval_seconds,
        removal_interval_seconds=settings.removal_interval_seconds,
        purge_after=settings.purge.after,
    )
    reports = CatalogReports(manager, kymas)
    controller.steps(
        read=reader.read,
        plan=plan,
        apply=CatalogActions(connections).apply,
        finish=reports.finish,
        unforeseen=reports.unforeseen,
    )
    return controller


def channels_changed(change: Change[DatedReleaseMeta]) -> bool:
    """Tell whether Kymas get another version at once, as no rollout brings it to them."""
    old, new = change.old, change.new
    if old is None or new is None or is_for_rollouts(change):
        return False
    return old.spec.channels != new.spec.channels


def _key_of(signal: ClusterReachable | ClusterReplaced | ResyncRequested) -> Iterable[ObjectKey]:
    return (ObjectKey(names.KCP_NAMESPACE, signal.kyma),)


def _key_of_catalog_object(change: ObjectChanged) -> Iterable[ObjectKey]:
    """Return the key of the Kyma whose SKR has a changed ModuleTemplate or ModuleReleaseMeta."""
    if change.reference.group == names.GROUP and change.reference.kind in KINDS:
        yield ObjectKey(names.KCP_NAMESPACE, change.kyma)
