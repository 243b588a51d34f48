"""The controller `watcher-status`. Each Watcher CR is reconciled, by one replica,

- when any Watcher CR is created or deleted, or changes in more than its status: one digest of all is recorded
- with an Istio gateway, when its condition `VirtualService` begins or ends a fault
- after INTERVAL_SECONDS, or ROLLOUT_SECONDS while SKRs do not have the change yet: ten thousand SKRs must not cause
  ten thousand writes of one object
"""

from collections.abc import Iterable
from dataclasses import dataclass

from msgspec import structs

from kube_runtime import Causes, Change, Client, Clock, Controller, Informer, Manager, ObjectKey, Result
from lifecycle_manager.contract.resources import KYMAS, WATCHERS
from lifecycle_manager.contract.watchers import watcher_changed
from lifecycle_manager.contract.writes import remove_finalizers, write_status
from lifecycle_manager.watcher_crs.rules import former_finalizers, seconds_after
from lifecycle_manager.watcher_crs.status import READY, route_fault, status_of
from lifecycle_manager_api import Kyma, Watcher

FIELD_MANAGER = "lifecycle-manager-watcher-status"
SETTLE_SECONDS = 0.2


def setup(manager: Manager, *, are_routed: bool = False) -> Controller[ObjectKey, None]:
    """Keep the status of each Watcher CR. `are_routed`: their conditions say how, and count too."""
    watchers = manager.informer(WATCHERS)
    controller: Controller[ObjectKey, None] = manager.controller(
        "watcher-status", owner=lambda key: f"Watcher {key.name}", concurrency=1
    )

    def all_watchers(_: object = None) -> Iterable[ObjectKey]:
        return map(WATCHERS.key_of, watchers.list())

    controller.watches(watchers, to=all_watchers, when=watcher_changed, after=SETTLE_SECONDS)
    if are_routed:
        controller.watches(watchers, when=route_fault_changed)
    controller.starts_with(all_watchers)
    statuses = WatcherStatuses(manager.client, watchers, manager.informer(KYMAS), manager.clock, are_routed)
    controller.reconciles(statuses.reconcile)
    return controller


def route_fault_changed(change: Change[Watcher]) -> bool:
    old, new = change.old, change.new
    return old is not None and new is not None and route_fault(old) != route_fault(new)


@dataclass(frozen=True, eq=False)
class WatcherStatuses:
    kcp: Client
    watchers: Informer[Watcher]
    kymas: Informer[Kyma]
    clock: Clock
    are_routed: bool

    async def reconcile(self, key: ObjectKey, _causes: Causes, _state: None) -> Result:
        """Write the status where it has changed: of the conditions, our own. Raises KubeError."""
        watcher = self.watchers.get(key)
        if watcher is None:
            return Result()
        metadata = watcher.metadata
        if metadata.being_deleted:
            await remove_finalizers(self.kcp, self.watchers, metadata, *former_finalizers(metadata))
            return Result()
        fault = route_fault(watcher) if self.are_routed else None
        status = status_of(watcher, self.watchers.list(), self.kymas.list(), self.clock.now(), fault=fault)
        if status != watcher.status:
            ours = structs.replace(status, conditions=tuple(each for each in status.conditions if each.type == READY))
            self.watchers.wrote(await write_status(self.kcp, WATCHERS, metadata, ours, field_manager=FIELD_MANAGER))
        return Result(seconds_after(status))
