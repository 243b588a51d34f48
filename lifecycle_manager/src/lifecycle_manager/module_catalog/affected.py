"""Which Kymas a change of the catalog affects, found by the indexes of the informer of Kymas."""

from collections.abc import Iterable
from typing import Any

import msgspec

from kube_runtime import Change, Controller, Informer, Manager, ObjectKey, Priority
from lifecycle_manager.contract.changes import metadata_changed, versions
from lifecycle_manager.contract.indexes import BY_CHANNEL, BY_MODULE, BY_TEMPLATE
from lifecycle_manager.contract.resources import DATED_RELEASE_METAS, KYMAS, MODULE_TEMPLATES, DatedReleaseMeta
from lifecycle_manager.module_catalog.identity import module_of, version_of
from lifecycle_manager_api import Kyma, ModuleReleaseMeta, ModuleTemplate, PinnedLink, names


def offer_changed(change: Change[ModuleTemplate] | Change[DatedReleaseMeta]) -> bool:
    """Tell whether a ModuleTemplate or ModuleReleaseMeta was created, deleted, or changed in spec, metadata or
    the content of its link.
    """
    old, new = change.old, change.new
    return (
        old is None
        or new is None
        or old.spec != new.spec
        or _pinned_link(old) != _pinned_link(new)
        or old.metadata.finalizers != new.metadata.finalizers
        or metadata_changed(old.metadata, new.metadata)
    )


def _pinned_link(item: ModuleTemplate | DatedReleaseMeta) -> PinnedLink | None:
    return item.status.pinned_link if isinstance(item, ModuleTemplate) else None


def is_for_rollouts(change: Change[DatedReleaseMeta]) -> bool:
    """Tell whether nothing changed but the versions of channels, of a module whose rollouts bring them to the Kymas."""
    old, new = change.old, change.new
    if old is None or new is None or old.metadata.annotations != new.metadata.annotations:
        return False
    if names.ROLLOUT_STRATEGY not in new.metadata.annotations or metadata_changed(old.metadata, new.metadata):
        return False
    same = msgspec.structs.replace(new.spec, channels=old.spec.channels)
    return same == old.spec and _channels(old) == _channels(new)


def _channels(release: DatedReleaseMeta) -> set[str]:
    return {each.channel for each in release.spec.channels}


def kymas_using_template(
    template: ModuleTemplate, *, kymas: Informer[Kyma], releases: Informer[DatedReleaseMeta]
) -> Iterable[Kyma]:
    """Return the Kymas with a module of this template, and those in a channel that has the template's version."""
    module = module_of(template)
    channels = {template.spec.channel} if template.spec.channel else set()
    for release in releases.cache.list():
        if release.spec.module_name == module:
            channels |= {each.channel for each in release.spec.channels if each.version == version_of(template)}
    in_channels = (kymas.by_index(BY_CHANNEL, f"{module}/{channel}") for channel in channels)
    return _distinct([kymas.by_index(BY_TEMPLATE, template.metadata.name), *in_channels])


def kymas_using_release(change: Change[DatedReleaseMeta], *, kymas: Informer[Kyma]) -> Iterable[Kyma]:
    """Return the Kymas in channels whose version changed; if more changed, all Kymas that have the module."""
    old, new = change.old, change.new
    if old is None or new is None or _differs_beyond_channels(old, new):
        return _distinct(kymas.by_index(BY_MODULE, each.spec.module_name) for each in versions(change))
    before = {each.channel: each.version for each in old.spec.channels}
    after = {each.channel: each.version for each in new.spec.channels}
    changed = [channel for channel in before.keys() | after.keys() if before.get(channel) != after.get(channel)]
    return _distinct(kymas.by_index(BY_CHANNEL, f"{new.spec.module_name}/{each}") for each in changed)


def watch_offer(controller: Controller[ObjectKey, Any], manager: Manager) -> None:
    """Have all Kymas reconciled after a change of the catalog, after whatever users wait for.

    Every SKR has a catalog and the mandatory modules.
    """
    kymas = manager.informer(KYMAS)

    def all_kymas(_change: object) -> Iterable[ObjectKey]:
        return kymas.cache.keys()

    templates, releases = manager.informer(MODULE_TEMPLATES), manager.informer(DATED_RELEASE_METAS)
    controller.watches(templates, to=all_kymas, when=offer_changed, priority=Priority.RESYNC)
    controller.watches(releases, to=all_kymas, when=offer_changed, priority=Priority.RESYNC)


def _distinct(found: Iterable[Iterable[Kyma]]) -> Iterable[Kyma]:
    return {kyma.metadata.name: kyma for kymas in found for kyma in kymas}.values()


def _differs_beyond_channels(old: ModuleReleaseMeta, new: ModuleReleaseMeta) -> bool:
    def compared(release: ModuleReleaseMeta) -> tuple[object, ...]:
        spec, metadata = release.spec, release.metadata
        own = {key: value for key, value in metadata.annotations.items() if key.startswith(f"{names.GROUP}/")}
        return (msgspec.structs.replace(spec, channels=()), metadata.deletion_timestamp, metadata.labels, own)

    return compared(old) != compared(new)
