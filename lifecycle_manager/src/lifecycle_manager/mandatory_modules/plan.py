"""Gives a Kyma the Manifests of the mandatory modules, and takes away those of modules that are mandatory no more."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kube_runtime import ApiError, Client, EventRecorder, Informer, ObjectKey, Resource, Result
from lifecycle_manager.kyma_conditions import is_introduced
from lifecycle_manager.module_catalog import (
    DescriptorUnreadable,
    Offer,
    Offers,
    differs,
    is_mandatory_manifest,
    module_of_manifest,
    wanted_manifest,
)
from lifecycle_manager.module_catalog.writing import apply_manifest, delete_manifest
from lifecycle_manager.resources import MODULE_RELEASE_METAS, MODULE_TEMPLATES
from lifecycle_manager_api import Kyma, Manifest, ModuleReleaseMeta, ModuleTemplate, names


@dataclass(frozen=True, slots=True)
class Apply:
    """Have a mandatory module installed as this Manifest says."""

    manifest: Manifest


@dataclass(frozen=True, slots=True)
class Delete:
    """Have a module removed that is not mandatory any more."""

    manifest: str


@dataclass(frozen=True, slots=True)
class CannotInstall:
    """A template that names no objects which could be installed, or a release whose version has no template."""

    release: ModuleTemplate | ModuleReleaseMeta
    why: str


Action = Apply | Delete | CannotInstall


def plan(kyma: Kyma, offer: Offer, manifests: Iterable[Manifest]) -> tuple[Action, ...]:
    """Decide what a Kyma needs of the mandatory modules. One that leaves is left to whoever removes its modules.

    Nothing is installed before the cluster was looked at, nor in one that is another Kyma's.
    """
    if kyma.metadata.being_deleted or names.KYMA_FINALIZER not in kyma.metadata.finalizers:
        return ()
    existing = {module_of_manifest(each): each for each in manifests}
    deletions = tuple(_deletions(offer, existing))
    if kyma.metadata.labels.get(names.SKIP_RECONCILIATION) == "true" or not is_introduced(kyma):
        return deletions
    return (*_installations(kyma, offer, existing), *deletions)


def _installations(kyma: Kyma, offer: Offer, existing: Mapping[str, Manifest]) -> Iterator[Action]:
    for module in sorted(offer.awaited):
        yield CannotInstall(offer.releases[module], "the version that is mandatory has no ModuleTemplate")
    for module, template in sorted(offer.mandatory.items()):
        held = existing.get(module)
        if held is not None and held.metadata.being_deleted:
            continue  # it comes again once it is gone
        name = held.metadata.name if held is not None else ""
        try:
            component = offer.component(template)
        except DescriptorUnreadable as error:
            yield CannotInstall(template, str(error))
            continue
        wanted = wanted_manifest(kyma, template, component, mandatory=True, name=name)
        if wanted is None:
            yield CannotInstall(template, "it names neither a layer nor a link with objects to install")
        elif held is None or differs(held, wanted):
            yield Apply(wanted)


def _deletions(offer: Offer, existing: Mapping[str, Manifest]) -> Iterator[Action]:
    for module, manifest in sorted(existing.items()):
        going = manifest.metadata.being_deleted
        if is_mandatory_manifest(manifest) and not going and module not in {*offer.mandatory, *offer.awaited}:
            yield Delete(manifest.metadata.name)


@dataclass(frozen=True, eq=False)
class MandatoryInstallation:
    """Keeps one Kyma's mandatory modules. The key is that of the Kyma; `manifests` needs the index `kyma`."""

    kcp: Client
    kymas: Informer[Kyma]
    offers: Offers
    manifests: Informer[Manifest]
    events: EventRecorder
    interval_seconds: float = 300.0

    async def reconcile(self, key: ObjectKey) -> Result:
        """Do what this Kyma needs next. Raises KubeError. Its cluster is not asked."""
        kyma = self.kymas.cache.get(key)
        if kyma is None:
            return Result()
        refusals = []
        for action in plan(kyma, self.offers.current(), self.manifests.cache.by_index("kyma", key.name)):
            try:
                await self._carry_out(action, key.namespace)
            except ApiError as error:
                refusals.append(error)  # the other modules go on
        if refusals:
            raise refusals[0]
        return Result(requeue_after=self.interval_seconds)

    async def _carry_out(self, action: Action, namespace: str) -> None:
        match action:
            case Apply(manifest):
                await apply_manifest(self.kcp, manifest)
            case Delete(name):
                await delete_manifest(self.kcp, name, namespace)
            case CannotInstall(release, why):
                is_template = isinstance(release, ModuleTemplate)
                resource: Resource[Any] = MODULE_TEMPLATES if is_template else MODULE_RELEASE_METAS
                self.events.record(resource, release, "CannotBeInstalled", why, type="Warning")
