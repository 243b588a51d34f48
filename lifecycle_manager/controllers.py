"""The controllers of the Lifecycle Manager, and which change in the control plane wakes which key.

A change enqueues exactly the keys that it concerns. Events from the clusters come in beside it, through `routing`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from kube_runtime import Change, Controller, ObjectKey, Priority, Result, RetryPolicy, RuntimeMetrics
from lifecycle_manager.informers import Informers
from lifecycle_manager.kyma import KymaReconciler
from lifecycle_manager.module_config import ModuleConfigReconciler, ModuleKey, keys_of
from lifecycle_manager.resources import Secret
from lifecycle_manager.settings import Settings
from lifecycle_manager.skr import access_index
from lifecycle_manager.skr.event_path import is_silent
from lifecycle_manager.skr_webhook import SkrWebhookReconciler
from lifecycle_manager.sync_resource import SyncResourceReconciler, in_conflict, inventory_of
from lifecycle_manager_api import Kyma, ModuleConfig, ModuleReleaseMeta, ModuleTemplate, SyncResource, Watcher, names

K = TypeVar("K", ObjectKey, ModuleKey)

SETTLE_SECONDS = 0.2


@dataclass(frozen=True, eq=False)
class Reconcilers:
    """What looks after each thing."""

    kyma: KymaReconciler
    skr_webhook: SkrWebhookReconciler
    module_config: ModuleConfigReconciler
    sync_resource: SyncResourceReconciler


class Controllers:
    """One controller for each reconciler, with its queue."""

    def __init__(self, reconcilers: Reconcilers, settings: Settings, metrics: RuntimeMetrics) -> None:
        def controller(name: str, reconcile: Callable[[K], Awaitable[Result]], concurrency: int) -> Controller[K]:
            return Controller(
                name,
                reconcile,
                concurrency=concurrency,
                retry=RetryPolicy(
                    base_seconds=settings.failure_base_delay.total_seconds(),
                    most_seconds=settings.failure_max_delay.total_seconds(),
                    rate=settings.rate_limiter_frequency,
                    burst=settings.rate_limiter_burst,
                ),
                metrics=metrics,
            )

        self.reconcilers = reconcilers
        self.kyma = controller("kyma", reconcilers.kyma.reconcile, settings.max_concurrent_kyma_reconciles)
        self.skr_webhook = controller(
            "watcher", reconcilers.skr_webhook.reconcile, settings.max_concurrent_watcher_reconciles
        )
        self.module_config = controller(
            "module-config", reconcilers.module_config.reconcile, settings.max_concurrent_module_config_reconciles
        )
        self.sync_resource = controller(
            "sync-resource", reconcilers.sync_resource.reconcile, settings.max_concurrent_sync_resource_reconciles
        )

    def start_in(self, tasks: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        """Run all of them in a task group."""
        return [tasks.create_task(each.run(), name=f"controller {each.name}") for each in self._all()]

    async def shutdown(self, grace_seconds: float) -> None:
        """Finish what is under way and what waits in the queues, within the grace time."""
        async with asyncio.TaskGroup() as tasks:
            for each in self._all():
                tasks.create_task(each.shutdown(grace_seconds))

    def _all(self) -> tuple[Controller[Any], ...]:
        return (self.kyma, self.skr_webhook, self.module_config, self.sync_resource)


@dataclass(frozen=True, eq=False)
class Wiring:
    """Wakes keys when the control plane changes."""

    informers: Informers
    controllers: Controllers

    def connect(self) -> None:
        """Have every informer's changes wake what they concern."""
        self.informers.kymas.on_change(self._kyma_changed)
        self.informers.secrets.on_change(self._secret_changed)
        self.informers.templates.on_change(self._catalog_changed)
        self.informers.releases.on_change(self._catalog_changed)
        self.informers.watchers.on_change(self._watcher_changed)
        self.informers.module_configs.on_change(self._module_config_changed)
        self.informers.sync_resources.on_change(self._sync_resource_changed)

    def _kyma_changed(self, change: Change[Kyma]) -> None:
        kyma = change.new or change.old
        if kyma is None or not _asks_for_more(change):
            return
        self._wake_kyma(kyma)
        before = keys_of(change.old) if change.old is not None else ()
        after = keys_of(change.new) if change.new is not None else ()
        if change.new is None or change.old is None or _modules_differ(change.old, change.new):
            for key in {*before, *after, *self._configured(kyma)}:
                self._wake_module(key)
        if change.new is None or _deleting(change.new):
            self._wake_sync_resources(kyma.metadata.name)

    def _secret_changed(self, change: Change[Secret]) -> None:
        """A cluster's credentials came, changed or went: all that its failures held up goes on at once."""
        for secret in (change.old, change.new):
            for kyma_name in access_index(secret) if secret is not None else ():
                kyma = self.informers.kymas.cache.get(ObjectKey(names.KCP_NAMESPACE, kyma_name))
                if kyma is not None:
                    self._wake_kyma(kyma)
                    for key in keys_of(kyma):
                        self._wake_module(key)
                    self._wake_sync_resources(kyma_name)

    def _catalog_changed(self, change: Change[ModuleTemplate] | Change[ModuleReleaseMeta]) -> None:
        changed = change.new or change.old
        if changed is None or not changed.spec.module_name:
            return
        for kyma in self.informers.kymas.cache.list():
            if any(module.name == changed.spec.module_name for module in kyma.status.modules):
                self._wake_kyma(kyma)
                self._wake_module(ModuleKey(kyma.metadata.namespace, kyma.metadata.name, changed.spec.module_name))

    def _watcher_changed(self, change: Change[Watcher]) -> None:
        if change.old is not None and change.new is not None and change.old.spec == change.new.spec:
            return
        for kyma in self.informers.kymas.cache.list():
            self.controllers.skr_webhook.queue.add(_key(kyma), Priority.CHANGE)

    def _module_config_changed(self, change: Change[ModuleConfig]) -> None:
        config = change.new or change.old
        if config is None:
            return
        kyma_key = ObjectKey(config.metadata.namespace, config.spec.kyma)
        if change.old is None or change.new is None:
            self._wake_module(ModuleKey(config.metadata.namespace, config.spec.kyma, config.spec.module))
        if change.old is None or change.new is None or change.old.status.state != change.new.status.state:
            self._add_up_soon(kyma_key)

    def _sync_resource_changed(self, change: Change[SyncResource]) -> None:
        resource = change.new or change.old
        if resource is None:
            return
        old, new = change.old, change.new
        if old is None or new is None or _wants_other(old, new):
            self.controllers.sync_resource.queue.add(_key(resource), Priority.CHANGE)
        if old is None or new is None or old.status.state != new.status.state:
            self._add_up_soon(ObjectKey(resource.metadata.namespace, resource.spec.kyma))
        if new is None or (old is not None and _identities(old) - _identities(new)):
            self._wake_those_in_conflict(resource)

    def _add_up_soon(self, kyma: ObjectKey) -> None:
        """Have a Kyma's state added up from those of its parts, which often change several at a time."""
        self.controllers.kyma.queue.add_after(kyma, SETTLE_SECONDS, Priority.CHANGE)

    def _wake_those_in_conflict(self, freed: SyncResource) -> None:
        """Have those tried again that wanted objects which this one has let go of."""
        for other in self.informers.sync_resources.cache.by_index("kyma", freed.spec.kyma):
            if in_conflict(other):
                self.controllers.sync_resource.queue.add(_key(other), Priority.CHANGE)

    def _wake_kyma(self, kyma: Kyma) -> None:
        self.controllers.kyma.queue.add(_key(kyma), Priority.CHANGE)
        self.controllers.skr_webhook.queue.add(_key(kyma), Priority.CHANGE)

    def _wake_module(self, key: ModuleKey) -> None:
        self.controllers.reconcilers.module_config.wake(key)
        self.controllers.module_config.queue.add(key, Priority.CHANGE)

    def _wake_sync_resources(self, kyma_name: str) -> None:
        for resource in self.informers.sync_resources.cache.by_index("kyma", kyma_name):
            self.controllers.sync_resource.queue.add(_key(resource), Priority.CHANGE)

    def _configured(self, kyma: Kyma) -> Iterable[ModuleKey]:
        for config in self.informers.module_configs.cache.by_index("kyma", kyma.metadata.name):
            yield ModuleKey(config.metadata.namespace, config.spec.kyma, config.spec.module)


def _asks_for_more(change: Change[Kyma]) -> bool:
    """Tell whether a Kyma's change is more than the times in its status."""
    old, new = change.old, change.new
    return (
        old is None
        or new is None
        or old.metadata.generation != new.metadata.generation
        or old.metadata.labels != new.metadata.labels
        or old.metadata.annotations != new.metadata.annotations
        or old.metadata.finalizers != new.metadata.finalizers
        or old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
        or _modules_differ(old, new)
        or _verdicts(old) != _verdicts(new)
    )


def _modules_differ(old: Kyma, new: Kyma) -> bool:
    """Tell whether the modules resolve to other templates, start or stop being decided at all, or are to be looked at
    more or less often."""
    before = {module.name: module.template for module in old.status.modules}
    after = {module.name: module.template for module in new.status.modules}
    undecided = (old.status.state == "") != (new.status.state == "")
    interval = is_silent(old) != is_silent(new)
    return before != after or undecided or interval or _deleting(old) != _deleting(new)


def _verdicts(kyma: Kyma) -> dict[str, tuple[str, str]]:
    return {condition.type: (condition.status, condition.reason) for condition in kyma.status.conditions}


def _wants_other(old: SyncResource, new: SyncResource) -> bool:
    return (
        old.metadata.generation != new.metadata.generation
        or old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
        or names.SYNC_RESOURCE_FINALIZER in set(old.metadata.finalizers) - set(new.metadata.finalizers)
        or old.metadata.annotations.get(names.CREATE_NAMESPACES)
        != new.metadata.annotations.get(names.CREATE_NAMESPACES)
    )


def _identities(resource: SyncResource) -> set[tuple[str, str, str, str]]:
    return {entry.identity for entry in inventory_of(resource)}


def _deleting(kyma: Kyma) -> bool:
    return kyma.metadata.deletion_timestamp is not None


def _key(thing: Kyma | SyncResource) -> ObjectKey:
    return ObjectKey(thing.metadata.namespace, thing.metadata.name)
