"""The rules of mandatory modules: which Manifests a Kyma has, and which releases keep the finalizer.

May delete: the Manifests of modules that were mandatory and are not any more. A Manifest of a module that a user chose
is never deleted here, nor any while the mandatory version has no ModuleTemplate. While one change would delete very
many, or KCP has nothing of the module, an operator has to say so (`skr.removals`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kyma_oci import DescriptorUnreadable
from lifecycle_manager.contract.conditions import is_introduced
from lifecycle_manager.mandatory_modules.snapshot import InstallationSnapshot, Release, RetirementSnapshot
from lifecycle_manager.module_catalog.identity import module_of, version_of
from lifecycle_manager.module_catalog.manifests import (
    differs,
    is_mandatory_manifest,
    module_of_manifest,
    wanted_manifest,
)
from lifecycle_manager.module_catalog.offer import Offer, is_mandatory
from lifecycle_manager.rollout.releases import released_by, version_for_new
from lifecycle_manager.rollout.target import MANDATORY_CHANNEL
from lifecycle_manager_api import Manifest, ModuleReleaseMeta, ModuleTemplate, names

NO_TEMPLATE = "the mandatory version has no ModuleTemplate"
NOTHING_TO_INSTALL = "the ModuleTemplate has neither a layer nor a link with objects to install"


@dataclass(frozen=True, slots=True)
class CannotInstall:
    """Why the module of a template or release can't be installed."""

    release: Release
    why: str


@dataclass(frozen=True, slots=True)
class Changes:
    """The Manifests to apply and, by their names, to delete, and the modules that can't be installed."""

    apply: tuple[Manifest, ...] = ()
    delete: tuple[str, ...] = ()
    cannot: tuple[CannotInstall, ...] = ()


def changes_of(seen: InstallationSnapshot) -> Changes:
    """Return what a Kyma needs.

    The modules of a Kyma that is being deleted are removed by its own controller. Nothing is installed before the SKR
    was read once, nor in an SKR that belongs to another Kyma.
    """
    kyma = seen.kyma
    if kyma.metadata.being_deleted or names.KYMA_FINALIZER not in kyma.metadata.finalizers:
        return Changes()
    existing = {module_of_manifest(each): each for each in seen.manifests}
    delete = tuple(_deletions(seen.offer, {name: each for name, each in existing.items() if name not in seen.held}))
    if kyma.metadata.is_paused or not is_introduced(kyma):
        return Changes(delete=delete)
    wanted = tuple(_installations(seen, existing))
    return Changes(
        apply=tuple(each for each in wanted if isinstance(each, Manifest)),
        delete=delete,
        cannot=tuple(each for each in wanted if isinstance(each, CannotInstall)),
    )


def has_wrong_finalizer(seen: RetirementSnapshot) -> bool:
    """Tell whether a release lacks the finalizer although it has to have it, or the other way round.

    One that is being deleted gets no finalizer any more: API servers refuse it.
    """
    metadata = seen.release.metadata
    if names.MANDATORY_FINALIZER in metadata.finalizers:
        return not is_held(seen)
    return not metadata.being_deleted and is_held(seen)


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


def _installations(seen: InstallationSnapshot, existing: Mapping[str, Manifest]) -> Iterator[Manifest | CannotInstall]:
    kyma, offer = seen.kyma, seen.offer
    for module in sorted(offer.awaited):
        yield CannotInstall(offer.releases[module], NO_TEMPLATE)
    for _, disagreeing in sorted(offer.kept.items()):
        yield CannotInstall(disagreeing.template, disagreeing.why)
    for module, current in sorted(offer.mandatory.items()):
        manifest = existing.get(module)
        if manifest is not None and manifest.metadata.being_deleted:
            continue  # created again after the deletion
        template = _released(seen, module, current, manifest)
        if template is None:
            continue  # what is installed stays until the rollout releases the change to this cluster
        try:
            component = offer.component(template)
        except DescriptorUnreadable as error:
            yield CannotInstall(template, str(error))
            continue
        default = offer.default_cr(template)
        wanted = wanted_manifest(kyma, template, component, default_cr=default, mandatory=True, held=manifest)
        if wanted is None:
            yield CannotInstall(template, NOTHING_TO_INSTALL)
        elif manifest is None or differs(manifest, wanted):
            yield wanted


def _released(
    seen: InstallationSnapshot, module: str, current: ModuleTemplate, manifest: Manifest | None
) -> ModuleTemplate | None:
    """Return the template of a module that a Kyma may have now; None where it keeps what is installed."""
    channels = seen.rollouts.get(module)
    if channels is None:
        return current
    rollouts = channels.get(MANDATORY_CHANNEL)
    if manifest is None or not is_mandatory_manifest(manifest):
        version = version_for_new(rollouts, seen.kyma.metadata.labels) if rollouts is not None else version_of(current)
    else:
        release = released_by(rollouts[0], manifest.status.release) if rollouts is not None else None
        if release is None or (module, MANDATORY_CHANNEL) in seen.changed_templates:
            return None
        version = release.version
    return current if version == version_of(current) else seen.offer.installed(module, version) or current


def _deletions(offer: Offer, existing: Mapping[str, Manifest]) -> Iterator[str]:
    wanted = offer.required
    for module, manifest in sorted(existing.items()):
        is_wanted = module in wanted or not module  # it has lost the label
        if is_mandatory_manifest(manifest) and not is_wanted and not manifest.metadata.being_deleted:
            yield manifest.metadata.name


def _makes_mandatory(release: Release, offer: Offer) -> bool:
    if isinstance(release, ModuleReleaseMeta):
        return release.spec.mandatory is not None
    chosen = offer.mandatory.get(module_of(release))
    return is_mandatory(release) or (chosen is not None and chosen.metadata.name == release.metadata.name)
