"""The controller of the catalogs in the SKRs: triggers, settings, and the state of each Kyma.

Every interval the resource versions of one kind are listed in the SKR, the two kinds in turns. An event about an object
of the catalog has its kind checked at once.
"""

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeGuard

from kube_runtime import Causes, Clock, Controller, Informer, KubeError, Manager, ObjectKey, Priority, Result
from kube_runtime.steps import run_steps
from lifecycle_manager.catalog_sync.apply import CRDS_DIGEST, KymaWrites, Removal, Sync
from lifecycle_manager.catalog_sync.plan import Done, plan_removal, plan_sync
from lifecycle_manager.catalog_sync.record import Record
from lifecycle_manager.catalog_sync.snapshot import RemovalSnapshot, SyncSnapshot
from lifecycle_manager.catalog_sync.status import failed
from lifecycle_manager.catalog_sync.wanted import KINDS, Catalogs
from lifecycle_manager.kyma_changes import kyma_changed
from lifecycle_manager.kyma_conditions import is_event_path_faulty
from lifecycle_manager.module_catalog import Offers
from lifecycle_manager.module_catalog.concerned import watch_offer
from lifecycle_manager.resources import KYMAS
from lifecycle_manager.signals import ClusterReachable, ClusterReplaced, ObjectChanged, ResyncRequested
from lifecycle_manager.skr import AccessSecretMissing, Connections, SkrAccessError
from lifecycle_manager_api import Kyma, names

MAX_SILENT_SECONDS = 30.0
"""The interval while no events arrive from an SKR that should send some."""


@dataclass(frozen=True, slots=True)
class CatalogSettings:
    """The settings of the domain. `purge_after`: see `RemovalSnapshot`."""

    interval_seconds: float = 600.0
    removal_interval_seconds: float = 5.0
    purge_after: timedelta | None = None
    concurrency: int = 20


@dataclass(frozen=True, slots=True)
class KindChanged:
    """Cause: objects of this kind may have changed in the SKR."""

    kind: str


@dataclass(eq=False, slots=True)
class CatalogState:
    """The state of one Kyma.

    - `next_check`: the monotonic time of the next check; None before the first reconcile
    - `next_kind`: the kind that is checked then, as an index of KINDS
    - `suspected`: kinds that may have changed, until they are checked
    """

    next_check: float | None = None
    next_kind: int = 0
    suspected: set[str] = field(default_factory=set)


def setup(
    manager: Manager, connections: Connections, offers: Offers, settings: CatalogSettings
) -> Controller[ObjectKey, CatalogState]:
    """Add the controller of the catalogs; its keys are those of the Kymas."""
    kymas = manager.informer(KYMAS)
    controller: Controller[ObjectKey, CatalogState] = manager.controller(
        "catalog", state=CatalogState, concurrency=settings.concurrency, not_retried=(SkrAccessError,)
    )
    controller.watches(kymas, when=kyma_changed)
    watch_offer(controller, manager, concerns=lambda concerned: concerned.catalogs)
    controller.receives(ClusterReachable, to=_key_of, priority=Priority.CHANGE)
    controller.receives(ObjectChanged, to=_key_of_catalog_object, cause=lambda it: KindChanged(it.reference.kind))
    controller.receives(ClusterReplaced, to=_key_of, priority=Priority.CHANGE)
    controller.receives(ResyncRequested, to=_key_of, priority=Priority.CHANGE)

    reconciler = CatalogReconciler(
        connections,
        kymas,
        offers,
        clock=manager.clock,
        settings=settings,
        writes=KymaWrites(manager.client, kymas, manager.clock.now),
    )
    controller.reconciles(reconciler.reconcile, unforeseen=reconciler.report)
    return controller


@dataclass(frozen=True, eq=False)
class CatalogReconciler:
    """Keeps the catalog of one Kyma."""

    connections: Connections
    kymas: Informer[Kyma]
    offers: Offers
    clock: Clock
    settings: CatalogSettings
    writes: KymaWrites
    catalogs: Catalogs = field(default_factory=Catalogs)

    async def reconcile(self, key: ObjectKey, causes: Causes, state: CatalogState) -> Result:
        """Take the next steps. Raises KubeError or SkrAccessError after the condition shows it."""
        kyma = self.kymas.get(key)
        if kyma is None:
            return Result()
        try:
            done = await (self._remove(kyma) if kyma.metadata.being_deleted else self._sync(kyma, causes, state))
        except (KubeError, SkrAccessError) as error:
            await self.writes.report(self._newest(kyma), failed(error))
            raise
        if done.condition is not None:
            await self.writes.report(self._newest(kyma), done.condition, done.record)
        return Result(requeue_after=done.requeue_after)

    async def report(self, key: ObjectKey, error: Exception) -> None:
        """Report an unforeseen exception. Raises KubeError."""
        kyma = self.kymas.get(key)
        if kyma is not None:
            await self.writes.report(kyma, failed(error))

    async def _sync(self, kyma: Kyma, causes: Causes, state: CatalogState) -> Done:
        state.suspected |= _kinds_in(causes)
        snapshot = self._snapshot(kyma, state)
        first = plan_sync(snapshot)
        if _is_done(first):
            return first
        if not state.suspected and snapshot.record.catalog == snapshot.wanted.digest:
            state.next_kind = (state.next_kind + 1) % len(KINDS)
        async with self.connections.to(kyma.metadata.name) as skr:
            done = await run_steps(snapshot, plan=plan_sync, apply=Sync(skr).apply, is_done=_is_done)
        state.suspected.clear()
        state.next_check = self.clock.monotonic() + snapshot.interval_seconds
        return done

    async def _remove(self, kyma: Kyma) -> Done:
        interval = self.settings.removal_interval_seconds
        snapshot = RemovalSnapshot(kyma, self.clock.now(), self.settings.purge_after, interval)
        first = plan_removal(snapshot)
        if _is_done(first):
            return first
        try:
            async with self.connections.to(kyma.metadata.name) as skr:
                return await run_steps(snapshot, plan=plan_removal, apply=Removal(skr).apply, is_done=_is_done)
        except AccessSecretMissing:
            return Done()

    def _newest(self, kyma: Kyma) -> Kyma:
        """Return the Kyma as others may have written it meanwhile."""
        return self.kymas.get(KYMAS.key_of(kyma)) or kyma

    def _snapshot(self, kyma: Kyma, state: CatalogState) -> SyncSnapshot:
        """Return what is known without the SKR. A new process spreads the first checks over the interval."""
        now, interval = self.clock.monotonic(), self.settings.interval_seconds
        if state.next_check is None:
            state.next_check = now + interval * random.random()  # noqa: S311 - not for cryptography
        return SyncSnapshot(
            kyma=kyma,
            wanted=self.catalogs.for_labels(self.offers.current(), kyma.metadata.labels),
            record=Record.of(kyma),
            crds_digest=CRDS_DIGEST,
            kinds_to_check=tuple(sorted(state.suspected)) or (KINDS[state.next_kind],),
            is_due=bool(state.suspected) or now >= state.next_check,
            seconds_until_due=max(state.next_check - now, 0.0),
            interval_seconds=min(interval, MAX_SILENT_SECONDS) if is_event_path_faulty(kyma) else interval,
        )


def _key_of(signal: ClusterReachable | ClusterReplaced | ResyncRequested) -> Iterable[ObjectKey]:
    return (ObjectKey(names.KCP_NAMESPACE, signal.kyma),)


def _key_of_catalog_object(change: ObjectChanged) -> Iterable[ObjectKey]:
    """Return the key of the Kyma whose SKR has a changed ModuleTemplate or ModuleReleaseMeta."""
    if change.reference.group == names.GROUP and change.reference.kind in KINDS:
        yield ObjectKey(names.KCP_NAMESPACE, change.kyma)


def _kinds_in(causes: Causes) -> set[str]:
    if causes.overflowed or any(isinstance(each, ClusterReplaced | ResyncRequested) for each in causes):
        return set(KINDS)
    return {each.kind for each in causes.of(KindChanged)}


def _is_done(step: object) -> TypeGuard[Done]:
    return isinstance(step, Done)
