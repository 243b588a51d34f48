"""What the status of a Watcher CR is decided on: all Watcher CRs, and what the Kymas record of them."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from kube_runtime import Clock, Informer, ObjectKey, Request, Snapshot
from lifecycle_manager_api import Kyma, Watcher


@dataclass(frozen=True, slots=True, kw_only=True)
class WatcherCrSnapshot(Snapshot):
    """A Watcher CR. `are_routed`: an Istio gateway routes events, and the conditions of Watcher CRs say how."""

    watcher: Watcher
    all_watchers: Iterable[Watcher]
    kymas: Iterable[Kyma]
    now: datetime
    are_routed: bool = False
    is_released: bool = False


@dataclass(frozen=True, eq=False)
class WatcherCrReader:
    """Reads the caches."""

    watchers: Informer[Watcher]
    kymas: Informer[Kyma]
    clock: Clock
    are_routed: bool

    async def read(self, request: Request[ObjectKey, None]) -> WatcherCrSnapshot | None:
        """Return the snapshot of a Watcher CR, None where it does not exist."""
        watcher = self.watchers.get(request.key)
        if watcher is None:
            return None
        return WatcherCrSnapshot(
            watcher=watcher,
            all_watchers=self.watchers.list(),
            kymas=self.kymas.list(),
            now=self.clock.now(),
            are_routed=self.are_routed,
        )
