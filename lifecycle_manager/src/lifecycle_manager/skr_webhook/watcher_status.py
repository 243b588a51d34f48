"""What became of a Watcher CR: whether it is in force in the clusters, as its own status says it.

Each Kyma notes which Watcher CRs its cluster's webhook was made from, so one look over the cache tells how far a change
has come. The status is written when the word changes, and while a change is on its way no more than once in a while:
ten thousand clusters must not become ten thousand writes of one object.
"""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from kube_runtime import Client, Informer, ObjectKey, Result
from lifecycle_manager.kcp_writes import write_status
from lifecycle_manager.kyma_conditions import BROKEN_AFTER_WORKING as WORKED_BEFORE
from lifecycle_manager.kyma_conditions import WEBHOOK as CONDITION
from lifecycle_manager.resources import WATCHERS
from lifecycle_manager.skr_webhook.documents import manager_of
from lifecycle_manager.skr_webhook.records import WATCHER_RECORD
from lifecycle_manager.skr_webhook.watcher_flaws import flaw_of
from lifecycle_manager_api import Condition, ConditionStatus, Kyma, State, Watcher, WatcherStatus
from lifecycle_manager_api.conditions import find, set_condition

FIELD_MANAGER = "lifecycle-manager-watcher-status"
WATCHERS_MARK = "."
READY = "Ready"
ROLLOUT_SECONDS = 5.0
QUIET_SECONDS = 300.0


@dataclass(frozen=True, eq=False)
class WatcherStatusReconciler:
    """Keeps the status of one Watcher CR. The key is its own."""

    kcp: Client
    watchers: Informer[Watcher]
    kymas: Informer[Kyma]
    clock: Callable[[], datetime]

    async def reconcile(self, key: ObjectKey) -> Result:
        """Say how far a Watcher CR has come. Raises KubeError."""
        watcher = self.watchers.cache.get(key)
        if watcher is None or watcher.metadata.being_deleted:
            return Result()
        status = status_of(watcher, self.watchers.cache.list(), self.kymas.cache.list(), self.clock())
        if status != watcher.status:
            await write_status(self.kcp, WATCHERS, watcher.metadata, status, field_manager=FIELD_MANAGER)
        return Result(requeue_after=ROLLOUT_SECONDS if status.state == State.PROCESSING else QUIET_SECONDS)


def status_of(watcher: Watcher, all_watchers: Iterable[Watcher], kymas: Iterable[Kyma], now: datetime) -> WatcherStatus:
    """Return the status of a Watcher CR."""
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


def watchers_in_force(watchers: Iterable[Watcher]) -> tuple[Watcher, ...]:
    """Return the Watcher CRs that are to be in force: those that are not on their way out and have no flaw."""
    return tuple(each for each in watchers if not each.metadata.being_deleted and flaw_of(each) is None)


def watchers_digest(watchers: Iterable[Watcher]) -> str:
    """Return a short name for what the Watcher CRs say now."""
    said = sorted(
        f"{each.metadata.uid} {each.metadata.generation} {manager_of(each)}" for each in watchers_in_force(watchers)
    )
    return hashlib.blake2b("\n".join(said).encode(), digest_size=6).hexdigest()


def _progress(watcher: Watcher, all_watchers: Iterable[Watcher], kymas: Iterable[Kyma]) -> tuple[State, str, str]:
    """Return the state of a Watcher CR, the reason and a message."""
    if (flaw := flaw_of(watcher)) is not None:
        return State.ERROR, "Invalid", flaw
    digest = watchers_digest(all_watchers)
    reached = [_noted_watchers(kyma) == digest for kyma in kymas if _has_webhook(kyma)]
    if behind := reached.count(False):
        return State.PROCESSING, "RollingOut", f"not in force yet in {behind} of {len(reached)} clusters"
    return State.READY, "InForce", "in force in every cluster"


def _noted_watchers(kyma: Kyma) -> str:
    return kyma.metadata.annotations.get(WATCHER_RECORD, "").partition(WATCHERS_MARK)[2]


def _has_webhook(kyma: Kyma) -> bool:
    condition = find(kyma.status.conditions, CONDITION)
    installed = condition is not None and (condition.status == "True" or condition.reason in WORKED_BEFORE)
    return installed and not kyma.metadata.being_deleted
