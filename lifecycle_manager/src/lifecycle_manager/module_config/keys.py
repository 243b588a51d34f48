"""The keys of the domain, one for each module of a Kyma, and which of them a change concerns. No state is changed."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from kube_runtime import Change, Index, Informer, ObjectKey
from lifecycle_manager.contract.changes import changed_modules, versions
from lifecycle_manager.contract.indexes import BY_MODULE, MODULE_CONFIGS_BY_KYMA
from lifecycle_manager.contract.resources import DatedReleaseMeta
from lifecycle_manager.contract.signals import (
    ClusterReachable,
    ClusterReplaced,
    DescriptorFound,
    ObjectChanged,
    ObjectReference,
    ResyncRequested,
    WebhookRulesChanged,
)
from lifecycle_manager.module_catalog.affected import kymas_using_release, kymas_using_template
from lifecycle_manager.module_catalog.identity import module_of
from lifecycle_manager.module_catalog.manifests import kyma_of_manifest, module_of_manifest
from lifecycle_manager.module_catalog.module_kinds import ModuleKinds
from lifecycle_manager.module_config.reading import Reading
from lifecycle_manager.module_config.rules import config_names
from lifecycle_manager.module_config.snapshot import ModuleConfigSnapshot
from lifecycle_manager.object_set.policy import Policies, module_of_policy
from lifecycle_manager.options.configuration import Quota
from lifecycle_manager_api import Kyma, Manifest, ModuleConfig, ModulePolicy, ModuleTemplate, SyncResource, names


class ModuleKey(NamedTuple):
    namespace: str
    kyma: str
    module: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.kyma}/{self.module}"


MODULE_CONFIGS_BY_MODULE: Index[ModuleConfig] = Index("module", lambda it: (f"{it.spec.kyma}/{it.spec.module}",))
"""ModuleConfigs by `kyma/module`."""


def keys_of(kyma: Kyma) -> tuple[ModuleKey, ...]:
    return tuple(_key(kyma, status.name) for status in kyma.status.modules)


@dataclass(frozen=True, eq=False)
class Modules:
    """The modules of all Kymas, as the caches have them."""

    kymas: Informer[Kyma]
    templates: Informer[ModuleTemplate]
    releases: Informer[DatedReleaseMeta]
    configs: Informer[ModuleConfig]
    policies: Policies
    kinds: ModuleKinds

    def all(self) -> Iterable[ModuleKey]:
        """Return the modules of all Kymas, and those that have ModuleConfigs."""
        of_kymas = {key for kyma in self.kymas.cache.list() for key in keys_of(kyma)}
        return of_kymas.union(self._keys_of_configs(self.configs.cache.list()))

    def exists(self, key: ModuleKey) -> bool:
        """Tell whether a Kyma has the module, or there are ModuleConfigs of it."""
        kyma = self.kymas.get(ObjectKey(key.namespace, key.kyma))
        return (kyma is not None and key in keys_of(kyma)) or bool(self.configs_of(key))

    def configs_of(self, key: ModuleKey) -> tuple[ModuleConfig, ...]:
        """Return the ModuleConfigs of a module, in the namespace of the module."""
        found = self.configs.by_index(MODULE_CONFIGS_BY_MODULE, f"{key.kyma}/{key.module}")
        namespace = self.policies.namespace_of(key.module)  # once, for what may be hundreds
        return tuple(each for each in found if each.metadata.namespace == namespace)

    def seen(self, key: ModuleKey, quota: Quota) -> ModuleConfigSnapshot:
        kyma = self.kymas.get(ObjectKey(key.namespace, key.kyma))
        return ModuleConfigSnapshot(
            kyma=key.kyma,
            module=key.module,
            namespace=self.policies.namespace_of(key.module),
            existing=self.configs_of(key),
            item=kyma,
            template=self.template(kyma, key.module),
            quota=quota,
        )

    def with_reading(self, key: ModuleKey, seen: ModuleConfigSnapshot, reading: Reading) -> ModuleConfigSnapshot:
        """Return the snapshot with a reading, the ModuleConfigs that there are after it, and the names of those wanted.

        Without a template, Module CRs without a ModuleConfig are left out.
        """
        if seen.template is None:
            references = (each.spec.resource_ref for each in seen.existing)
            reading = reading.only({ObjectReference.to(each) for each in references if each is not None})

        def is_taken(name: str) -> bool:
            config = self.configs.get(ObjectKey(seen.namespace, name))
            return config is not None and _key_of_config(config) != key

        existing = self.configs_of(key)
        own = {each.metadata.name for each in existing}
        named = config_names(key.kyma, key.module, reading.default, reading.found, own=own, is_taken=is_taken)
        return replace(seen, reading=reading, existing=existing, names=named)

    def of_changed_kyma(self, change: Change[Kyma]) -> Iterable[ModuleKey]:
        """Return the modules that changed or, where all have to be reconciled, all that the Kyma had and has.

        Those are joined by modules that have ModuleConfigs.
        """
        if (changed := changed_modules(change)) is not None:
            return [_key(versions(change)[0], module) for module in changed]
        configs = self.configs.by_index(MODULE_CONFIGS_BY_KYMA, versions(change)[0].metadata.name)
        return {key for kyma in versions(change) for key in keys_of(kyma)}.union(self._keys_of_configs(configs))

    def of_config(self, change: Change[ModuleConfig]) -> Iterable[ModuleKey]:
        """Return the module of a ModuleConfig that was created or deleted."""
        return self._keys_of_configs(versions(change))

    def _keys_of_configs(self, configs: Iterable[ModuleConfig]) -> set[ModuleKey]:
        return {_key_of_config(each) for each in configs if self.policies.is_in_place(each)}

    def of_template(self, template: ModuleTemplate | None) -> Iterable[ModuleKey]:
        """Return the modules that have a template, or may have it now."""
        if template is None:
            return ()
        having = kymas_using_template(template, kymas=self.kymas, releases=self.releases)
        return [_key(kyma, module_of(template)) for kyma in having]

    def of_descriptor(self, found: DescriptorFound) -> Iterable[ModuleKey]:
        return self.of_template(self.templates.get(ObjectKey(found.namespace, found.template)))

    def of_release(self, change: Change[DatedReleaseMeta]) -> Iterable[ModuleKey]:
        module = versions(change)[0].spec.module_name
        return [_key(kyma, module) for kyma in kymas_using_release(change, kymas=self.kymas)]

    def of_policy(self, change: Change[ModulePolicy]) -> Iterable[ModuleKey]:
        module = module_of_policy(change)
        return [_key(kyma, module) for kyma in self.kymas.by_index(BY_MODULE, module)]

    def of_kyma(
        self, signal: ResyncRequested | ClusterReachable | ClusterReplaced | WebhookRulesChanged
    ) -> Iterable[ModuleKey]:
        kyma = self.kymas.get(ObjectKey(names.KCP_NAMESPACE, signal.kyma))
        return keys_of(kyma) if kyma is not None else ()

    def of_object(self, change: ObjectChanged) -> Iterable[ModuleKey]:
        """Return the modules of a Kyma whose Module CRs are of the changed object's kind."""
        kyma = self.kymas.get(ObjectKey(names.KCP_NAMESPACE, change.kyma))
        for key in keys_of(kyma) if kyma is not None else ():
            template = self.template(kyma, key.module)
            known = self.kinds.known(template) if template is not None else ()
            if any((each.group, each.kind) == (change.reference.group, change.reference.kind) for each in known):
                yield key

    def of_part(self, change: Change[Manifest] | Change[SyncResource]) -> Iterable[ModuleKey]:
        """Return the module of a Manifest or SyncResource."""
        if (part := change.new or change.old) is None:
            return
        kyma = part.spec.kyma if isinstance(part, SyncResource) else kyma_of_manifest(part)
        module = part.spec.module if isinstance(part, SyncResource) else module_of_manifest(part)
        if self.exists(key := ModuleKey(names.KCP_NAMESPACE, kyma, module)):
            yield key

    def template(self, kyma: Kyma | None, module: str) -> ModuleTemplate | None:
        statuses = kyma.status.modules if kyma is not None else ()
        reference = next((status.template for status in statuses if status.name == module), None)
        if reference is None:
            return None
        return self.templates.get(ObjectKey(reference.metadata.namespace or "", reference.metadata.name))


def _key(kyma: Kyma, module: str) -> ModuleKey:
    return ModuleKey(kyma.metadata.namespace, kyma.metadata.name, module)


def _key_of_config(config: ModuleConfig) -> ModuleKey:
    return ModuleKey(names.KCP_NAMESPACE, config.spec.kyma, config.spec.module)
