"""The status of a Watcher CR: whether the webhooks of all SKRs are made from it.

Each Kyma records from which Watcher CRs its SKR's webhook was made, so the cache of Kymas shows the progress of a
change. The status is written when the condition changes, and during a rollout only every few seconds: ten thousand
SKRs must not cause ten thousand writes of one object.
"""

import hashlib
from collections.abc import Iterable
from datetime import datetime

from msgspec.structs import replace

from kube_runtime import Causes, Change, Controller, Manager, ObjectKey, Result
from lifecycle_manager.contract.conditions import VIRTUAL_SERVICE
from lifecycle_manager.contract.resources import KYMAS, WATCHERS
from lifecycle_manager.contract.writes import remove_finalizer, write_status
from lifecycle_manager.skr.watcher import manager_of
from lifecycle_manager.skr_webhook.status import has_webhook
from lifecycle_manager.skr_webhook.watcher_validation import error_of
from lifecycle_manager.takeover import former
from lifecycle_manager_api import Condition, ConditionStatus, Kyma, State, Watcher, WatcherStatus, find
from lifecycle_manager_api.conditions import set_condition

FIELD_MANAGER = "lifecycle-manager-watcher-status"
RECORD_SEPARATOR = "."
"""Between the digest of the objects and that of the Watcher CRs, in the record of both."""

READY = "Ready"
INVALID = "Invalid"
ROLLING_OUT = "RollingOut"
IN_FORCE = "InForce"

SETTLE_SECONDS = 0.2
ROLLOUT_SECONDS = 5.0
INTERVAL_SECONDS = 300.0


def setup_status(manager: Manager, *, are_routed: bool = False) -> Controller[ObjectKey, None]:
    """Keep the status of each Watcher CR, on one replica. `are_routed`: their conditions say how, and count too."""
    watchers, kymas = manager.informer(WATCHERS), manager.informer(KYMAS)
    controller: Controller[ObjectKey, None] = manager.controller(
        "watcher-status", owner=lambda key: f"Watcher {key.name}", concurrency=1
    )

    def all_watchers(_: Change[Watcher]) -> Iterable[ObjectKey]:
        return map(WATCHERS.key_of, watchers.list())

    async def reconcile(key: ObjectKey, _causes: Causes, _state: None) -> Result:
        """Write the status where it has changed. Raises KubeError."""
        watcher = watchers.get(key)
        if watcher is None:
            return Result()
        if watcher.metadata.being_deleted:
            await remove_finalizer(manager.client, WATCHERS, watcher.metadata, *former.WATCHER_FINALIZERS)
            return Result()
        status = status_of(watcher, watchers.list(), kymas.list(), manager.clock.now(), are_routed=are_routed)
        if status != watcher.status:
            own = replace(status, conditions=tuple(each for each in status.conditions if each.type == READY))
            written = await write_status(manager.client, WATCHERS, watcher.metadata, own, field_manager=FIELD_MANAGER)
            watchers.wrote(written)
        return Result(requeue_after=ROLLOUT_SECONDS if status.state == State.PROCESSING else INTERVAL_SECONDS)

    controller.watches(watchers, to=all_watchers, when=watches_other, after=SETTLE_SECONDS)
    if are_routed:
        controller.watches(watchers, when=route_changed)
    controller.starts_with(lambda: map(WATCHERS.key_of, watchers.list()))
    controller.reconciles(reconcile)
    return controller


def watches_other(change: Change[Watcher]) -> bool:
    """Tell whether a Watcher CR was created or deleted, or more than its status has changed."""
    old, new = change.old, change.new
    return (
        old is None
        or new is None
        or old.spec != new.spec
        or old.metadata.labels != new.metadata.labels
        or old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
    )


def route_changed(change: Change[Watcher]) -> bool:
    """Tell whether the condition of the routes has changed."""
    old, new = change.old, change.new
    return old is not None and new is not None and _fault_of_the_route(old) != _fault_of_the_route(new)


def status_of(
    watcher: Watcher,
    all_watchers: Iterable[Watcher],
    kymas: Iterable[Kyma],
    now: datetime,
    *,
    are_routed: bool = False,
) -> WatcherStatus:
    """Return the status of a Watcher CR."""
    fault = _fault_of_the_route(watcher) if are_routed else None
    if fault is not None and error_of(watcher) is None:
        state, reason, message = State.ERROR, fault.reason, fault.message
    else:
        state, reason, message = _progress(watcher, all_watchers, kymas)
    status: ConditionStatus = "True" if state == State.READY else "False"
    condition = Condition(
        type=READY, status=status, reason=reason, message=message, observed_generation=watcher.metadata.generation
    )
    return WatcherStatus(
        state=state,
        conditions=set_condition(watcher.status.conditions, condition, now),
        observed_generation=watcher.metadata.generation,
    )


def valid_watchers(watchers: Iterable[Watcher]) -> tuple[Watcher, ...]:
    """Return the Watcher CRs that webhooks are made from: the valid ones that are not being deleted."""
    return tuple(each for each in watchers if not each.metadata.being_deleted and error_of(each) is None)


def watchers_digest(watchers: Iterable[Watcher]) -> str:
    """Return a digest of the Watcher CRs that webhooks are made from."""
    lines = sorted(
        f"{each.metadata.uid} {each.metadata.generation} {manager_of(each)}" for each in valid_watchers(watchers)
    )
    return hashlib.blake2b("\n".join(lines).encode(), digest_size=6).hexdigest()


def _progress(watcher: Watcher, all_watchers: Iterable[Watcher], kymas: Iterable[Kyma]) -> tuple[State, str, str]:
    """Return the state of a Watcher CR, the reason and a message."""
    if (error := error_of(watcher)) is not None:
        return State.ERROR, INVALID, error
    digest = watchers_digest(all_watchers)
    reached = [
        _recorded_watchers(kyma) == digest for kyma in kymas if has_webhook(kyma) and not kyma.metadata.being_deleted
    ]
    if behind := reached.count(False):
        return State.PROCESSING, ROLLING_OUT, f"not in force yet in {behind} of {len(reached)} clusters"
    return State.READY, IN_FORCE, "in force in every cluster"


def _fault_of_the_route(watcher: Watcher) -> Condition | None:
    condition = find(watcher.status.conditions, VIRTUAL_SERVICE)
    return condition if condition is not None and condition.status == "False" else None


def _recorded_watchers(kyma: Kyma) -> str:
    return kyma.status.records.watcher.partition(RECORD_SEPARATOR)[2]
