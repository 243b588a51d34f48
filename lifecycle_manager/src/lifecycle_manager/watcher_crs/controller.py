"""The controller `watcher-status`. Each Watcher CR is reconciled, by one replica,

- when any Watcher CR is created or deleted, or changes in more than its status: one digest of all is recorded
- with an Istio gateway, when its condition `VirtualService` begins or ends a fault
- after INTERVAL_SECONDS, or ROLLOUT_SECONDS while SKRs do not have the change yet: ten thousand SKRs must not cause
  ten thousand writes of one object
"""

from collections.abc import Iterable

from kube_runtime import Change, Controller, Manager, ObjectKey
from lifecycle_manager.contract.resources import KYMAS, WATCHERS
from lifecycle_manager.contract.watchers import watcher_changed
from lifecycle_manager.watcher_crs.apply import WatcherCrActions
from lifecycle_manager.watcher_crs.plan import plan
from lifecycle_manager.watcher_crs.snapshot import WatcherCrReader
from lifecycle_manager.watcher_crs.status import route_fault
from lifecycle_manager_api import Watcher

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
    reader = WatcherCrReader(watchers, manager.informer(KYMAS), manager.clock, are_routed=are_routed)
    actions = WatcherCrActions(manager.client, watchers)
    controller.steps(read=reader.read, plan=plan, apply=actions.apply, finish=actions.finish)
    return controller


def route_fault_changed(change: Change[Watcher]) -> bool:
    old, new = change.old, change.new
    return old is not None and new is not None and route_fault(old) != route_fault(new)
