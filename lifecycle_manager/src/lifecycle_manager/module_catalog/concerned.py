"""Which Kymas a change of the catalog concerns, found by the indexes of the informer of Kymas."""

from collections.abc import Iterable
from typing import NamedTuple

from kube_runtime import Change, Informer
from lifecycle_manager.indexes import BY_CHANNEL, BY_MODULE, BY_TEMPLATE
from lifecycle_manager.kyma_changes import metadata_changed
from lifecycle_manager.module_catalog.offer import is_mandatory, module_of, version_of
from lifecycle_manager.resources import DatedReleaseMeta
from lifecycle_manager_api import Kyma, ModuleReleaseMeta, ModuleTemplate


def offer_changed(change: Change[ModuleTemplate] | Change[DatedReleaseMeta]) -> bool:
    """Tell whether a ModuleTemplate or ModuleReleaseMeta was created, deleted, or changed in spec or metadata."""
    old, new = change.old, change.new
    return (
        old is None
        or new is None
        or old.spec != new.spec
        or old.metadata.finalizers != new.metadata.finalizers
        or metadata_changed(old.metadata, new.metadata)
    )


def who_has_template(
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


def who_has_release(change: Change[DatedReleaseMeta], *, kymas: Informer[Kyma]) -> Iterable[Kyma]:
    """Return the Kymas in channels whose version changed; if more changed, all Kymas that have the module."""
    old, new = change.old, change.new
    if old is None or new is None or _differs_beyond_channels(old, new):
        modules = {each.spec.module_name for each in (new or old,) if each is not None}
        return _distinct(kymas.by_index(BY_MODULE, module) for module in modules)
    before = {each.channel: each.version for each in old.spec.channels}
    after = {each.channel: each.version for each in new.spec.channels}
    changed = [channel for channel in before.keys() | after.keys() if before.get(channel) != after.get(channel)]
    return _distinct(kymas.by_index(BY_CHANNEL, f"{new.spec.module_name}/{each}") for each in changed)


class Concerned(NamedTuple):
    """What a change of the catalog concerns: the catalogs in the SKRs, the mandatory modules, or both."""

    catalogs: bool
    mandatory: bool


def concerned_by_template(
    change: Change[ModuleTemplate], *, templates: Informer[ModuleTemplate], releases: Informer[DatedReleaseMeta]
) -> Concerned:
    """Return what a ModuleTemplate is part of, before or after the change.

    A mandatory template removes the other templates of its module from the catalogs, and its deletion adds them again.
    """
    versions = [each for each in (change.old, change.new) if each is not None]
    modules = {module_of(each) for each in versions}
    mandatory = [is_mandatory(each) for each in versions]
    released_as_mandatory = any(
        each.spec.mandatory is not None and each.spec.module_name in modules for each in releases.cache.list()
    )
    others = any(module_of(each) in modules and not is_mandatory(each) for each in templates.cache.list())
    return Concerned(
        catalogs=not released_as_mandatory and (others or not all(mandatory)),
        mandatory=released_as_mandatory or any(mandatory),
    )


def concerned_by_release(change: Change[DatedReleaseMeta]) -> Concerned:
    """Return what a ModuleReleaseMeta is part of, before or after the change."""
    mandatory = [each.spec.mandatory is not None for each in (change.old, change.new) if each is not None]
    return Concerned(catalogs=not all(mandatory), mandatory=any(mandatory))


def _distinct(found: Iterable[Iterable[Kyma]]) -> Iterable[Kyma]:
    return {kyma.metadata.name: kyma for kymas in found for kyma in kymas}.values()


def _differs_beyond_channels(old: ModuleReleaseMeta, new: ModuleReleaseMeta) -> bool:
    return (
        (old.spec.module_name, old.spec.beta, old.spec.internal, old.spec.kyma_selector, old.spec.mandatory)
        != (new.spec.module_name, new.spec.beta, new.spec.internal, new.spec.kyma_selector, new.spec.mandatory)
        or old.metadata.labels != new.metadata.labels
        or old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
    )
