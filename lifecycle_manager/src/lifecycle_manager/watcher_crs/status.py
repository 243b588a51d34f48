"""The status of a Watcher CR: whether the webhooks of all SKRs are made from it.

Each Kyma records from which Watcher CRs its SKR's webhook was made, so the cache of Kymas shows the progress of a
change.
"""

from collections.abc import Iterable
from datetime import datetime

from lifecycle_manager.contract.conditions import VIRTUAL_SERVICE, has_webhook
from lifecycle_manager.contract.watchers import error_of, recorded_watchers, watchers_digest
from lifecycle_manager_api import Condition, ConditionStatus, Kyma, State, Watcher, WatcherStatus, find, set_condition

READY = "Ready"
INVALID = "Invalid"
ROLLING_OUT = "RollingOut"
IN_FORCE = "InForce"


def status_of(
    watcher: Watcher,
    all_watchers: Iterable[Watcher],
    kymas: Iterable[Kyma],
    now: datetime,
    *,
    fault: Condition | None = None,
) -> WatcherStatus:
    state, reason, message = _progress(watcher, all_watchers, kymas, fault=fault)
    status: ConditionStatus = "True" if state == State.READY else "False"
    generation = watcher.metadata.generation
    condition = Condition(type=READY, status=status, reason=reason, message=message, observed_generation=generation)
    conditions = set_condition(watcher.status.conditions, condition, now)
    return WatcherStatus(state=state, conditions=conditions, observed_generation=generation)


def route_fault(watcher: Watcher) -> Condition | None:
    """Return the condition with the reason why events of a Watcher CR are not routed, or None."""
    condition = find(watcher.status.conditions, VIRTUAL_SERVICE)
    return condition if condition is not None and condition.status == "False" else None


def _progress(
    watcher: Watcher, all_watchers: Iterable[Watcher], kymas: Iterable[Kyma], *, fault: Condition | None
) -> tuple[State, str, str]:
    if (error := error_of(watcher)) is not None:
        return State.ERROR, INVALID, error
    if fault is not None:
        return State.ERROR, fault.reason, fault.message
    digest = watchers_digest(all_watchers)
    reached = [
        recorded_watchers(kyma) == digest for kyma in kymas if has_webhook(kyma) and not kyma.metadata.being_deleted
    ]
    if behind := reached.count(False):
        return State.PROCESSING, ROLLING_OUT, f"not in force yet in {behind} of {len(reached)} clusters"
    return State.READY, IN_FORCE, "in force in every cluster"
