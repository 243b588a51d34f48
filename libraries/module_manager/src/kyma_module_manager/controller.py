"""The controller of a manager: which changes trigger a reconcile of a ModuleConfig."""

from collections.abc import Callable, Iterable
from typing import Any

from kube_runtime import Change, Controller, Informer, Manager, ObjectKey, Priority
from kyma_module_manager.reconciler import KeyState, Reconciler
from kyma_module_manager.writer import MODULE_CONFIGS, SYNC_RESOURCES
from lifecycle_manager_api import ModuleConfig, State, SyncResource

LEADER = "leader"
"""The owner of all keys: one of several replicas reconciles all of them."""
WRITE_SECONDS = 30.0
"""How much longer than the function a reconcile may take."""
APPLIED_SECONDS = 0.2
"""After how long a ModuleConfig says that its objects are applied again: one write for changes in a row."""


def setup(
    runtime: Manager,
    reconciler: Reconciler[Any],
    *,
    name: str,
    concurrency: int = 10,
    applied_seconds: float = APPLIED_SECONDS,
) -> Controller[ObjectKey, KeyState]:
    """Declare the controller with its triggers."""
    configs, sync_resources = reconciler.configs, reconciler.sync_resources
    controller: Controller[ObjectKey, KeyState] = runtime.controller(
        name,
        state=KeyState,
        owner=lambda _: LEADER,
        concurrency=concurrency,
        timeout_seconds=reconciler.manager.timeout_seconds + WRITE_SECONDS,
    )

    def note_time(change: Change[ModuleConfig]) -> None:
        if change.new is not None and content_changed(change):
            state = controller.state_or_new(MODULE_CONFIGS.key_of(change.new))
            state.changed_at = runtime.clock.monotonic() if state.changed_at is None else state.changed_at

    def existing_config(change: Change[SyncResource]) -> Iterable[ObjectKey]:
        item = change.new or change.old
        key = SYNC_RESOURCES.key_of(item) if item is not None else None
        return (key,) if key is not None and configs.get(key) is not None else ()

    by_others, may_wait = changed_by_others(sync_resources), not reconciler.manager.takes_context

    def is_due(change: Change[SyncResource]) -> bool:
        return by_others(change) and not (may_wait and applied_again(change))

    configs.on_change(note_time)
    controller.watches(configs, when=content_changed)
    controller.watches(sync_resources, to=existing_config, when=is_due, priority=Priority.RESYNC)
    if may_wait:
        controller.watches(
            sync_resources, to=existing_config, when=applied_again, priority=Priority.RESYNC, after=applied_seconds
        )
    controller.reconciles(reconciler.reconcile)
    return controller


def content_changed(change: Change[ModuleConfig]) -> bool:
    """Find new ModuleConfigs, new content, labels and annotations, and deletion requests; but no new status."""
    return change.new is not None and (change.old is None or _content(change.old) != _content(change.new))


def changed_by_others(sync_resources: Informer[SyncResource]) -> Callable[[Change[SyncResource]], bool]:
    """Find deleted SyncResources, and those that are not as this manager wrote them last."""
    return lambda change: change.new is None or not sync_resources.is_own_write(change.new)


def applied_again(change: Change[SyncResource]) -> bool:
    """Find SyncResources that are Ready with a newer text than the one that was Ready before."""
    old, new = change.old, change.new
    return (
        old is not None
        and new is not None
        and old.status.state is new.status.state is State.READY
        and old.status.observed_generation != new.status.observed_generation == new.metadata.generation
        and old.metadata.generation == new.metadata.generation
    )


def _content(config: ModuleConfig) -> tuple[object, ...]:
    metadata = config.metadata
    return (
        metadata.uid,
        metadata.generation,
        metadata.deletion_timestamp,
        dict(metadata.labels),
        dict(metadata.annotations),
    )
