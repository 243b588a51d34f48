"""Whom a change of the catalog concerns: found by the indexes of the Kymas, so that nobody else is woken."""

from collections.abc import Iterable
from typing import NamedTuple

from kube_runtime import Change
from lifecycle_manager.informers import Informers
from lifecycle_manager.module_catalog import is_mandatory, module_of
from lifecycle_manager.module_catalog.offer import version_of
from lifecycle_manager.resources import DatedReleaseMeta
from lifecycle_manager_api import Kyma, ModuleTemplate


def who_has_template(informers: Informers, template: ModuleTemplate) -> Iterable[Kyma]:
    """Return the Kymas whose module resolved to a template, and those that take a channel which stands for it."""
    module, cache = module_of(template), informers.kymas.cache
    channels = {template.spec.channel} if template.spec.channel else set()
    for release in informers.releases.cache.list():
        if release.spec.module_name == module:
            channels |= {each.channel for each in release.spec.channels if each.version == version_of(template)}
    found = {kyma.metadata.name: kyma for kyma in cache.by_index("template", template.metadata.name)}
    for channel in channels:
        found |= {kyma.metadata.name: kyma for kyma in cache.by_index("channel", f"{module}/{channel}")}
    return found.values()


def who_has_release(informers: Informers, change: Change[DatedReleaseMeta]) -> Iterable[Kyma]:
    """Return the Kymas of the channels that have another version; where more has changed, all that have the module."""
    old, new, cache = change.old, change.new, informers.kymas.cache
    if old is None or new is None or _differs_beyond_channels(old, new):
        module = (new or old).spec.module_name if new or old else ""  # type: ignore[union-attr]  # one of them is there
        return cache.by_index("module", module)
    before = {each.channel: each.version for each in old.spec.channels}
    after = {each.channel: each.version for each in new.spec.channels}
    moved = [channel for channel in before.keys() | after.keys() if before.get(channel) != after.get(channel)]
    found = [cache.by_index("channel", f"{new.spec.module_name}/{channel}") for channel in moved]
    return {kyma.metadata.name: kyma for kymas in found for kyma in kymas}.values()


class Concerned(NamedTuple):
    """Which part of the catalog a change is about: what users choose from, or what every cluster gets."""

    catalogs: bool
    mandatory: bool


def concerned_by_template(informers: Informers, change: Change[ModuleTemplate]) -> Concerned:
    """Tell what a ModuleTemplate is part of, and what it was part of before.

    A mandatory one takes the others of its module out of the catalogs, or gives them back.
    """
    versions = [each for each in (change.old, change.new) if each is not None]
    named = any(
        release.spec.mandatory is not None and release.spec.module_name in map(module_of, versions)
        for release in informers.releases.cache.list()
    )
    said = [is_mandatory(each) for each in versions]
    others = any(
        module_of(each) in set(map(module_of, versions)) and not is_mandatory(each)
        for each in informers.templates.cache.list()
    )
    return Concerned(catalogs=not named and (others or not all(said)), mandatory=named or any(said))


def concerned_by_release(change: Change[DatedReleaseMeta]) -> Concerned:
    """Tell what a ModuleReleaseMeta is part of, and what it was part of before."""
    said = [each.spec.mandatory is not None for each in (change.old, change.new) if each is not None]
    return Concerned(catalogs=not all(said), mandatory=any(said))


def _differs_beyond_channels(old: DatedReleaseMeta, new: DatedReleaseMeta) -> bool:
    return (
        (old.spec.module_name, old.spec.beta, old.spec.internal, old.spec.kyma_selector, old.spec.mandatory)
        != (new.spec.module_name, new.spec.beta, new.spec.internal, new.spec.kyma_selector, new.spec.mandatory)
        or old.metadata.labels != new.metadata.labels
        or old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
    )
