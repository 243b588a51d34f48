"""The status of a Kyma, from one snapshot: its conditions, and the state aggregated from all its parts."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from lifecycle_manager.kyma import reasons
from lifecycle_manager.kyma.limits import shown
from lifecycle_manager.kyma.module_status import module_status, removed_module
from lifecycle_manager.kyma.snapshot import Snapshot
from lifecycle_manager.kyma.wanted import Wanted, chosen_manifests
from lifecycle_manager.kyma_conditions import (
    BROKEN_AFTER_WORKING,
    CATALOG,
    CATALOG_SYNC_FAILED,
    MODULES,
    MODULES_REMOVED,
    REACHABLE,
    WEBHOOK,
)
from lifecycle_manager.module_catalog import module_of_manifest
from lifecycle_manager.skr import SkrFailure
from lifecycle_manager_api import Condition, Kyma, KymaModuleStatus, KymaStatus, State, aggregate
from lifecycle_manager_api.conditions import NewCondition, find, last_operation, set_conditions

READY = "Ready"
OWN_CONDITIONS = frozenset({READY, MODULES, REACHABLE})
"""The others belong to other domains, each of which writes its own as a field manager of its own."""

_FAULTS = BROKEN_AFTER_WORKING | {CATALOG_SYNC_FAILED}
"""Reasons of other domains' conditions that make the Kyma a Warning."""
_FOR_EVER = timedelta(days=36_500)


def status_of(snapshot: Snapshot, wanted: Wanted) -> KymaStatus:
    """Return the status of a Kyma whose SKR was read. Conditions of other domains stay as they are."""
    kyma = snapshot.kyma
    modules = (
        *(module_status(snapshot, module) for module in wanted.modules),
        *(removed_module(snapshot, manifest) for manifest in wanted.removed),
    )
    others = tuple(_other_domains(kyma.status.conditions))
    state = aggregate([*(module.state for module in modules), *(state for state, _ in others)])
    modules_ready, summary = _summary(modules, wanted.ignored)
    message = "; ".join(why for _, why in others) if modules_ready and others else summary
    reason = reasons.READY if state is State.READY else f"State{state.value}"
    return _finish(
        snapshot.kyma,
        snapshot.timing.now,
        state=state,
        modules=shown(modules),
        active_channel=_active_channel(snapshot),
        conditions=(
            (REACHABLE, "True", reasons.REACHABLE, "the cluster answers"),
            (
                MODULES,
                "True" if modules_ready else "False",
                reasons.MODULES_READY if modules_ready else reasons.MODULES_NOT_READY,
                summary,
            ),
            (READY, "True" if state is State.READY else "False", reason, message),
        ),
        operation=f"kyma is {state.value.lower()}: {message}",
    )


def failed_status(snapshot: Snapshot, failure: SkrFailure) -> KymaStatus:
    """Return the status of a Kyma whose SKR could not be read: the last known states of its modules stay.

    An SKR that does not answer makes the Kyma an Error after some time only.
    """
    kyma = snapshot.kyma
    state = State.ERROR if _failing_for(snapshot, failure) >= snapshot.patience.unreachable else kyma.status.state
    return _finish(
        snapshot.kyma,
        snapshot.timing.now,
        state=state or State.PROCESSING,
        conditions=(
            (REACHABLE, "False", failure.reason, failure.message),
            (READY, "False", failure.reason, failure.message),
        ),
        operation=failure.message,
    )


def internal_error_status(kyma: Kyma, failure: SkrFailure, now: datetime) -> KymaStatus:
    """Return the status after an exception that nothing foresaw: only `Ready` and the state change."""
    return _finish(
        kyma,
        now,
        state=State.DELETING if kyma.metadata.being_deleted else State.ERROR,
        conditions=((READY, "False", failure.reason, failure.message),),
        operation=failure.message,
    )


def deleting_status(snapshot: Snapshot, waits: Sequence[str], *, modules_removed: bool) -> KymaStatus:
    """Return the status of a Kyma that is being deleted, with what it waits for.

    Modules are listed as long as their Manifests exist.
    """
    message = "waits for " + ", ".join(waits)
    stuck_at = snapshot.deletion_plus(snapshot.patience.deletion)
    stuck = stuck_at is not None and stuck_at <= snapshot.timing.now
    removed: NewCondition = (MODULES, "False", MODULES_REMOVED, "all modules are removed")
    removing: NewCondition = (MODULES, "False", reasons.REMOVING, message)
    known = {module_of_manifest(each): each for each in chosen_manifests(snapshot)}
    return _finish(
        snapshot.kyma,
        snapshot.timing.now,
        state=State.WARNING if stuck else State.DELETING,
        modules=tuple(removed_module(snapshot, manifest) for _, manifest in sorted(known.items())),
        conditions=(
            removed if modules_removed else removing,
            (READY, "False", reasons.DELETION_STUCK if stuck else reasons.DELETING, message),
        ),
        operation=message,
    )


def for_skr(status: KymaStatus, skr_kyma: Kyma) -> KymaStatus:
    """Return the same status for the Kyma CR in the SKR, with the generations of that object."""
    generation = skr_kyma.metadata.generation
    return msgspec.structs.replace(
        status,
        observed_generation=generation,
        conditions=tuple(
            msgspec.structs.replace(condition, observed_generation=generation) for condition in status.conditions
        ),
    )


def grace_left(snapshot: Snapshot, failure: SkrFailure) -> timedelta:
    """Return how long until an unreachable SKR makes its Kyma an Error."""
    return max(snapshot.patience.unreachable - _failing_for(snapshot, failure), timedelta(0))


def _failing_for(snapshot: Snapshot, failure: SkrFailure) -> timedelta:
    """Return how long a failure has lasted; one that needs a person counts as endless at once."""
    if not failure.may_pass:
        return _FOR_EVER
    known = find(snapshot.kyma.status.conditions, REACHABLE)
    if known is None or known.status == "True" or known.last_transition_time is None:
        return timedelta(0)
    return snapshot.timing.now - known.last_transition_time


def _active_channel(snapshot: Snapshot) -> str:
    skr_kyma = None if isinstance(snapshot.skr, SkrFailure) else snapshot.skr.kyma
    return (skr_kyma or snapshot.kyma).spec.channel


def _other_domains(conditions: Sequence[Condition]) -> Iterator[tuple[State, str]]:
    """Return the states of the Watcher and of the module catalog where they are not ready, and why they are not."""
    for kind, part in ((WEBHOOK, "the Watcher"), (CATALOG, "the module catalog")):
        condition = find(conditions, kind)
        if condition is None:
            yield State.PROCESSING, f"waits for {part}"
        elif condition.status != "True":
            yield State.WARNING if condition.reason in _FAULTS else State.PROCESSING, condition.message


def _summary(modules: Sequence[KymaModuleStatus], ignored: int) -> tuple[bool, str]:
    waiting = [module for module in modules if module.state not in {State.READY, State.UNMANAGED}]
    if not waiting:
        return True, f"{len(modules)} of {len(modules)} modules are ready"
    details = "; ".join(f"{module.name} is {module.state.value}: {module.message}" for module in waiting)
    return False, f"{len(modules) - len(waiting)} of {len(modules) + ignored} modules are ready; {details}"


def _finish(
    kyma: Kyma,
    now: datetime,
    *,
    state: State,
    conditions: Iterable[NewCondition],
    operation: str,
    **changes: Any,
) -> KymaStatus:
    """Return the status of before with its changes."""
    before, generation, now = kyma.status, kyma.metadata.generation, now.replace(microsecond=0)
    return msgspec.structs.replace(
        before,
        state=state,
        conditions=set_conditions(before.conditions, conditions, generation, now),
        observed_generation=generation,
        last_operation=last_operation(before.last_operation, operation, now),
        **changes,
    )
