"""The status of a Kyma, from one snapshot: its conditions, the state of each module, and what they add up to."""

from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec

from lifecycle_manager.kyma.observe import Snapshot
from lifecycle_manager.kyma.resolution import Resolution
from lifecycle_manager.skr import SkrFailure
from lifecycle_manager.skr.event_path import CONDITION as WEBHOOK_CONDITION
from lifecycle_manager.skr.event_path import SILENT
from lifecycle_manager_api import (
    Condition,
    ConditionStatus,
    Kyma,
    KymaModuleStatus,
    KymaStatus,
    LastOperation,
    ModuleTemplate,
    PartialMeta,
    State,
    TrackingObject,
    aggregate,
)
from lifecycle_manager_api.conditions import find, set_condition

READY = "Ready"
MODULES = "Modules"
REACHABLE = "SKRReachable"
OWN_CONDITIONS = frozenset({READY, MODULES, REACHABLE})


def status_of(snapshot: Snapshot, resolutions: Sequence[Resolution]) -> KymaStatus:
    """Return the status that a Kyma should show. Conditions of other controllers are kept as they are.

    Where the cluster can't be reached, the last known states of its modules are kept.
    """
    kyma = snapshot.kyma
    if isinstance(snapshot.skr, SkrFailure):
        return _finish(
            snapshot,
            state=State.ERROR,
            modules=kyma.status.modules,
            active_channel=kyma.status.active_channel,
            conditions=(
                _condition(snapshot, REACHABLE, "False", snapshot.skr.reason, snapshot.skr.message),
                _condition(snapshot, READY, "False", snapshot.skr.reason, snapshot.skr.message),
            ),
            operation=snapshot.skr.message,
        )
    modules = tuple(_module_status(snapshot, resolution) for resolution in resolutions)
    webhook = find(kyma.status.conditions, WEBHOOK_CONDITION)
    state = aggregate([*(module.state for module in modules), *_webhook_states(webhook)])
    modules_ready, modules_message = _summary(modules)
    ready_message = modules_message if not modules_ready or webhook is None else webhook.message
    reason = READY if state is State.READY else f"State{state.value}"
    return _finish(
        snapshot,
        state=state,
        modules=modules,
        active_channel=_active_channel(snapshot),
        conditions=(
            _condition(snapshot, REACHABLE, "True", "Reachable", "the cluster answers"),
            _condition(
                snapshot,
                MODULES,
                "True" if modules_ready else "False",
                "ModulesReady" if modules_ready else "ModulesNotReady",
                modules_message,
            ),
            _condition(snapshot, READY, "True" if state is State.READY else "False", reason, ready_message),
        ),
        operation=f"kyma is {state.value.lower()}: {ready_message}",
    )


def deleting_status(snapshot: Snapshot, waits: Sequence[str]) -> KymaStatus:
    """Return the status of a Kyma that is being deleted, naming what it waits for."""
    message = "waits for " + ", ".join(waits)
    return _finish(
        snapshot,
        state=State.DELETING,
        modules=snapshot.kyma.status.modules,
        active_channel=snapshot.kyma.status.active_channel,
        conditions=(_condition(snapshot, READY, "False", "Deleting", message),),
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


def _active_channel(snapshot: Snapshot) -> str:
    skr_kyma = None if isinstance(snapshot.skr, SkrFailure) else snapshot.skr.kyma
    return (skr_kyma or snapshot.kyma).spec.channel


def _module_status(snapshot: Snapshot, resolution: Resolution) -> KymaModuleStatus:
    name = resolution.module.name
    if resolution.template is None:
        return KymaModuleStatus(
            name=name,
            channel=resolution.channel,
            version=resolution.version,
            state=State.ERROR,
            message=resolution.message,
        )
    state, message = _module_state(snapshot, name, resolution.template)
    return KymaModuleStatus(
        name=name,
        channel=resolution.channel,
        version=resolution.version,
        state=state,
        message=message,
        template=_reference_to(resolution.template),
    )


def _module_state(snapshot: Snapshot, module: str, template: ModuleTemplate) -> tuple[State, str]:
    """Add up the states of a module's configurations and of what its Module Manager wants in the SKR."""
    if not template.spec.enable_module_config:
        return State.WARNING, f"ModuleTemplate {template.metadata.name} does not enable ModuleConfig"
    configs = [each for each in snapshot.module_configs if each.spec.module == module]
    synced = [each for each in snapshot.sync_resources if each.spec.module == module]
    parts = [(f"ModuleConfig {each.metadata.name}", each.status.state) for each in configs]
    parts += [(f"SyncResource {each.metadata.name}", each.status.state) for each in synced]
    state = aggregate(part for _, part in parts)
    waiting = [f"{what} is {part.value or 'new'}" for what, part in parts if part is not State.READY]
    return (state, "; ".join(waiting))


def _webhook_states(webhook: Condition | None) -> Iterable[State]:
    if webhook is not None and webhook.reason == SILENT:
        yield State.WARNING
    elif webhook is None or webhook.status != "True":
        yield State.PROCESSING


def _summary(modules: Sequence[KymaModuleStatus]) -> tuple[bool, str]:
    waiting = [module for module in modules if module.state is not State.READY]
    if not waiting:
        return True, f"{len(modules)} of {len(modules)} modules are ready"
    details = "; ".join(f"{module.name} is {module.state.value}: {module.message}" for module in waiting)
    return False, f"{len(modules) - len(waiting)} of {len(modules)} modules are ready; {details}"


def _reference_to(template: ModuleTemplate) -> TrackingObject:
    return TrackingObject(
        api_version=template.api_version,
        kind=template.kind,
        metadata=PartialMeta(
            name=template.metadata.name,
            namespace=template.metadata.namespace,
            generation=template.metadata.generation,
        ),
    )


def _condition(snapshot: Snapshot, kind: str, status: ConditionStatus, reason: str, message: str) -> Condition:
    return Condition(
        type=kind,
        status=status,
        reason=reason,
        message=message,
        observed_generation=snapshot.kyma.metadata.generation,
    )


def _finish(
    snapshot: Snapshot,
    *,
    state: State,
    modules: tuple[KymaModuleStatus, ...],
    active_channel: str,
    conditions: Sequence[Condition],
    operation: str,
) -> KymaStatus:
    before = snapshot.kyma.status
    merged = before.conditions
    for condition in conditions:
        merged = set_condition(merged, condition, snapshot.now)
    return KymaStatus(
        state=state,
        modules=modules,
        active_channel=active_channel,
        conditions=merged,
        observed_generation=snapshot.kyma.metadata.generation,
        last_operation=_last_operation(before.last_operation, operation, snapshot.now),
    )


def _last_operation(before: LastOperation | None, operation: str, now: datetime) -> LastOperation:
    if before is not None and before.operation == operation:
        return before
    return LastOperation(operation=operation, last_update_time=now)
