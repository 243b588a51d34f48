"""Holds what says that a module is mandatory, until nothing that came of it is left in any cluster.

A ModuleTemplate waits for the Manifests of its version, a ModuleReleaseMeta for those of its module. The Manifests
themselves go, or change to the version that is mandatory now, cluster by cluster (see `installation`).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import structlog

from kube_runtime import Client, Informer, ObjectKey, Resource, Result
from lifecycle_manager.kcp_writes import set_finalizers
from lifecycle_manager.module_catalog import (
    Offer,
    Offers,
    is_mandatory,
    is_mandatory_manifest,
    module_of,
    module_of_manifest,
)
from lifecycle_manager.module_catalog.offer import version_of
from lifecycle_manager.resources import MODULE_RELEASE_METAS, MODULE_TEMPLATES, DatedReleaseMeta
from lifecycle_manager_api import Manifest, ModuleReleaseMeta, ModuleTemplate, names

WAITING_SECONDS = 30.0
Release = ModuleTemplate | ModuleReleaseMeta
log = structlog.get_logger("mandatory")


class ReleaseKey(NamedTuple):
    """One ModuleTemplate or ModuleReleaseMeta of the control plane."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


def mandatory_index(manifest: Manifest) -> Iterable[str]:
    """Index the Manifest of a mandatory module by the module."""
    if is_mandatory_manifest(manifest):
        yield module_of_manifest(manifest)


def is_to_be_held(release: Release, offer: Offer, manifests: Iterable[Manifest]) -> bool:
    """Tell whether a ModuleTemplate or ModuleReleaseMeta must not go yet; `manifests` are those of its module."""
    if not release.metadata.being_deleted:
        return _is_mandatory(release, offer)
    if isinstance(release, ModuleReleaseMeta):
        return release.spec.module_name not in offer.mandatory and any(True for _ in manifests)
    instead = offer.mandatory.get(module_of(release))
    version = version_of(release)
    if instead is not None and version_of(instead) == version:
        return False
    return any(manifest.spec.version == version for manifest in manifests)


def _is_mandatory(release: Release, offer: Offer) -> bool:
    if isinstance(release, ModuleReleaseMeta):
        return release.spec.mandatory is not None
    chosen = offer.mandatory.get(module_of(release))
    return is_mandatory(release) or (chosen is not None and chosen.metadata.name == release.metadata.name)


@dataclass(frozen=True, eq=False)
class MandatoryRetirement:
    """Keeps the finalizer of one ModuleTemplate or ModuleReleaseMeta. `manifests` needs the index `mandatory`."""

    kcp: Client
    templates: Informer[ModuleTemplate]
    releases: Informer[DatedReleaseMeta]
    offers: Offers
    manifests: Informer[Manifest]

    async def reconcile(self, key: ReleaseKey) -> Result:
        """Set the finalizer or take it off. Raises KubeError."""
        resource: Resource[Any] = MODULE_TEMPLATES if key.kind == ModuleTemplate.KIND else MODULE_RELEASE_METAS
        where = ObjectKey(key.namespace, key.name)
        release: Release | None = (
            self.templates.cache.get(where) if key.kind == ModuleTemplate.KIND else self.releases.cache.get(where)
        )
        if release is None:
            return Result()
        module = module_of(release) if isinstance(release, ModuleTemplate) else release.spec.module_name
        left = self.manifests.cache.by_index("mandatory", module)
        held = names.MANDATORY_FINALIZER in release.metadata.finalizers
        leaving = release.metadata.being_deleted
        hold = is_to_be_held(release, self.offers.current(), left)
        if hold and leaving:
            log.info("waits for the clusters to let go of a mandatory module", module=module, manifests=len(left))
            return Result(requeue_after=WAITING_SECONDS)
        if hold != held:
            await self._set(resource, release, hold)
        return Result()

    async def _set(self, resource: Resource[Any], release: Release, hold: bool) -> None:
        others = [name for name in release.metadata.finalizers if name != names.MANDATORY_FINALIZER]
        finalizers = [*others, names.MANDATORY_FINALIZER] if hold else others
        await set_finalizers(self.kcp, resource, release.metadata, finalizers)
