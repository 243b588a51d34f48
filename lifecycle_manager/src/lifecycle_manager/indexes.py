"""Indexes of informers that several domains use.

`manager.informer(KYMAS, indexes=[BY_RUNTIME])` adds an index; `informer.by_index(BY_RUNTIME, runtime_id)` asks it.
"""

from collections.abc import Iterable

from kube_runtime.informer import Index
from lifecycle_manager.skr.identity import runtime_id_of
from lifecycle_manager_api import Kyma, Manifest, ModuleConfig, SyncResource, names


def _modules(kyma: Kyma) -> Iterable[str]:
    return (module.name for module in kyma.status.modules)


def _channels(kyma: Kyma) -> Iterable[str]:
    return (f"{module.name}/{module.channel}" for module in kyma.status.modules)


def _templates(kyma: Kyma) -> Iterable[str]:
    return (module.template.metadata.name for module in kyma.status.modules if module.template is not None)


def _kyma_of_manifest(manifest: Manifest) -> Iterable[str]:
    if kyma := manifest.metadata.labels.get(names.KYMA_NAME):
        yield kyma


def _kyma_in_spec(part: ModuleConfig | SyncResource) -> Iterable[str]:
    return (part.spec.kyma,)


BY_RUNTIME: Index[Kyma] = Index("runtime", lambda kyma: (runtime_id_of(kyma),))
"""Kymas by the runtime id of their cluster."""
BY_MODULE: Index[Kyma] = Index("module", _modules)
"""Kymas by the names of the modules in their status."""
BY_CHANNEL: Index[Kyma] = Index("channel", _channels)
"""Kymas by `module/channel` of the modules in their status."""
BY_TEMPLATE: Index[Kyma] = Index("template", _templates)
"""Kymas by the names of the ModuleTemplates that their modules resolved to."""

MANIFESTS_BY_KYMA: Index[Manifest] = Index("kyma", _kyma_of_manifest)
"""Manifests by the name of their Kyma."""
MODULE_CONFIGS_BY_KYMA: Index[ModuleConfig] = Index("kyma", _kyma_in_spec)
"""ModuleConfigs by the name of their Kyma."""
SYNC_RESOURCES_BY_KYMA: Index[SyncResource] = Index("kyma", _kyma_in_spec)
"""SyncResources by the name of their Kyma."""
