"""The status of a Kyma, from one snapshot: its conditions, and what the states of all parts add up to."""

from collections.abc import Iterable, Sequence
from datetime import timedelta

import msgspec

from lifecycle_manager.kyma.bounds import shown
from lifecycle_manager.kyma.module_status import leaving_module, module_status
from lifecycle_manager.kyma.observe import Snapshot
from lifecycle_manager.kyma.wanted import Wanted, chosen_manifests
from lifecycle_manager.kyma_conditions import BROKEN_AFTER_WORKING as WORKED_BEFORE
from lifecycle_manager.kyma_conditions import CATALOG as CATALOG_CONDITION
from lifecycle_manager.kyma_conditions import CATALOG_SYNC_FAILED as CATALOG_FAILED
from lifecycle_manager.kyma_conditions import MODULES, MODULES_REMOVED
from lifecycle_manager.kyma_conditions import WEBHOOK as WEBHOOK_CONDITION
from lifecycle_manager.module_catalog import module_of_manifest
from lifecycle_manager.skr import SkrFailure
from lifecycle_manager_api import (
    Condition,
    Kyma,
    KymaModuleStatus,
    KymaStatus,
    State,
    aggregate,
)
from lifecycle_manager_api.conditions import Said, find, last_operation, set_conditions

READY = "Ready"
REACHABLE = "SKRReachable"
_FOR_EVER = timedelta(days=36_500)
OWN_CONDITIONS = frozenset({READY, MODULES, REACHABLE})


def status_of(snapshot: Snapshot, wanted: Wanted) -> KymaStatus:
    """Return the status of a Kyma whose cluster was read. Conditions of other controllers are kept as they are."""
    kyma = snapshot.kyma
    modules = (
        *(module_status(snapshot, module) for module in wanted.modules),
        *(leaving_module(snapshot, manifest) for manifest in wanted.leaving),
    )
    others = tuple(_states_of_others(kyma.status.conditions))
    state = aggregate([*(module.state for module in modules), *others])
    modules_ready, summary = _summary(modules, wanted.unheeded)
    message = summary
    if modules_ready and (waiting := _what_others_say(kyma.status.conditions)):
        message = waiting
    reason = READY if state is State.READY else f"State{state.value}"
    return _finish(
        snapshot,
        state=state,
        modules=shown(modules),
        active_channel=_active_channel(snapshot),
        said=(
            (REACHABLE, "True", "Reachable", "the cluster answers"),
            (
                MODULES,
                "True" if modules_ready else "False",
                "ModulesReady" if modules_ready else "ModulesNotReady",
                summary,
            ),
            (READY, "True" if state is State.READY else "False", reason, message),
        ),
        operation=f"kyma is {state.value.lower()}: {message}",
    )


def failed_status(snapshot: Snapshot, failure: SkrFailure) -> KymaStatus:
    """Return the status of a Kyma whose cluster could not be read: the last known states of its modules are kept.

    One that only gives no answer is given some time before that makes the Kyma an Error.
    """
    kyma = snapshot.kyma
    state = State.ERROR if _failing_for(snapshot, failure) >= snapshot.patience.unreachable else kyma.status.state
    return _finish(
        snapshot,
        state=state or State.PROCESSING,
        modules=kyma.status.modules,
        active_channel=kyma.status.active_channel,
        said=(
            (REACHABLE, "False", failure.reason, failure.message),
            (READY, "False", failure.reason, failure.message),
        ),
        operation=failure.message,
    )


def deleting_status(snapshot: Snapshot, waits: Sequence[str], *, modules_gone: bool) -> KymaStatus:
    """Return the status of a Kyma that is being deleted, naming what it waits for.

    Modules are listed as long as their Manifests are there: what else there is of them goes when they have gone.
    """
    kyma = snapshot.kyma
    message = "waits for " + ", ".join(waits)
    since = kyma.metadata.deletion_timestamp
    stuck = since is not None and snapshot.timing.now - since >= snapshot.patience.deletion
    gone: Said = (MODULES, "False", MODULES_REMOVED, "nothing of the modules is left")
    going: Said = (MODULES, "False", "Removing", message)
    known = {module_of_manifest(each): each for each in chosen_manifests(snapshot)}
    return _finish(
        snapshot,
        state=State.WARNING if stuck else State.DELETING,
        modules=tuple(leaving_module(snapshot, manifest) for _, manifest in sorted(known.items())),
        active_channel=kyma.status.active_channel,
        said=(
            gone if modules_gone else going,
            (READY, "False", "DeletionStuck" if stuck else "Deleting", message),
        ),
        operation=message,
    )


def for_skr(status: KymaStatus, skr_kyma: Kyma) -> KymaStatus:
    """Return the same status as the users' CR shows it: generations are those of that object."""
    generation = skr_kyma.metadata.generation
    return msgspec.structs.replace(
        status,
        observed_generation=generation,
        conditions=tuple(
            msgspec.structs.replace(condition, observed_generation=generation) for condition in status.conditions
        ),
    )


def grace_left(snapshot: Snapshot, failure: SkrFailure) -> timedelta:
    """Return how long a cluster that can't be reached still has before its Kyma is an Error."""
    return max(snapshot.patience.unreachable - _failing_for(snapshot, failure), timedelta(0))


def _failing_for(snapshot: Snapshot, failure: SkrFailure) -> timedelta:
    """Return for how long a failure lasts; one that does not mend by itself counts as if it did for ever."""
    if not failure.may_pass:
        return _FOR_EVER
    known = find(snapshot.kyma.status.conditions, REACHABLE)
    if known is None or known.status == "True" or known.last_transition_time is None:
        return timedelta(0)
    return snapshot.timing.now - known.last_transition_time


def _active_channel(snapshot: Snapshot) -> str:
    skr_kyma = None if isinstance(snapshot.skr, SkrFailure) else snapshot.skr.kyma
    return (skr_kyma or snapshot.kyma).spec.channel


def _states_of_others(conditions: Sequence[Condition]) -> Iterable[State]:
    """Return what the folders beside this one add to the state: the way of events, and the module catalog."""
    webhook = find(conditions, WEBHOOK_CONDITION)
    if webhook is not None and webhook.reason in WORKED_BEFORE:
        yield State.WARNING
    elif webhook is None or webhook.status != "True":
        yield State.PROCESSING
    catalog = find(conditions, CATALOG_CONDITION)
    if catalog is not None and catalog.reason == CATALOG_FAILED:
        yield State.WARNING
    elif catalog is None or catalog.status != "True":
        yield State.PROCESSING


def _what_others_say(conditions: Sequence[Condition]) -> str:
    """Return why the Kyma is not ready although its modules are."""
    waiting = []
    for kind, unknown in ((WEBHOOK_CONDITION, "the Watcher"), (CATALOG_CONDITION, "the module catalog")):
        condition = find(conditions, kind)
        if condition is None:
            waiting.append(f"waits for {unknown}")
        elif condition.status != "True":
            waiting.append(condition.message)
    return "; ".join(waiting)


def _summary(modules: Sequence[KymaModuleStatus], unheeded: int) -> tuple[bool, str]:
    waiting = [module for module in modules if module.state not in {State.READY, State.UNMANAGED}]
    if not waiting:
        return True, f"{len(modules)} of {len(modules)} modules are ready"
    details = "; ".join(f"{module.name} is {module.state.value}: {module.message}" for module in waiting)
    return False, f"{len(modules) - len(waiting)} of {len(modules) + unheeded} modules are ready; {details}"


def _finish(
    snapshot: Snapshot,
    *,
    state: State,
    modules: tuple[KymaModuleStatus, ...],
    active_channel: str,
    said: Iterable[Said],
    operation: str,
) -> KymaStatus:
    before, now, generation = snapshot.kyma.status, snapshot.timing.now, snapshot.kyma.metadata.generation
    return KymaStatus(
        state=state,
        modules=modules,
        active_channel=active_channel,
        conditions=set_conditions(before.conditions, said, generation, now),
        observed_generation=generation,
        last_operation=last_operation(before.last_operation, operation, now),
    )
