"""The rules of a module's configuration: whether it has one, what is read for it, and what is written.

May delete: the ModuleConfigs of a module without configuration, those of kinds that no module may have, and those
without a Module CR: that was read by name and does not exist, or a complete reading does not have it. None while it is
undecided, the SKR can't be read, or it does not serve the kind of the Module CR in any version: but where its CRD is
gone with the module, or another kind is named. A module that is removed, or that the Kyma may not have any more, keeps
the ModuleConfigs of all Module CRs that exist: as long as there are any, the status of the Kyma lists it.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import msgspec

from kube_runtime.resource import version_number
from lifecycle_manager.contract.signals import ObjectReference
from lifecycle_manager.contract.verdict import MODULE_CR_TOO_LARGE
from lifecycle_manager.module_config.reading import ModuleCr, Reading
from lifecycle_manager.module_config.snapshot import ModuleConfigSnapshot, size_of
from lifecycle_manager.module_config.status import (
    SyncedCondition,
    beyond_quota,
    failed,
    has_condition,
    is_incomplete,
    over_bytes,
    read_from,
    within_quota,
)
from lifecycle_manager_api import ModuleConfig, ResourceReference, State, joined_name, names
from lifecycle_manager_api.known_kinds import kind_refusal


@dataclass(frozen=True, slots=True)
class ApplyModuleConfig:
    name: str
    text: str
    reference: ResourceReference
    source: ObjectReference


@dataclass(frozen=True, slots=True)
class DeleteModuleConfig:
    """Delete a ModuleConfig in the foreground, so that objects made from it are deleted first.

    `by_users`: they have deleted its Module CR.
    """

    name: str
    by_users: bool = False


@dataclass(frozen=True, slots=True)
class SetCondition:
    name: str
    condition: SyncedCondition


Write = ApplyModuleConfig | DeleteModuleConfig | SetCondition


class NothingToRead(NamedTuple):
    """What is written where nothing is to be read, and whether the module is forgotten then."""

    writes: tuple[Write, ...] = ()
    forget: bool = False


def end_before_reading(seen: ModuleConfigSnapshot) -> NothingToRead | None:
    """Return the end of a reconcile that reads nothing, None where a module has a configuration.

    It has one while the status of the Kyma lists the module, which it does until the module is removed, unless the
    template disables it. A Kyma without a state (just created, or restored without its status) decides nothing, and its
    ModuleConfigs stay: they are deleted only when it is certain that they are not wanted.
    """
    if seen.item is None:
        return NothingToRead(_deletions(seen.existing), forget=True)
    if seen.item.status.state is State.EMPTY:
        return NothingToRead()
    is_listed = any(each.name == seen.module for each in seen.item.status.modules)
    is_enabled = seen.template is None or seen.template.spec.enable_module_config
    if not (is_listed and is_enabled):
        return NothingToRead(_deletions(seen.existing), forget=True)
    return NothingToRead() if seen.template is None and not seen.existing else None


def _deletions(configs: Iterable[ModuleConfig]) -> tuple[Write, ...]:
    """Return the deletions of ModuleConfigs that nobody wants."""
    return tuple(DeleteModuleConfig(each.metadata.name) for each in configs if not each.metadata.being_deleted)


def marks(seen: ModuleConfigSnapshot, condition: SyncedCondition) -> tuple[Write, ...]:
    """Return the writes where the Module CRs can't be read: each ModuleConfig says so, and keeps its text."""
    refused = tuple(filter(_is_of_refused_kind, seen.existing))
    others = (each for each in seen.existing if each not in refused and not has_condition(each, condition))
    return (*_deletions(refused), *(SetCondition(each.metadata.name, condition) for each in others))


def writes_of(seen: ModuleConfigSnapshot) -> tuple[Write, ...]:
    """Return the writes by which the ModuleConfigs follow what was read; those of refused kinds are deleted."""
    if seen.failure is not None:
        return marks(seen, failed(seen.failure))
    refused = tuple(filter(_is_of_refused_kind, seen.existing))
    others = replace(seen, existing=tuple(each for each in seen.existing if each not in refused)) if refused else seen
    return (*_deletions(refused), *_synchronized(others))


def acceptable(seen: ModuleConfigSnapshot) -> frozenset[ObjectReference]:
    """Return the Module CRs that are within the quota of objects: those with a ModuleConfig, then the oldest."""
    reading, named = seen.reading, seen.names
    known = {config.metadata.name for config in seen.existing if not _is_of_refused_kind(config)}
    absent = {named[reference] for reference, each in reading.found.items() if _is_gone(each)}
    present = reading.present
    with_config = {each.source for each in present if named[each.source] in known}
    room = max(0, seen.quota.max_objects - (len(with_config) if reading.complete else len(known - absent)))
    new = sorted((each for each in present if each.source not in with_config), key=_age)
    return frozenset(with_config.union(each.source for each in new[:room]))


def _synchronized(seen: ModuleConfigSnapshot) -> tuple[Write, ...]:
    """Return the writes, what was announced first, and the deletions of ModuleConfigs without Module CR.

    A Module CR that was read by name and does not exist has its ModuleConfig deleted by name, whether that is known or
    not. What was accepted before stays within the quota; of the others the newest exceed it.
    """
    reading, existing = seen.reading, {config.metadata.name: config for config in seen.existing}
    urgent: list[Write] = []
    steps: list[Write] = []
    exceeding: list[ModuleCr] = []
    absent = {name for name, config in existing.items() if _was_read(config, reading)}
    present: set[str] = set()
    for reference, module_cr in reading.found.items():
        name = seen.names[reference]
        (absent if _is_gone(module_cr) else present).add(name)
    deleted = absent - present
    size = sum(size_of(config.spec.resource) for name, config in existing.items() if name not in deleted)
    for module_cr in sorted(reading.present, key=_age):
        read = module_cr
        name = seen.names[module_cr.source]
        config = existing.get(name)
        if module_cr.source not in seen.accepted:
            exceeding.append(module_cr)
            continue
        if module_cr.is_unread:
            continue  # read again soon
        is_past = module_cr.source in seen.superseded or (config is not None and _is_newer(config, module_cr.reference))
        if is_past and not reading.complete:
            continue
        growth = size_of(module_cr.text or "") - (size_of(config.spec.resource) if config is not None else 0)
        is_larger = module_cr.problem is None and growth > 0
        if is_larger and size + growth > seen.quota.max_bytes:
            if config is None:
                exceeding.append(module_cr)
                continue
            read = replace(module_cr, problem=over_bytes(module_cr.source, seen.quota.max_bytes))
        elif module_cr.problem is None:
            size += growth
        (urgent if module_cr.source in seen.traces else steps).extend(_writes(config, name, read))
    being_deleted = {name for name, config in existing.items() if config.metadata.being_deleted}
    deletions = (DeleteModuleConfig(name, by_users=True) for name in sorted(deleted - being_deleted))
    return (*urgent, *steps, *_report(seen, [each.source for each in exceeding], deleted), *deletions)


def _report(
    seen: ModuleConfigSnapshot, exceeding: Sequence[ObjectReference], deleted: Collection[str]
) -> tuple[Write, ...]:
    """Return the step by which one ModuleConfig names what exceeds the quota, or says that nothing does any more."""
    if not exceeding and not seen.reading.complete:
        return ()
    configs = sorted(
        (each for each in seen.existing if each.metadata.name not in deleted and not each.metadata.being_deleted),
        key=lambda each: (not is_incomplete(each), each.metadata.name),
    )
    if exceeding and configs:
        quota = seen.quota
        condition = beyond_quota(exceeding, max_objects=quota.max_objects, max_bytes=quota.max_bytes)
        if is_incomplete(configs[0]) and not seen.reading.complete:
            return ()  # the complete reading named all of them
        return () if has_condition(configs[0], condition) else (SetCondition(configs[0].metadata.name, condition),)
    if seen.reading.complete:
        return tuple(SetCondition(each.metadata.name, within_quota()) for each in configs if is_incomplete(each))
    return ()


def _writes(config: ModuleConfig | None, name: str, module_cr: ModuleCr) -> tuple[Write, ...]:
    if config is not None and config.metadata.being_deleted:
        return ()  # written again after the deletion
    reference, source = module_cr.reference, module_cr.source
    if module_cr.problem is not None:  # the last text that could be read stays
        mark = SetCondition(name, module_cr.problem)
        if config is None:
            is_final = module_cr.problem.reason == MODULE_CR_TOO_LARGE
            return (ApplyModuleConfig(name, "", reference, source), mark) if is_final else ()
        return () if has_condition(config, mark.condition) else (mark,)
    text = module_cr.text or ""
    steps: list[Write] = []
    is_same = config is not None and config.spec.resource == text and _is_same(config.spec.resource_ref, reference)
    if not is_same or (config is not None and _lacks_labels(config)):
        steps.append(ApplyModuleConfig(name, text, reference, source))
    condition = read_from(source)
    if config is None or not has_condition(config, condition):
        steps.append(SetCondition(name, condition))
    return tuple(steps)


def labels_of(kyma: str, module: str) -> dict[str, str]:
    """Return the labels of a ModuleConfig, by which its Module Manager finds it."""
    return {names.KYMA_NAME: kyma, names.MODULE_NAME: module, names.MANAGED_BY: names.LIFECYCLE_MANAGER}


def _lacks_labels(config: ModuleConfig) -> bool:
    return not labels_of(config.spec.kyma, config.spec.module).items() <= config.metadata.labels.items()


def _is_same(known: ResourceReference | None, read: ResourceReference) -> bool:
    """Tell whether two references are of one object and generation; the version changes with its status, too."""
    return known is not None and msgspec.structs.replace(known, resource_version=read.resource_version) == read


def _is_newer(config: ModuleConfig, read: ResourceReference) -> bool:
    """Tell whether a ModuleConfig holds a later version of the same object than the one that was read.

    Resource versions of one object can be compared as integers (KEP-5504). A cluster that was restored from a backup
    starts again at older ones, so a complete reading always counts.
    """
    known = config.spec.resource_ref
    if known is None or known.uid != read.uid:
        return False
    return 0 < version_number(read.resource_version) < version_number(known.resource_version)


def _is_of_refused_kind(config: ModuleConfig) -> bool:
    """Tell whether a ModuleConfig has the text of an object of which no module may have the kind, such as a Secret."""
    known = config.spec.resource_ref
    return known is not None and kind_refusal(known.api_version, known.kind) is not None


def _was_read(config: ModuleConfig, reading: Reading) -> bool:
    """Tell whether the reading has the Module CR of a ModuleConfig if that exists."""
    known = config.spec.resource_ref
    if known is not None and ObjectReference.to(known) in reading.staying:
        return False
    if not reading.complete or reading.served is None:
        return reading.complete
    return known is not None and (known.api_version.rpartition("/")[0], known.kind) in reading.served


def _is_gone(module_cr: ModuleCr | None) -> bool:
    return module_cr is None or module_cr.is_deleting


def config_names(
    kyma: str,
    module: str,
    default: ObjectReference | None,
    references: Iterable[ObjectReference],
    *,
    own: Collection[str],
    is_taken: Callable[[str], bool],
) -> Mapping[ObjectReference, str]:
    """Return the names of the ModuleConfigs of Module CRs: the one each has, or else one that nobody has.

    `own` are those of the module's ModuleConfigs; `is_taken` tells whether another Kyma or module has a name.
    """
    named = {each: usual_name(kyma, module, default, each) for each in references}
    taken = set(filter(is_taken, named.values()))
    if not taken and set(own).issubset(named.values()):
        return named  # thousands, and to make each of the other names takes time
    for reference, usual in named.items():
        if usual not in own:
            distinct = distinct_name(kyma, module, reference)
            named[reference] = distinct if distinct in own or usual in taken else usual
    return named


def usual_name(kyma: str, module: str, default: ObjectReference | None, reference: ObjectReference) -> str:
    """Return the name of the ModuleConfig of a Module CR; all but the default one have a hash in it.

    It may be that of another Kyma and module, too: `a` with `b-c`, and `a-b` with `c`.
    """
    if reference == default:
        return joined_name(kyma, module)
    return joined_name(kyma, module, distinct_by="/".join(reference))


def distinct_name(kyma: str, module: str, reference: ObjectReference) -> str:
    """Return the name of the ModuleConfig of a Module CR where another Kyma or module has the usual one."""
    return joined_name(kyma, module, distinct_by="/".join((kyma, module, *reference)))


def _age(module_cr: ModuleCr) -> tuple[str, ObjectReference]:
    return (module_cr.created, module_cr.source)
