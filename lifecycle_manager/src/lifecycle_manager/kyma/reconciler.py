"""Ties observe, plan and act to the key of one Kyma."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime

from kube_runtime import ApiError, Client, EventRecorder, Informer, JsonObject, KubeError, ObjectKey, Result
from lifecycle_manager.kyma.act import KcpActions, SkrActions
from lifecycle_manager.kyma.definition import KymaDefinitions
from lifecycle_manager.kyma.observe import Patience, SkrView, Snapshot, observe_skr
from lifecycle_manager.kyma.plan import CreateSkrKyma, ModuleAction, Plan, plan
from lifecycle_manager.kyma_conditions import interval_for
from lifecycle_manager.module_catalog import Offers
from lifecycle_manager.resources import KYMAS
from lifecycle_manager.rollout.schedule import Schedule
from lifecycle_manager.skr import (
    Announcements,
    ClusterClaimed,
    Connections,
    ObjectReference,
    SkrAccessError,
    SkrFailure,
    failure_of,
)
from lifecycle_manager.skr.announcement import Seen
from lifecycle_manager_api import Kyma, Manifest, ModuleConfig, SyncResource, names

SOON_AT_MOST = 3
"""How often in a row the outcome is looked at at once. A cluster that undoes it each time has to wait after that."""

UNDONE_SECONDS = 5.0
SKR_KYMA = ObjectReference(KYMAS.group, KYMAS.kind, names.SKR_NAMESPACE, names.DEFAULT_KYMA_NAME)


@dataclass(eq=False)
class KymaReconciler:
    """Brings one Kyma to where its cluster's users want it. The key is that of the Kyma in KCP.

    `manifests`, `module_configs` and `sync_resources` need the index `kyma`. A Kyma that nothing tells of is
    looked at after `interval_seconds`, one that is being deleted after `leaving_seconds`. `on_new_cluster` is told of
    Kymas whose cluster had no Kyma CR: a new one, or one that has lost what was there.
    """

    kcp: Client
    connections: Connections
    kymas: Informer[Kyma]
    offers: Offers
    manifests: Informer[Manifest]
    module_configs: Informer[ModuleConfig]
    sync_resources: Informer[SyncResource]
    kyma_definitions: Informer[JsonObject]
    schedule: Schedule
    events: EventRecorder
    interval_seconds: float = 30.0
    leaving_seconds: float = 5.0
    patience: Patience = field(default_factory=Patience)
    announcements: Announcements[ObjectKey] = field(default_factory=Announcements)
    on_new_cluster: Callable[[ObjectKey], None] = lambda _: None
    definitions: KymaDefinitions = field(init=False)
    _in_a_row: dict[ObjectKey, int] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.definitions = KymaDefinitions(self.kyma_definitions)

    async def reconcile(self, key: ObjectKey) -> Result:
        """Do what this Kyma needs next. Raises KubeError after its status says so.

        What is wrong with the access to its cluster is no error here: whoever mends it wakes the key.
        """
        kyma = self.kymas.cache.get(key)
        if kyma is None:
            self.announcements.forget(key)
            self._in_a_row.pop(key, None)
            return Result()
        if kyma.metadata.labels.get(names.SKIP_RECONCILIATION) == "true" and not kyma.metadata.being_deleted:
            return Result()  # hands off, its cluster too
        try:
            decided, unseen = await self._reconcile_in_skr(key, kyma)
        except (KubeError, SkrAccessError) as error:
            snapshot = self._snapshot(kyma, failure_of(error))
            decided = plan(snapshot)
            await KcpActions(self.kcp, kyma, self.events).carry_out(decided.in_kcp)
            if isinstance(error, KubeError):
                raise
            if isinstance(error, ClusterClaimed):
                return Result(self.interval_seconds)  # nothing tells when the other Kyma lets go
            return Result(_seconds_until(decided.again, snapshot.timing.now))
        await KcpActions(self.kcp, kyma, self.events).carry_out(decided.in_kcp)
        return self._again(key, kyma, decided, unseen)

    async def _reconcile_in_skr(self, key: ObjectKey, kyma: Kyma) -> tuple[Plan, float | None]:
        """Act in the cluster; return the plan, and when to read again for a change that was announced and not seen."""
        async with self.connections.to(kyma.metadata.name) as skr:
            pending = self.announcements.of(key)
            view = await observe_skr(skr, leaving=kyma.metadata.being_deleted)
            self._raise_if_claimed(kyma, view)
            unseen = self.announcements.settle(key, dict.fromkeys(pending, _seen(view)))
            definition = self.definitions.current()
            decided = plan(self._snapshot(kyma, view, definition.digest))
            try:
                await SkrActions(skr, view.kyma, definition.document, self.events).carry_out(decided.in_skr)
            except ApiError:
                await self._go_on_with_modules(kyma, decided)
                raise
            created = any(isinstance(action, CreateSkrKyma) for action in decided.in_skr)
            if created and self._in_a_row.get(key, 0) < SOON_AT_MOST:
                self.on_new_cluster(key)
            return decided, unseen

    async def _go_on_with_modules(self, kyma: Kyma, decided: Plan) -> None:
        """Have modules changed as planned, although the cluster refused what users are to see of it."""
        changes = [action for action in decided.in_kcp if isinstance(action, ModuleAction)]
        with suppress(ApiError):  # told in an Event, and tried again with the rest
            await KcpActions(self.kcp, kyma, self.events).carry_out(changes)

    def _raise_if_claimed(self, kyma: Kyma, view: SkrView) -> None:
        """Keep away from a cluster whose CR bears the name of another Kyma that leads there; users can't forge both."""
        annotations = view.kyma.metadata.annotations if view.kyma is not None else {}
        owner = annotations.get(names.OWNED_BY) or annotations.get(names.DEPRECATED_OWNED_BY, "")
        namespace, _, name = owner.partition("/")
        if name == kyma.metadata.name or ObjectKey(namespace, name) not in self.kymas.cache:
            return
        if self.connections.lead_to_the_same_cluster(kyma.metadata.name, name):
            raise ClusterClaimed(kyma.metadata.name, name)

    def _again(self, key: ObjectKey, kyma: Kyma, decided: Plan, unseen: float | None) -> Result:
        if decided.soon:
            self._in_a_row[key] = self._in_a_row.get(key, 0) + 1
            return Result(requeue_after=0.0 if self._in_a_row[key] <= SOON_AT_MOST else UNDONE_SECONDS)
        self._in_a_row.pop(key, None)
        leaving = kyma.metadata.being_deleted
        seconds = self.leaving_seconds if leaving else interval_for(kyma, self.interval_seconds)
        by_clock = _seconds_until(decided.again, self.schedule.clock())
        return Result(requeue_after=min(each for each in (seconds, by_clock, unseen) if each is not None))

    def _snapshot(self, kyma: Kyma, skr: SkrView | SkrFailure, crd_hash: str = "") -> Snapshot:
        name = kyma.metadata.name
        return Snapshot(
            timing=self.schedule.timing(),
            kyma=kyma,
            offer=self.offers.current(),
            skr=skr,
            crd_hash=crd_hash,
            manifests=self.manifests.cache.by_index("kyma", name),
            module_configs=self.module_configs.cache.by_index("kyma", name),
            sync_resources=self.sync_resources.cache.by_index("kyma", name),
            patience=self.patience,
        )


def _seconds_until(when: datetime | None, now: datetime) -> float | None:
    return max((when - now).total_seconds(), 0.0) if when is not None else None


def _seen(view: SkrView) -> Seen:
    if view.kyma is None:
        return Seen()
    metadata = view.kyma.metadata
    return Seen(metadata.uid, metadata.resource_version or "", metadata.being_deleted)
