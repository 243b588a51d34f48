"""Ties observe, plan and act to the key of one Kyma."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from kube_runtime import Client, Informer, KubeError, ObjectKey, Result, dump_yaml
from lifecycle_manager.kyma.act import act_in_kcp, act_in_skr
from lifecycle_manager.kyma.observe import SkrView, Snapshot, observe_skr
from lifecycle_manager.kyma.plan import CreateSkrKyma, Plan, plan
from lifecycle_manager.kyma.resolution import Catalog
from lifecycle_manager.resources import KYMAS
from lifecycle_manager.skr import (
    Announcements,
    Connections,
    ObjectReference,
    SkrAccessError,
    SkrFailure,
    failure_of,
)
from lifecycle_manager.skr.announcement import Seen
from lifecycle_manager.skr.event_path import interval_for
from lifecycle_manager_api import (
    Kyma,
    ModuleConfig,
    ModuleReleaseMeta,
    ModuleTemplate,
    SyncResource,
    crds,
    names,
)

SKR_KYMA = ObjectReference(KYMAS.group, KYMAS.kind, names.SKR_NAMESPACE, names.DEFAULT_KYMA_NAME)


def now_in_seconds() -> datetime:
    """Return the time as Kubernetes writes it: UTC, whole seconds."""
    return datetime.now(UTC).replace(microsecond=0)


@dataclass(eq=False)
class KymaReconciler:
    """Brings one Kyma to where its cluster's users want it. The key is that of the Kyma in KCP."""

    kcp: Client
    connections: Connections
    kymas: Informer[Kyma]
    templates: Informer[ModuleTemplate]
    releases: Informer[ModuleReleaseMeta]
    module_configs: Informer[ModuleConfig]
    sync_resources: Informer[SyncResource]
    requeue_seconds: float = 30.0
    clock: Callable[[], datetime] = now_in_seconds
    announcements: Announcements[ObjectKey] = field(default_factory=Announcements)
    kyma_crd_text: str = field(default_factory=lambda: dump_yaml(crds.crd_for(Kyma)))
    crd_hash: str = field(init=False)

    def __post_init__(self) -> None:
        self.crd_hash = hashlib.sha256(self.kyma_crd_text.encode()).hexdigest()[:16]

    async def reconcile(self, key: ObjectKey) -> Result:
        """Do what this Kyma needs next. Raises KubeError or SkrAccessError after its status says so."""
        kyma = self.kymas.cache.get(key)
        if kyma is None:
            self.announcements.forget(key)
            return Result()
        try:
            decided, again = await self._reconcile_in_skr(key, kyma)
        except (KubeError, SkrAccessError) as error:
            decided = plan(self._snapshot(kyma, failure_of(error)))
            await act_in_kcp(self.kcp, kyma, decided.in_kcp)
            raise
        await act_in_kcp(self.kcp, kyma, decided.in_kcp)
        if any(isinstance(action, CreateSkrKyma) for action in decided.in_skr):
            again = 0.0
        return Result(requeue_after=interval_for(kyma, self.requeue_seconds) if again is None else again)

    async def _reconcile_in_skr(self, key: ObjectKey, kyma: Kyma) -> tuple[Plan, float | None]:
        async with self.connections.to(kyma.metadata.name) as skr:
            pending = self.announcements.of(key)
            view = await observe_skr(skr)
            again = self.announcements.settle(key, dict.fromkeys(pending, _seen(view)))
            decided = plan(self._snapshot(kyma, view))
            await act_in_skr(skr, view.kyma, decided.in_skr, self.kyma_crd_text)
            return decided, again

    def _snapshot(self, kyma: Kyma, skr: SkrView | SkrFailure) -> Snapshot:
        name = kyma.metadata.name
        return Snapshot(
            now=self.clock(),
            kyma=kyma,
            catalog=Catalog.of(self.templates.cache.list(), self.releases.cache.list()),
            skr=skr,
            crd_hash=self.crd_hash,
            module_configs=tuple(self.module_configs.cache.by_index("kyma", name)),
            sync_resources=tuple(self.sync_resources.cache.by_index("kyma", name)),
        )


def _seen(view: SkrView) -> Seen:
    if view.kyma is None:
        return Seen()
    metadata = view.kyma.metadata
    return Seen(metadata.uid, metadata.resource_version or "", metadata.deletion_timestamp is not None)
