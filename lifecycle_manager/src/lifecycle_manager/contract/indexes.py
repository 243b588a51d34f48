"""Indexes of informers that several domains use.

`manager.informer(KYMAS, indexes=[BY_RUNTIME])` adds an index; `informer.by_index(BY_RUNTIME, runtime_id)` asks it.
"""

from collections.abc import Iterable

from kube_runtime.informer import Index
from lifecycle_manager.contract.identity import runtime_id_of
from lifecycle_manager_api import Kyma, Manifest, ModuleConfig, SyncResource, names


def _kyma_of_manifest(manifest: Manifest) -> Iterable[str]:
    """Yield the Kyma by the label, or by the owner where somebody has removed the label."""
    metadata = manifest.metadata
    owners = (each.name for each in metadata.owner_references if each.kind == Kyma.KIND)
    if kyma := metadata.labels.get(names.KYMA_NAME) or next(owners, ""):
        yield kyma


BY_RUNTIME: Index[Kyma] = Index("runtime", lambda kyma: (runtime_id_of(kyma),))
"""Kymas by the runtime id of their cluster."""
BY_MODULE: Index[Kyma] = Index("module", lambda kyma: (module.name for module in kyma.status.modules))
"""Kymas by the names of the modules in their status."""
BY_CHANNEL: Index[Kyma] = Index(
    "channel", lambda kyma: (f"{module.name}/{module.channel}" for module in kyma.status.modules)
)
"""Kymas by `module/channel` of the modules in their status."""
BY_TEMPLATE: Index[Kyma] = Index(
    "template", lambda kyma: (each.template.metadata.name for each in kyma.status.modules if each.template is not None)
)
"""Kymas by the names of the ModuleTemplates that their modules resolved to."""

MANIFESTS_BY_KYMA: Index[Manifest] = Index("kyma", _kyma_of_manifest)
"""Manifests by the name of their Kyma."""
MODULE_CONFIGS_BY_KYMA: Index[ModuleConfig] = Index("kyma", lambda part: (part.spec.kyma,))
"""ModuleConfigs by the name of their Kyma."""
SYNC_RESOURCES_BY_KYMA: Index[SyncResource] = Index("kyma", lambda part: (part.spec.kyma,))
"""SyncResources by the name of their Kyma."""
