"""The controllers of the Lifecycle Manager, and which change in the control plane wakes which key.

A change enqueues exactly the keys that it concerns. Events from the clusters come in beside it, through `routing`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import structlog
from prometheus_client import Counter

from kube_runtime import Change, Controller, ObjectKey, Pace, Priority, Result, RetryPolicy, RuntimeMetrics
from lifecycle_manager.catalog import CATALOG_RECORD, CatalogReconciler
from lifecycle_manager.informers import Informers
from lifecycle_manager.kyma import CRD_HASH, KymaReconciler
from lifecycle_manager.mandatory import MandatoryInstallation, MandatoryRetirement, ReleaseKey
from lifecycle_manager.manifest import ManifestReconciler
from lifecycle_manager.module_config import ModuleConfigReconciler, ModuleKey, keys_of
from lifecycle_manager.modules import is_mandatory, is_mandatory_manifest, module_of, module_of_manifest
from lifecycle_manager.release_audience import who_has_release, who_has_template
from lifecycle_manager.resources import DatedReleaseMeta, Secret
from lifecycle_manager.settings import Settings
from lifecycle_manager.skr import ClusterProbe, Connections, SkrAccessError, access_index
from lifecycle_manager.skr.event_path import is_faulty
from lifecycle_manager.skr_webhook import (
    TRUST_RECORD,
    WATCHER_RECORD,
    AuthorityRotation,
    SkrWebhookReconciler,
    WatcherStatusReconciler,
)
from lifecycle_manager.sync_resource import SyncResourceReconciler, in_conflict, inventory_of
from lifecycle_manager_api import (
    Kyma,
    Manifest,
    ModuleConfig,
    ModuleReleaseMeta,
    ModuleTemplate,
    SyncResource,
    Watcher,
    names,
)

log = structlog.get_logger("controllers")

K = TypeVar("K", ObjectKey, ModuleKey, ReleaseKey, str)

SETTLE_SECONDS = 0.2
PROBE_POLICY = RetryPolicy(base_seconds=0.5, most_seconds=60.0, rate=100.0, burst=1000)
NOT_OURS_TO_HEED = frozenset({CRD_HASH, CATALOG_RECORD, WATCHER_RECORD, TRUST_RECORD})


@dataclass(frozen=True, eq=False)
class Reconcilers:
    """What looks after each thing."""

    kyma: KymaReconciler
    catalog: CatalogReconciler
    mandatory: MandatoryInstallation
    mandatory_retirement: MandatoryRetirement
    skr_webhook: SkrWebhookReconciler
    watcher_status: WatcherStatusReconciler
    module_config: ModuleConfigReconciler
    manifest: ManifestReconciler
    sync_resource: SyncResourceReconciler
    authority: AuthorityRotation


class Controllers:
    """One controller for each reconciler, with its queue."""

    def __init__(
        self,
        reconcilers: Reconcilers,
        connections: Connections,
        settings: Settings,
        metrics: RuntimeMetrics,
        requeues: Counter,
    ) -> None:
        pace = Pace()
        policy = RetryPolicy(
            base_seconds=settings.failure_base_delay.total_seconds(),
            most_seconds=settings.failure_max_delay.total_seconds(),
            rate=settings.rate_limiter_frequency,
            burst=settings.rate_limiter_burst,
        )

        def controller(
            name: str, reconcile: Callable[[K], Awaitable[Result]], concurrency: int, retry: RetryPolicy = policy
        ) -> Controller[K]:
            counted = _counted(name, _awaiting_access(reconcile), requeues)
            return Controller(name, counted, concurrency=concurrency, retry=retry, metrics=metrics, pace=pace)

        self.reconcilers = reconcilers
        self.kyma = controller("kyma", reconcilers.kyma.reconcile, settings.max_concurrent_kyma_reconciles)
        self.catalog = controller("catalog", reconcilers.catalog.reconcile, settings.max_concurrent_catalog_reconciles)
        self.mandatory = controller(
            "mandatory-modules", reconcilers.mandatory.reconcile, settings.max_concurrent_mandatory_modules_reconciles
        )
        self.mandatory_retirement = controller(
            "mandatory-modules-deletion",
            reconcilers.mandatory_retirement.reconcile,
            settings.max_concurrent_mandatory_modules_deletion_reconciles,
        )
        probe = ClusterProbe(connections, self._cluster_answers)
        self.skr_probe = controller("skr-probe", probe.reconcile, settings.max_concurrent_skr_probes, PROBE_POLICY)
        self.on_recovery: Callable[[str], None] = lambda _: None
        self.skr_webhook = controller(
            "watcher", reconcilers.skr_webhook.reconcile, settings.max_concurrent_watcher_reconciles
        )
        self.manifest = controller(
            "manifest", reconcilers.manifest.reconcile, settings.max_concurrent_manifest_reconciles
        )
        self.watcher_status = controller("watcher-status", reconcilers.watcher_status.reconcile, 1)
        self.module_config = controller(
            "module-config", reconcilers.module_config.reconcile, settings.max_concurrent_module_config_reconciles
        )
        self.sync_resource = controller(
            "sync-resource", reconcilers.sync_resource.reconcile, settings.max_concurrent_sync_resource_reconciles
        )

        self.authority = controller("authority", reconcilers.authority.reconcile, 1)

    def start_in(self, tasks: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        """Run all of them in a task group."""
        return [tasks.create_task(each.run(), name=f"controller {each.name}") for each in self._all()]

    async def shutdown(self, grace_seconds: float) -> None:
        """Finish what is under way and what waits in the queues, within the grace time."""
        async with asyncio.TaskGroup() as tasks:
            for each in self._all():
                tasks.create_task(each.shutdown(grace_seconds))

    def _all(self) -> tuple[Controller[Any], ...]:
        return (
            self.kyma,
            self.catalog,
            self.mandatory,
            self.mandatory_retirement,
            self.skr_webhook,
            self.manifest,
            self.watcher_status,
            self.module_config,
            self.sync_resource,
            self.skr_probe,
            self.authority,
        )

    def _cluster_answers(self, kyma_name: str) -> None:
        self.on_recovery(kyma_name)


def _awaiting_access(reconcile: Callable[[K], Awaitable[Result]]) -> Callable[[K], Awaitable[Result]]:
    """Try no key again for want of access to its cluster: new credentials wake it, and so does a sign of life."""

    async def attempt(key: K) -> Result:
        try:
            return await reconcile(key)
        except SkrAccessError as error:
            log.debug("waits for access", key=str(key), reason=error.reason)
            return Result()

    return attempt


def _counted(
    name: str, reconcile: Callable[[K], Awaitable[Result]], requeues: Counter
) -> Callable[[K], Awaitable[Result]]:
    """Count the keys that come again, by why they do."""
    intended = requeues.labels(f"{name}_interval", "intended")

    async def attempt(key: K) -> Result:
        try:
            result = await reconcile(key)
        except Exception as error:
            requeues.labels(f"{name}_{type(error).__name__}", "unexpected").inc()
            raise
        if result.requeue_after is not None:
            intended.inc()
        return result

    return attempt


@dataclass(frozen=True, eq=False)
class Wiring:
    """Wakes keys when the control plane changes."""

    informers: Informers
    controllers: Controllers

    def connect(self) -> None:
        """Have every informer's changes wake what they concern, and every cluster that is back."""
        self.controllers.on_recovery = self._wake_all_of
        self.informers.manifests.on_change(self._manifest_changed)
        self.informers.kymas.on_change(self._kyma_changed)
        self.informers.secrets.on_change(self._secret_changed)
        self.informers.templates.on_change(self._template_changed)
        self.informers.releases.on_change(self._release_changed)
        self.informers.watchers.on_change(self._watcher_changed)
        self.informers.module_configs.on_change(self._module_config_changed)
        self.informers.sync_resources.on_change(self._sync_resource_changed)

    def descriptor_looked_up(self, template: ModuleTemplate) -> None:
        """Wake whom a template concerns of which the descriptor was found, or could not be."""
        self._template_changed(Change(None, template))

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
        authority = self.controllers.reconcilers.authority.key
        if _key_of_secret(change) == authority:
            self.controllers.authority.queue.add(authority, Priority.CHANGE)
        for secret in (change.old, change.new):
            for kyma_name in access_index(secret) if secret is not None else ():
                self._wake_all_of(kyma_name)

    def _wake_all_of(self, kyma_name: str) -> None:
        """Wake all that a cluster held up which can be reached now."""
        kyma = self.informers.kymas.cache.get(ObjectKey(names.KCP_NAMESPACE, kyma_name))
        if kyma is not None:
            self._wake_kyma(kyma)
            for key in keys_of(kyma):
                self._wake_module(key)
            self._wake_manifests(kyma_name)
            self._wake_sync_resources(kyma_name)

    def _template_changed(self, change: Change[ModuleTemplate]) -> None:
        """Wake the Kymas that have the template, or may have it now; and those whose catalog shows it."""
        template = change.new or change.old
        if template is None or not _release_asks_for_more(change):
            return
        for kyma in who_has_template(self.informers, template):
            self._wake_for_catalog(kyma, module_of(template))
            self._wake_manifests(kyma.metadata.name, module_of(template))
        self._catalog_changed(ModuleTemplate.KIND, template, is_mandatory(template))

    def _release_changed(self, change: Change[DatedReleaseMeta]) -> None:
        """Wake the Kymas that use a channel which has another version now; all of the module for other changes."""
        release = change.new or change.old
        if release is None or not _release_asks_for_more(change):
            return
        for kyma in who_has_release(self.informers, change):
            self._wake_for_catalog(kyma, release.spec.module_name)
        mandatory = any(each is not None and each.spec.mandatory is not None for each in (change.old, change.new))
        self._catalog_changed(ModuleReleaseMeta.KIND, release, mandatory)

    def _wake_for_catalog(self, kyma: Kyma, module: str) -> None:
        self.controllers.kyma.queue.add(_key(kyma), Priority.CHANGE)
        self._wake_module(ModuleKey(kyma.metadata.namespace, kyma.metadata.name, module))

    def _catalog_changed(self, kind: str, release: ModuleTemplate | ModuleReleaseMeta, mandatory: bool) -> None:
        """Every cluster shows the catalog, and has the mandatory modules: this concerns them all, after the others."""
        metadata = release.metadata
        queue = self.controllers.mandatory if mandatory else self.controllers.catalog
        for kyma in self.informers.kymas.cache.list():
            queue.queue.add(_key(kyma), Priority.RESYNC)
        self.controllers.mandatory_retirement.queue.add(ReleaseKey(kind, metadata.namespace, metadata.name))

    def _manifest_changed(self, change: Change[Manifest]) -> None:
        manifest = change.new or change.old
        if manifest is not None and _wants_other_module(change):
            self.controllers.manifest.queue.add(_key(manifest), Priority.CHANGE)
        kyma_name = manifest.metadata.labels.get(names.KYMA_NAME) if manifest is not None else None
        if manifest is None or not kyma_name:
            return
        key, old, new = ObjectKey(manifest.metadata.namespace, kyma_name), change.old, change.new
        if old is not None and new is not None and not _manifest_says_more(old, new):
            return
        self._add_up_soon(key)
        if not is_mandatory_manifest(manifest):
            return
        if old is None or new is None or old.metadata.generation != new.metadata.generation:
            self.controllers.mandatory.queue.add_after(key, SETTLE_SECONDS, Priority.CHANGE)
            self._wake_retirement(module_of_manifest(manifest))

    def _wake_retirement(self, module: str) -> None:
        """Have those releases looked at that leave and wait for Manifests of a module."""
        leaving: list[ModuleTemplate | ModuleReleaseMeta] = [
            *(each for each in self.informers.templates.cache.list() if module_of(each) == module),
            *(each for each in self.informers.releases.cache.list() if each.spec.module_name == module),
        ]
        for each in leaving:
            if each.metadata.deletion_timestamp is not None:
                key = ReleaseKey(each.KIND, each.metadata.namespace, each.metadata.name)
                self.controllers.mandatory_retirement.queue.add(key)

    def _watcher_changed(self, change: Change[Watcher]) -> None:
        if change.old is not None and change.new is not None and not _watches_other(change.old, change.new):
            return
        for kyma in self.informers.kymas.cache.list():
            self.controllers.skr_webhook.queue.add(_key(kyma), Priority.CHANGE)
        for watcher in self.informers.watchers.cache.list():
            self.controllers.watcher_status.queue.add_after(_key(watcher), SETTLE_SECONDS, Priority.CHANGE)

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
        self.controllers.catalog.queue.add(_key(kyma), Priority.CHANGE)
        self.controllers.mandatory.queue.add(_key(kyma), Priority.CHANGE)
        self.controllers.skr_webhook.queue.add(_key(kyma), Priority.CHANGE)

    def _wake_module(self, key: ModuleKey) -> None:
        self.controllers.reconcilers.module_config.wake(key)
        self.controllers.module_config.queue.add(key, Priority.CHANGE)

    def _wake_manifests(self, kyma_name: str, module: str = "") -> None:
        """Wake the Manifests of a cluster, or that of one module there."""
        for manifest in self.informers.manifests.cache.by_index("kyma", kyma_name):
            if not module or module_of_manifest(manifest) == module:
                self.controllers.manifest.queue.add(_key(manifest), Priority.CHANGE)

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
        or _heeded(old.metadata.annotations) != _heeded(new.metadata.annotations)
        or old.metadata.finalizers != new.metadata.finalizers
        or old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
        or _modules_differ(old, new)
        or _verdicts(old) != _verdicts(new)
    )


def _heeded(annotations: Mapping[str, str]) -> dict[str, str]:
    """Return the annotations that somebody else may have written, and not we for ourselves."""
    return {key: value for key, value in annotations.items() if key not in NOT_OURS_TO_HEED}


def _release_asks_for_more(change: Change[ModuleTemplate] | Change[DatedReleaseMeta]) -> bool:
    """Tell whether a change of the catalog is more than bookkeeping."""
    old, new = change.old, change.new
    return (
        old is None
        or new is None
        or old.spec != new.spec
        or old.metadata.labels != new.metadata.labels
        or old.metadata.annotations != new.metadata.annotations
        or old.metadata.finalizers != new.metadata.finalizers
        or old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
    )


def _manifest_says_more(old: Manifest, new: Manifest) -> bool:
    """Tell whether a Manifest's change matters to the Kyma: what is wanted, or how it is."""
    return (
        old.metadata.generation != new.metadata.generation
        or old.metadata.labels != new.metadata.labels
        or old.metadata.annotations != new.metadata.annotations
        or old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
        or old.status.state != new.status.state
        or old.status.observed_generation != new.status.observed_generation
        or _operation(old) != _operation(new)
    )


def _wants_other_module(change: Change[Manifest]) -> bool:
    """Tell whether a Manifest's change is more than its status."""
    old, new = change.old, change.new
    return (
        old is None
        or new is None
        or old.metadata.generation != new.metadata.generation
        or old.metadata.labels != new.metadata.labels
        or old.metadata.annotations != new.metadata.annotations
        or old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
        or names.MANIFEST_FINALIZER in set(old.metadata.finalizers) - set(new.metadata.finalizers)
    )


def _operation(manifest: Manifest) -> str:
    return manifest.status.last_operation.operation if manifest.status.last_operation is not None else ""


def _modules_differ(old: Kyma, new: Kyma) -> bool:
    """Tell whether the modules resolve to other templates, start or stop being decided at all, or are to be looked at
    more or less often."""
    before = {module.name: module.template for module in old.status.modules}
    after = {module.name: module.template for module in new.status.modules}
    undecided = (old.status.state == "") != (new.status.state == "")
    interval = is_faulty(old) != is_faulty(new)
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


def _watches_other(old: Watcher, new: Watcher) -> bool:
    return (
        old.spec != new.spec
        or old.metadata.labels != new.metadata.labels
        or old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
    )


def _identities(resource: SyncResource) -> set[tuple[str, str, str, str]]:
    return {entry.identity for entry in inventory_of(resource)}


def _deleting(kyma: Kyma) -> bool:
    return kyma.metadata.deletion_timestamp is not None


def _key_of_secret(change: Change[Secret]) -> ObjectKey | None:
    secret = change.new or change.old
    return ObjectKey(secret.metadata.namespace, secret.metadata.name) if secret is not None else None


def _key(thing: Kyma | Manifest | SyncResource | Watcher) -> ObjectKey:
    return ObjectKey(thing.metadata.namespace, thing.metadata.name)
