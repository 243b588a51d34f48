"""What a replica keeps of clusters that another one has: what is counted over the whole fleet, and no more.

Rollouts and brakes count Manifests and Kymas of all clusters, a CA rotation and the status of Watcher CRs all Kymas,
the brake on deletions SyncResources, and those that have no objects any more. Texts, inventories, and most conditions
are read by the cluster's replica alone.

An access Secret is kept whole: a cluster may be claimed by a Kyma that another replica has.
"""

from typing import Any

import msgspec
from msgspec.structs import replace

from kube_runtime import Resource
from kube_runtime.informer import Outline
from lifecycle_manager.contract.conditions import REACHABLE, WEBHOOK
from lifecycle_manager.contract.resources import (
    KYMAS,
    MANIFESTS,
    MODULE_CONFIGS,
    SECRETS,
    SYNC_RESOURCES,
    Secret,
)
from lifecycle_manager_api import (
    Condition,
    Kyma,
    KymaSpec,
    KymaStatus,
    Manifest,
    ManifestSpec,
    ManifestStatus,
    ModuleConfig,
    ModuleConfigStatus,
    ObjectMeta,
    SyncResource,
    SyncResourceStatus,
    names,
)

MAX_SPECS = 5_000
_SPECS: dict[bytes, ManifestSpec] = {}
"""Manifests of one version of a module have the same spec in all clusters: it is kept once."""


def _metadata(metadata: ObjectMeta) -> ObjectMeta:
    return replace(metadata, finalizers=(), owner_references=())


def _only(conditions: tuple[Condition, ...], *types: str) -> tuple[Condition, ...]:
    return tuple(each for each in conditions if each.type in types)


def _kyma(kyma: Kyma) -> Kyma:
    status = kyma.status
    return replace(
        kyma,
        metadata=_metadata(kyma.metadata),
        spec=KymaSpec(channel=kyma.spec.channel),
        status=KymaStatus(
            state=status.state,
            conditions=_only(status.conditions, REACHABLE, WEBHOOK),
            skip_maintenance_windows=status.skip_maintenance_windows,
            modules=tuple(each for each in status.modules if each.available_version),
            records=status.records,
        ),
    )


def _manifest(manifest: Manifest) -> Manifest:
    status = manifest.status
    return replace(
        manifest,
        metadata=_metadata(manifest.metadata),
        spec=_shared(manifest.spec),
        status=ManifestStatus(
            state=status.state,
            conditions=_only(status.conditions, names.READY_CONDITION, "Resources"),
            observed_generation=status.observed_generation,
            release=status.release,
            ready_version=status.ready_version,
        ),
    )


def _shared(spec: ManifestSpec) -> ManifestSpec:
    known = _SPECS.setdefault(msgspec.json.encode(spec), spec)
    if len(_SPECS) > MAX_SPECS:
        _SPECS.clear()
    return known


def _module_config(config: ModuleConfig) -> ModuleConfig:
    spec = replace(config.spec, resource="", resource_ref=None)
    return replace(config, metadata=_metadata(config.metadata), spec=spec, status=ModuleConfigStatus())


def _sync_resource(resource: SyncResource) -> SyncResource:
    spec = replace(resource.spec, resource="kind:" if may_have_objects(resource.spec.resource) else "")
    status = SyncResourceStatus(synced=resource.status.synced[:1])
    return replace(resource, metadata=_metadata(resource.metadata), spec=spec, status=status)


def may_have_objects(text: str) -> bool:
    """Tell whether a text of a SyncResource may have objects: each of them names its kind."""
    return "kind" in text


def _owner_of_secret(secret: Secret) -> str:
    labels = secret.metadata.labels
    return labels.get(names.KYMA_NAME, "") if names.PURPOSE in labels else ""


OUTLINES: dict[Resource[Any], Outline[Any]] = {
    KYMAS: Outline(lambda kyma: kyma.metadata.name, _kyma),
    MANIFESTS: Outline(lambda manifest: manifest.metadata.labels.get(names.KYMA_NAME, ""), _manifest),
    MODULE_CONFIGS: Outline(lambda config: config.spec.kyma, _module_config),
    SYNC_RESOURCES: Outline(lambda resource: resource.spec.kyma, _sync_resource),
    SECRETS: Outline(_owner_of_secret, lambda secret: replace(secret, data={})),
}
"""By kind. Controllers that look at the changes of all clusters say so: `watches(..., of_others=True)`."""
