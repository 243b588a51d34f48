"""The rules of mandatory modules: which Manifests a Kyma has, and which releases keep the finalizer."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lifecycle_manager.kyma_conditions import is_introduced
from lifecycle_manager.mandatory_modules.snapshot import InstallationSnapshot, Release, RetirementSnapshot
from lifecycle_manager.module_catalog import (
    DescriptorUnreadable,
    Offer,
    differs,
    is_mandatory,
    is_mandatory_manifest,
    module_of,
    module_of_manifest,
    version_of,
    wanted_manifest,
)
from lifecycle_manager_api import Kyma, Manifest, ModuleReleaseMeta, names

NO_TEMPLATE = "the mandatory version has no ModuleTemplate"
NOTHING_TO_INSTALL = "the ModuleTemplate has neither a layer nor a link with objects to install"
WAITING_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class ApplyManifest:
    """Apply the Manifest of a mandatory module."""

    manifest: Manifest


@dataclass(frozen=True, slots=True)
class DeleteManifest:
    """Delete the Manifest of a module that is not mandatory any more."""

    manifest: str


@dataclass(frozen=True, slots=True)
class CannotInstall:
    """Report on a template or release why its module can't be installed."""

    release: Release
    why: str


@dataclass(frozen=True, slots=True)
class SetFinalizer:
    """Add the finalizer to a release, or remove it."""

    release: Release
    held: bool


@dataclass(frozen=True, slots=True)
class Wait:
    """A release that is being deleted waits for the deletion of Manifests."""

    manifests: int
    requeue_after: float = WAITING_SECONDS


InstallationStep = ApplyManifest | DeleteManifest | CannotInstall


def plan_installation(seen: InstallationSnapshot) -> tuple[InstallationStep, ...]:
    """Return what a Kyma needs; the steps are independent of each other.

    The modules of a Kyma that is being deleted are removed by its own controller. Nothing is installed before the SKR
    was read once, nor in an SKR that belongs to another Kyma.
    """
    kyma = seen.kyma
    if kyma.metadata.being_deleted or names.KYMA_FINALIZER not in kyma.metadata.finalizers:
        return ()
    existing = {module_of_manifest(each): each for each in seen.manifests}
    deletions = tuple(_deletions(seen.offer, existing))
    if kyma.metadata.is_paused or not is_introduced(kyma):
        return deletions
    return (*_installations(kyma, seen.offer, existing), *deletions)


def plan_retirement(seen: RetirementSnapshot) -> SetFinalizer | Wait | None:
    """Return what a release needs; None where its finalizer is right."""
    has_finalizer = names.MANDATORY_FINALIZER in seen.release.metadata.finalizers
    held = is_held(seen)
    if held and seen.release.metadata.being_deleted:
        return Wait(len(seen.manifests))
    return SetFinalizer(seen.release, held) if held != has_finalizer else None


def is_held(seen: RetirementSnapshot) -> bool:
    """Tell whether a release has to have the finalizer.

    That is while it makes a module mandatory. One that is being deleted keeps it while Manifests exist that were built
    from it: those of the template's version, or all of the ModuleReleaseMeta's module. It does not wait for Manifests
    that another template or release makes mandatory as well.
    """
    release, offer = seen.release, seen.offer
    if not release.metadata.being_deleted:
        return _makes_mandatory(release, offer)
    if isinstance(release, ModuleReleaseMeta):
        return release.spec.module_name not in offer.mandatory and bool(seen.manifests)
    version, successor = version_of(release), offer.mandatory.get(module_of(release))
    if successor is not None and version_of(successor) == version:
        return False
    return any(manifest.spec.version == version for manifest in seen.manifests)


def _installations(kyma: Kyma, offer: Offer, existing: Mapping[str, Manifest]) -> Iterator[InstallationStep]:
    for module in sorted(offer.awaited):
        yield CannotInstall(offer.releases[module], NO_TEMPLATE)
    for module, template in sorted(offer.mandatory.items()):
        manifest = existing.get(module)
        if manifest is not None and manifest.metadata.being_deleted:
            continue  # created again after the deletion
        try:
            component = offer.component(template)
        except DescriptorUnreadable as error:
            yield CannotInstall(template, str(error))
            continue
        wanted = wanted_manifest(kyma, template, component, mandatory=True, held=manifest)
        if wanted is None:
            yield CannotInstall(template, NOTHING_TO_INSTALL)
        elif manifest is None or differs(manifest, wanted):
            yield ApplyManifest(wanted)


def _deletions(offer: Offer, existing: Mapping[str, Manifest]) -> Iterator[DeleteManifest]:
    for module, manifest in sorted(existing.items()):
        is_wanted = module in offer.mandatory or module in offer.awaited
        if is_mandatory_manifest(manifest) and not is_wanted and not manifest.metadata.being_deleted:
            yield DeleteManifest(manifest.metadata.name)


def _makes_mandatory(release: Release, offer: Offer) -> bool:
    if isinstance(release, ModuleReleaseMeta):
        return release.spec.mandatory is not None
    chosen = offer.mandatory.get(module_of(release))
    return is_mandatory(release) or (chosen is not None and chosen.metadata.name == release.metadata.name)
