"""What a replica keeps of clusters that another one has: what is counted over the whole fleet, and no more.

Rollouts and brakes count Manifests and Kymas of all clusters, a CA rotation and the status of Watcher CRs all Kymas,
the brake on deletions SyncResources, and those that have no objects any more. Texts, inventories, and most conditions
are read by the cluster's replica alone.

Nor do other replicas have a cluster's credentials: the rare rule that compares two clusters reads those of the other.
"""

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from kube_runtime import Resource
from kube_runtime.informer import Outline
from kube_runtime.pool import Pool
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
    ManifestStatus,
    ModuleConfig,
    ModuleConfigStatus,
    ObjectMeta,
    SyncResource,
    SyncResourceStatus,
    names,
)

T = TypeVar("T")
_PARTS: Pool[Any] = Pool(1_000)
"""Specs, annotations and what is left of a status are equal in many clusters: they are kept once."""


def _shared(part: T) -> T:
    known: T = _PARTS.shared(part, key=(type(part), msgspec.json.encode(part)))
    return known


class _Labels(Mapping[str, str]):
    """Labels of a part of a Kyma: its name, and the others, which parts of many Kymas have."""

    __slots__ = ("_kyma", "_others")

    def __init__(self, labels: Mapping[str, str]) -> None:
        others = dict(labels)
        self._kyma = _PARTS.shared(others.pop(names.KYMA_NAME))
        self._others = _shared(others)

    def __getitem__(self, name: str) -> str:
        return self._kyma if name == names.KYMA_NAME else self._others[name]

    def get(self, name: str, default: Any = None, /) -> Any:  # that of Mapping takes three calls, at each look-up
        return self._kyma if name == names.KYMA_NAME else self._others.get(name, default)

    def __iter__(self) -> Iterator[str]:
        yield names.KYMA_NAME
        yield from self._others

    def __len__(self) -> int:
        return 1 + len(self._others)


def _metadata(metadata: ObjectMeta) -> ObjectMeta:
    return replace(metadata, annotations=_shared(metadata.annotations), finalizers=(), owner_references=())


def _metadata_of_part(metadata: ObjectMeta) -> ObjectMeta:
    """Return the metadata of a Manifest or Secret, which has the label with the name of its Kyma."""
    return replace(_metadata(metadata), labels=_Labels(metadata.labels))


def _only(conditions: tuple[Condition, ...], *types: str) -> tuple[Condition, ...]:
    """Return what is counted of conditions: those of these types, and since when they hold of Ready alone."""
    return tuple(
        each if each.type == names.READY_CONDITION else replace(each, last_transition_time=None)
        for each in conditions
        if each.type in types
    )


_OF_KYMAS = (REACHABLE, WEBHOOK)
_OF_DELETION = (*_OF_KYMAS, names.READY_CONDITION)
"""Conditions that are counted."""


def _kyma(kyma: Kyma) -> Kyma:
    status = kyma.status
    return replace(
        kyma,
        metadata=_metadata(kyma.metadata),
        spec=_shared(KymaSpec(channel=kyma.spec.channel)),
        status=KymaStatus(
            state=status.state,
            conditions=_only(status.conditions, *(_OF_DELETION if kyma.metadata.being_deleted else _OF_KYMAS)),
            skip_maintenance_windows=status.skip_maintenance_windows,
            modules=tuple(each for each in status.modules if each.available_version),
            records=status.records,
        ),
    )


def _manifest(manifest: Manifest) -> Manifest:
    status = manifest.status
    return replace(
        manifest,
        metadata=_metadata_of_part(manifest.metadata),
        spec=_shared(manifest.spec),
        status=_shared(
            ManifestStatus(
                state=status.state,
                conditions=_only(status.conditions, names.READY_CONDITION, "Resources"),
                observed_generation=status.observed_generation,
                release=status.release,
                ready_version=status.ready_version,
            )
        ),
    )


def _module_config(config: ModuleConfig) -> ModuleConfig:
    spec = replace(config.spec, resource="", resource_ref=None)
    return replace(config, metadata=_metadata(config.metadata), spec=spec, status=_shared(ModuleConfigStatus()))


def _sync_resource(resource: SyncResource) -> SyncResource:
    spec = replace(resource.spec, resource="kind:" if may_have_objects(resource.spec.resource) else "")
    status = SyncResourceStatus(synced=resource.status.synced[:1], emptied_at=resource.status.emptied_at)
    return replace(resource, metadata=_metadata(resource.metadata), spec=spec, status=status)


def may_have_objects(text: str) -> bool:
    """Tell whether a text of a SyncResource may have objects: each of them names its kind."""
    return "kind" in text


def _secret(secret: Secret) -> Secret:
    return replace(secret, metadata=_metadata_of_part(secret.metadata), data=_shared({}))


def _kyma_of_labels(item: Manifest | Secret) -> str:
    return item.metadata.labels.get(names.KYMA_NAME, "")


OUTLINES: dict[Resource[Any], Outline[Any]] = {
    KYMAS: Outline(lambda kyma: kyma.metadata.name, _kyma, pooled=("annotations", "spec")),
    MANIFESTS: Outline(_kyma_of_labels, _manifest, pooled=("annotations", "labels", "spec", "status")),
    MODULE_CONFIGS: Outline(lambda config: config.spec.kyma, _module_config, pooled=("annotations", "status")),
    SYNC_RESOURCES: Outline(lambda resource: resource.spec.kyma, _sync_resource, pooled=("annotations",)),
    SECRETS: Outline(_kyma_of_labels, _secret, pooled=("annotations", "labels", "data")),
}
"""By kind. Controllers that look at the changes of all clusters say so: `watches(..., of_others=True)`."""
