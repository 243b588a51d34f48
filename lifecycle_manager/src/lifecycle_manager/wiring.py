"""Which change in the control plane wakes which key.

A change enqueues exactly the keys that it concerns. Events from the clusters come in beside it, through `routing`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kube_runtime import Change, JsonObject, ObjectKey, Priority
from lifecycle_manager.controllers import Controllers
from lifecycle_manager.informers import Informers
from lifecycle_manager.kyma import brings_other
from lifecycle_manager.mandatory_modules import ReleaseKey
from lifecycle_manager.module_catalog import is_mandatory_manifest, kyma_of_manifest, module_of, module_of_manifest
from lifecycle_manager.module_config import ModuleKey, keys_of
from lifecycle_manager.news import (
    asks_for_more,
    has_let_go,
    has_other_modules,
    is_in_other_state,
    is_new_to_kyma,
    offers_other,
    wants_other_module,
    wants_other_objects,
    watches_other,
)
from lifecycle_manager.release_audience import (
    Concerned,
    concerned_by_release,
    concerned_by_template,
    who_has_release,
    who_has_template,
)
from lifecycle_manager.resources import DatedReleaseMeta, Secret
from lifecycle_manager.skr import access_index
from lifecycle_manager.sync_resource import in_conflict
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

SETTLE_SECONDS = 0.2
RULES_SECONDS = 2.0
"""How long an API server may take to ask by the rules of a webhook that it was just given."""


@dataclass(frozen=True, eq=False)
class Wiring:
    """Wakes keys when the control plane changes, and when this replica gets Kymas to look after."""

    informers: Informers
    controllers: Controllers

    def connect(self) -> None:
        """Have every informer's changes wake what they concern from now on, and every cluster that is back."""
        self.controllers.on_recovery = self._wake_all_of
        self.controllers.reconcilers.kyma.on_new_cluster = self._cluster_is_new
        self.controllers.reconcilers.skr_webhook.on_other_rules = self._other_rules
        self.controllers.reconcilers.manifest.on_woken = lambda key: self.controllers.manifest.queue.add(
            key, Priority.CHANGE
        )
        self.informers.manifests.on_change(self._manifest_changed, replay=False)
        self.informers.kymas.on_change(self._kyma_changed, replay=False)
        self.informers.secrets.on_change(self._secret_changed, replay=False)
        self.informers.templates.on_change(self._template_changed, replay=False)
        self.informers.releases.on_change(self._release_changed, replay=False)
        self.informers.watchers.on_change(self._watcher_changed, replay=False)
        self.informers.module_configs.on_change(self._module_config_changed, replay=False)
        self.informers.sync_resources.on_change(self._sync_resource_changed, replay=False)
        self.informers.kyma_definitions.on_change(self._kyma_definition_changed, replay=False)

    def descriptor_looked_up(self, template: ModuleTemplate) -> None:
        """Wake whom a template concerns of which the descriptor was found, or could not be."""
        self._wake_those_with(template)
        if concerned_by_template(self.informers, Change(None, template)).mandatory:
            for kyma in self.informers.kymas.cache.list():
                self.controllers.mandatory.queue.add(_key(kyma), Priority.RESYNC)

    def kyma_names(self) -> Iterable[str]:
        """Name the Kymas that there are, and those that something is left of."""
        return {
            *(kyma.metadata.name for kyma in self.informers.kymas.cache.list()),
            *(owner for each in self.informers.manifests.cache.list() if (owner := kyma_of_manifest(each))),
            *(each.spec.kyma for each in self.informers.module_configs.cache.list()),
            *(each.spec.kyma for each in self.informers.sync_resources.cache.list()),
        }

    def begin(self, kyma_names: Iterable[str]) -> None:
        """Have Kymas looked at from scratch that this replica looks after from now on, and what belongs to none."""
        for name in kyma_names:
            self._begin_with(name)
        for manifest in self.informers.manifests.cache.list():
            if not kyma_of_manifest(manifest):
                self.controllers.manifest.queue.add(_key(manifest), Priority.RESYNC)
        for watcher in self.informers.watchers.cache.list():
            self.controllers.watcher_status.queue.add(_key(watcher), Priority.RESYNC)
        releases: list[ModuleTemplate | ModuleReleaseMeta] = [
            *self.informers.templates.cache.list(),
            *self.informers.releases.cache.list(),
        ]
        for release in releases:
            self.controllers.mandatory_retirement.queue.add(_key_of_release(release), Priority.RESYNC)
        self.controllers.authority.queue.add(self.controllers.reconcilers.authority.key, Priority.RESYNC)

    async def finish(self, given_away: Callable[[str], bool]) -> None:
        """Return once nothing is under way any more for Kymas that a function names."""
        await self.controllers.finish(given_away)

    def _begin_with(self, name: str) -> None:
        reconcilers = self.controllers.reconcilers
        kyma = self.informers.kymas.cache.get(ObjectKey(names.KCP_NAMESPACE, name))
        if kyma is not None:
            key = _key(kyma)
            reconcilers.catalog.forget(key)
            reconcilers.skr_webhook.forget(key)
            for controller in (
                self.controllers.kyma,
                self.controllers.catalog,
                self.controllers.mandatory,
                self.controllers.skr_webhook,
            ):
                controller.queue.add(key, Priority.RESYNC)
        for module in {*(keys_of(kyma) if kyma is not None else ()), *self._configured(name)}:
            reconcilers.module_config.wake(module)
            self.controllers.module_config.queue.add(module, Priority.RESYNC)
        for manifest in self.informers.manifests.cache.by_index("kyma", name):
            reconcilers.manifest.forget(_key(manifest))
            self.controllers.manifest.queue.add(_key(manifest), Priority.RESYNC)
        for resource in self.informers.sync_resources.cache.by_index("kyma", name):
            reconcilers.sync_resource.forget(_key(resource))
            self.controllers.sync_resource.queue.add(_key(resource), Priority.RESYNC)

    def _kyma_changed(self, change: Change[Kyma]) -> None:
        kyma = change.new or change.old
        if kyma is None or not asks_for_more(change):
            return
        self._wake_kyma(kyma)
        before = keys_of(change.old) if change.old is not None else ()
        after = keys_of(change.new) if change.new is not None else ()
        if has_other_modules(change):
            for key in {*before, *after, *self._configured(kyma.metadata.name)}:
                self._wake_module(key)
        if change.new is None or change.new.metadata.being_deleted:
            self._wake_sync_resources(kyma.metadata.name)

    def _kyma_definition_changed(self, change: Change[JsonObject]) -> None:
        """Every cluster gets another definition of Kymas, after whatever users wait for."""
        for kyma in self.informers.kymas.cache.list() if brings_other(change) else ():
            self.controllers.kyma.queue.add(_key(kyma), Priority.RESYNC)

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
            self._wake_parts(kyma)

    def _wake_parts(self, kyma: Kyma) -> None:
        for key in keys_of(kyma):
            self._wake_module(key)
        self._wake_manifests(kyma.metadata.name)
        self._wake_sync_resources(kyma.metadata.name)

    def _cluster_is_new(self, key: ObjectKey) -> None:
        """Have all of it looked at whole: what is noted of a cluster was noted of another one, or is lost."""
        reconcilers = self.controllers.reconcilers
        for kind in (ModuleTemplate.KIND, ModuleReleaseMeta.KIND):
            reconcilers.catalog.wake(key, kind)
        reconcilers.skr_webhook.wake(key)
        for manifest in self.informers.manifests.cache.by_index("kyma", key.name):
            reconcilers.manifest.wake(_key(manifest))
        self.controllers.catalog.queue.add(key, Priority.CHANGE)
        self.controllers.skr_webhook.queue.add(key, Priority.CHANGE)
        kyma = self.informers.kymas.cache.get(key)
        if kyma is not None:
            self._wake_parts(kyma)

    def _other_rules(self, key: ObjectKey) -> None:
        """Have Module CRs read once more: nobody told of what changed before the API server knew the rules."""
        kyma = self.informers.kymas.cache.get(key)
        for module in keys_of(kyma) if kyma is not None else ():
            self.controllers.reconcilers.module_config.wake(module)
            self.controllers.module_config.queue.add_after(module, RULES_SECONDS, Priority.CHANGE)
        for manifest in self.informers.manifests.cache.by_index("kyma", key.name):
            self.controllers.manifest.queue.add_after(_key(manifest), RULES_SECONDS, Priority.CHANGE)

    def _template_changed(self, change: Change[ModuleTemplate]) -> None:
        """Wake the Kymas that have the template, or may have it now; and those whose catalog shows it."""
        template = change.new or change.old
        if template is None or not offers_other(change):
            return
        self._wake_those_with(template)
        self._catalog_changed(template, concerned_by_template(self.informers, change))

    def _release_changed(self, change: Change[DatedReleaseMeta]) -> None:
        """Wake the Kymas that use a channel which has another version now; all of the module for other changes."""
        release = change.new or change.old
        if release is None or not offers_other(change):
            return
        for kyma in who_has_release(self.informers, change):
            self._wake_for_catalog(kyma, release.spec.module_name)
        concerned = concerned_by_release(change)
        self._catalog_changed(release, concerned)
        if concerned.mandatory:  # other templates are to be held than before
            for template in self.informers.templates.cache.list():
                if module_of(template) == release.spec.module_name:
                    self.controllers.mandatory_retirement.queue.add(_key_of_release(template))

    def _wake_those_with(self, template: ModuleTemplate) -> None:
        for kyma in who_has_template(self.informers, template):
            self._wake_for_catalog(kyma, module_of(template))
            self._wake_manifests(kyma.metadata.name, module_of(template))

    def _wake_for_catalog(self, kyma: Kyma, module: str) -> None:
        self.controllers.kyma.queue.add(_key(kyma), Priority.CHANGE)
        self._wake_module(ModuleKey(kyma.metadata.namespace, kyma.metadata.name, module))

    def _catalog_changed(self, release: ModuleTemplate | ModuleReleaseMeta, concerned: Concerned) -> None:
        """Every cluster shows the catalog, and has the mandatory modules: this concerns them all, after the others."""
        for kyma in self.informers.kymas.cache.list():
            if concerned.catalogs:
                self.controllers.catalog.queue.add(_key(kyma), Priority.RESYNC)
            if concerned.mandatory:
                self.controllers.mandatory.queue.add(_key(kyma), Priority.RESYNC)
        self.controllers.mandatory_retirement.queue.add(_key_of_release(release))

    def _manifest_changed(self, change: Change[Manifest]) -> None:
        manifest = change.new or change.old
        if manifest is not None and wants_other_module(change):
            self.controllers.manifest.queue.add(_key(manifest), Priority.CHANGE)
        kyma_name = manifest.metadata.labels.get(names.KYMA_NAME) if manifest is not None else None
        if manifest is None or not kyma_name or not is_new_to_kyma(change):
            return
        key, old, new = ObjectKey(manifest.metadata.namespace, kyma_name), change.old, change.new
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
            if each.metadata.being_deleted:
                self.controllers.mandatory_retirement.queue.add(_key_of_release(each))

    def _watcher_changed(self, change: Change[Watcher]) -> None:
        if not watches_other(change):
            return
        for kyma in self.informers.kymas.cache.list():
            self.controllers.skr_webhook.queue.add(_key(kyma), Priority.CHANGE)
        for watcher in self.informers.watchers.cache.list():
            self.controllers.watcher_status.queue.add_after(_key(watcher), SETTLE_SECONDS, Priority.CHANGE)

    def _module_config_changed(self, change: Change[ModuleConfig]) -> None:
        config = change.new or change.old
        if config is None:
            return
        if change.old is None or change.new is None:
            self._wake_module(ModuleKey(config.metadata.namespace, config.spec.kyma, config.spec.module))
        if is_in_other_state(change):
            self._add_up_soon(ObjectKey(config.metadata.namespace, config.spec.kyma))

    def _sync_resource_changed(self, change: Change[SyncResource]) -> None:
        resource = change.new or change.old
        if resource is None:
            return
        if wants_other_objects(change):
            self.controllers.sync_resource.queue.add(_key(resource), Priority.CHANGE)
        if is_in_other_state(change):
            self._add_up_soon(ObjectKey(resource.metadata.namespace, resource.spec.kyma))
        if has_let_go(change):
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

    def _configured(self, kyma_name: str) -> Iterable[ModuleKey]:
        for config in self.informers.module_configs.cache.by_index("kyma", kyma_name):
            yield ModuleKey(config.metadata.namespace, config.spec.kyma, config.spec.module)


def _key_of_secret(change: Change[Secret]) -> ObjectKey | None:
    secret = change.new or change.old
    return ObjectKey(secret.metadata.namespace, secret.metadata.name) if secret is not None else None


def _key_of_release(release: ModuleTemplate | ModuleReleaseMeta) -> ReleaseKey:
    return ReleaseKey(release.KIND, release.metadata.namespace, release.metadata.name)


def _key(thing: Kyma | Manifest | SyncResource | Watcher) -> ObjectKey:
    return ObjectKey(thing.metadata.namespace, thing.metadata.name)
