"""What the status of a Watcher CR is decided on: all Watcher CRs, and what the Kymas record of them."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from kube_runtime import Clock, Informer, ObjectKey, Request, Snapshot
from lifecycle_manager.watcher_crs.status import route_fault
from lifecycle_manager_api import Condition, Kyma, Watcher


@dataclass(frozen=True, slots=True, kw_only=True)
class WatcherCrSnapshot(Snapshot):
    """A Watcher CR. `fault`: why an Istio gateway, where there is one, does not route its events."""

    watcher: Watcher
    all_watchers: Iterable[Watcher]
    kymas: Iterable[Kyma]
    now: datetime
    fault: Condition | None = None
    is_released: bool = False


@dataclass(frozen=True, eq=False)
class WatcherCrReader:
    watchers: Informer[Watcher]
    kymas: Informer[Kyma]
    clock: Clock
    are_routed: bool

    async def read(self, request: Request[ObjectKey, None]) -> WatcherCrSnapshot | None:
        watcher = self.watchers.get(request.key)
        if watcher is None:
            return None
        return WatcherCrSnapshot(
            watcher=watcher,
            all_watchers=self.watchers.list(),
            kymas=self.kymas.list(),
            now=self.clock.now(),
            fault=route_fault(watcher) if self.are_routed else None,
        )
