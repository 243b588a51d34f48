"""Removes finalizers from Watcher CRs, and writes their status."""

from dataclasses import dataclass, replace

from msgspec.structs import replace as with_fields

from kube_runtime import Client, Informer, ObjectKey, Request, Result
from lifecycle_manager.contract.former import is_former
from lifecycle_manager.contract.resources import WATCHERS
from lifecycle_manager.contract.writes import remove_finalizers, write_status
from lifecycle_manager.watcher_crs.plan import RemoveFormerFinalizers, WatcherCrDone
from lifecycle_manager.watcher_crs.snapshot import WatcherCrSnapshot
from lifecycle_manager.watcher_crs.status import READY
from lifecycle_manager_api import Watcher

FIELD_MANAGER = "lifecycle-manager-watcher-status"


@dataclass(frozen=True, eq=False)
class WatcherCrActions:
    kcp: Client
    watchers: Informer[Watcher]

    async def apply(
        self, _request: Request[ObjectKey, None], seen: WatcherCrSnapshot, _step: RemoveFormerFinalizers
    ) -> WatcherCrSnapshot:
        metadata = seen.watcher.metadata
        await remove_finalizers(self.kcp, self.watchers, metadata, *filter(is_former, metadata.finalizers))
        return replace(seen, is_released=True)

    async def finish(self, _request: Request[ObjectKey, None], seen: WatcherCrSnapshot, end: WatcherCrDone) -> Result:
        """Write the status where it has changed: of the conditions, our own. Raises KubeError."""
        if end.status is not None and end.status != seen.watcher.status:
            ours = tuple(each for each in end.status.conditions if each.type == READY)
            status, metadata = with_fields(end.status, conditions=ours), seen.watcher.metadata
            self.watchers.wrote(await write_status(self.kcp, WATCHERS, metadata, status, field_manager=FIELD_MANAGER))
        return Result(end.requeue_after)
