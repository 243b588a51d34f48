"""What the plans of mandatory modules are decided on. All of it comes from informers."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from kube_runtime import Change, Informer, ObjectKey, Request, Snapshot
from kube_runtime.informer import Index
from lifecycle_manager.contract.changes import versions
from lifecycle_manager.contract.indexes import MANIFESTS_BY_KYMA
from lifecycle_manager.contract.resources import DatedReleaseMeta
from lifecycle_manager.module_catalog import Offer, Offers, is_mandatory_manifest, module_of, module_of_manifest
from lifecycle_manager.module_catalog.affected import affected_by_release
from lifecycle_manager_api import Kyma, Manifest, ModuleReleaseMeta, ModuleTemplate

Release = ModuleTemplate | ModuleReleaseMeta


class ReleaseKey(NamedTuple):
    """A ModuleTemplate or ModuleReleaseMeta in KCP."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


def _mandatory_module(manifest: Manifest) -> Iterable[str]:
    if is_mandatory_manifest(manifest):
        yield module_of_manifest(manifest)


MANIFESTS_BY_MANDATORY_MODULE: Index[Manifest] = Index("mandatory", _mandatory_module)
"""Manifests of mandatory modules by their module."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallationSnapshot(Snapshot):
    """A Kyma, the offer, and the Manifests of the Kyma; `are_written` once they are as the plan wants them."""

    kyma: Kyma
    offer: Offer
    manifests: tuple[Manifest, ...]
    interval_seconds: float
    are_written: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RetirementSnapshot(Snapshot):
    """A ModuleTemplate or ModuleReleaseMeta, the offer, and all mandatory Manifests of its module."""

    release: Release
    offer: Offer
    manifests: tuple[Manifest, ...]
    is_written: bool = False


@dataclass(frozen=True, eq=False)
class MandatoryReader:
    """Reads what is known of a Kyma, and of a release: a ModuleTemplate or ModuleReleaseMeta."""

    kymas: Informer[Kyma]
    templates: Informer[ModuleTemplate]
    releases: Informer[DatedReleaseMeta]
    manifests: Informer[Manifest]
    offers: Offers
    interval_seconds: float

    async def installation(self, request: Request[ObjectKey, None]) -> InstallationSnapshot | None:
        kyma, offer, interval = self.kymas.get(request.key), self.offers.current(), self.interval_seconds
        manifests = self.manifests.by_index(MANIFESTS_BY_KYMA, request.key.name)
        if kyma is None:
            return None
        return InstallationSnapshot(kyma=kyma, offer=offer, manifests=manifests, interval_seconds=interval)

    async def retirement(self, request: Request[ReleaseKey, None]) -> RetirementSnapshot | None:
        release = self.get(request.key)
        if release is None:
            return None
        manifests = self.manifests.by_index(MANIFESTS_BY_MANDATORY_MODULE, module_of_release(release))
        return RetirementSnapshot(release=release, offer=self.offers.current(), manifests=manifests)

    def informer_of(self, kind: str) -> Informer[Any]:
        return self.templates if kind == ModuleTemplate.KIND else self.releases

    def get(self, key: ReleaseKey) -> Release | None:
        found: Release | None = self.informer_of(key.kind).get(ObjectKey(key.namespace, key.name))
        return found

    def list(self) -> tuple[Release, ...]:
        return (*self.templates.cache.list(), *self.releases.cache.list())

    def keys(self) -> Iterable[ReleaseKey]:
        return map(key_of_release, self.list())

    def of_change(self, change: Change[DatedReleaseMeta]) -> Iterable[ReleaseKey]:
        """Return the release, and the templates of its module: a mandatory release decides which one is held."""
        release = versions(change)[0]
        yield key_of_release(release)
        for template in self.templates.cache.list() if affected_by_release(change).mandatory else ():
            if module_of(template) == release.spec.module_name:
                yield key_of_release(template)

    def waiting_for(self, change: Change[Manifest]) -> Iterable[ReleaseKey]:
        modules = {module_of_manifest(each) for each in versions(change)}
        leaving = (each for each in self.list() if each.metadata.being_deleted)
        return [key_of_release(each) for each in leaving if module_of_release(each) in modules]


def key_of_release(release: Release) -> ReleaseKey:
    return ReleaseKey(release.KIND, release.metadata.namespace, release.metadata.name)


def module_of_release(release: Release) -> str:
    return release.spec.module_name if isinstance(release, ModuleReleaseMeta) else module_of(release)
