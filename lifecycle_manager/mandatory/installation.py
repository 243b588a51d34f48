"""Gives a Kyma the Manifests of the mandatory modules, and takes away those of modules that are mandatory no more."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from kube_runtime import Client, EventRecorder, Informer, ObjectKey, Result
from lifecycle_manager.modules import (
    DescriptorUnreadable,
    Offer,
    Offers,
    differs,
    is_mandatory_manifest,
    module_of_manifest,
    wanted_manifest,
)
from lifecycle_manager.modules.writing import apply_manifest, delete_manifest
from lifecycle_manager.resources import MODULE_TEMPLATES
from lifecycle_manager_api import Kyma, Manifest, ModuleTemplate, names


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
    """A template that names no objects which could be installed: its authors have to mend it."""

    template: ModuleTemplate
    why: str


Action = Apply | Delete | CannotInstall


def plan(kyma: Kyma, offer: Offer, manifests: Iterable[Manifest]) -> tuple[Action, ...]:
    """Decide what a Kyma needs of the mandatory modules. One that leaves is left to whoever removes its modules."""
    if kyma.metadata.deletion_timestamp is not None or names.KYMA_FINALIZER not in kyma.metadata.finalizers:
        return ()
    existing = {module_of_manifest(each): each for each in manifests}
    deletions = tuple(_deletions(offer, existing))
    if kyma.metadata.labels.get(names.SKIP_RECONCILIATION) == "true":
        return deletions
    return (*_installations(kyma, offer, existing), *deletions)


def _installations(kyma: Kyma, offer: Offer, existing: Mapping[str, Manifest]) -> Iterator[Action]:
    for module, template in sorted(offer.mandatory.items()):
        held = existing.get(module)
        if held is not None and held.metadata.deletion_timestamp is not None:
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
        going = manifest.metadata.deletion_timestamp is not None
        if is_mandatory_manifest(manifest) and module not in offer.mandatory and not going:
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
        for action in plan(kyma, self.offers.current(), self.manifests.cache.by_index("kyma", key.name)):
            match action:
                case Apply(manifest):
                    await apply_manifest(self.kcp, manifest)
                case Delete(name):
                    await delete_manifest(self.kcp, name, key.namespace)
                case CannotInstall(template, why):
                    self.events.record(MODULE_TEMPLATES, template, "CannotBeInstalled", why, type="Warning")
        return Result(requeue_after=self.interval_seconds)
