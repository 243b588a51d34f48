"""The rules of a module's configuration: whether it has one, what is read for it, and what is written.

May delete: the ModuleConfigs of a module without configuration, those of kinds that no module may have, and those
without a Module CR: that was read by name and does not exist, or a complete reading does not have it. None while it is
undecided, the SKR can't be read, or it does not serve the kind of the Module CR in any version: but where a module is
removed whose CRD is gone. A module that is removed, or that the Kyma may not have any more, keeps the ModuleConfigs of
all Module CRs that exist: as long as there are any, the status of the Kyma lists it.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import msgspec

from kube_runtime import End, Step
from kube_runtime.resource import version_number
from lifecycle_manager.contract.signals import ObjectReference
from lifecycle_manager.contract.verdict import MODULE_CR_TOO_LARGE
from lifecycle_manager.module_config.keys import distinct_name, usual_names
from lifecycle_manager.module_config.reading import ModuleCr, Reading
from lifecycle_manager.module_config.snapshot import ModuleConfigSnapshot
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
from lifecycle_manager_api import Kyma, ModuleConfig, ModuleTemplate, ResourceReference, State
from lifecycle_manager_api.known_kinds import kind_refusal


@dataclass(frozen=True, slots=True)
class Undecided:
    """It is not known yet whether a module has a configuration; its ModuleConfigs stay as they are."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A module has a configuration, of the kinds in this template; without one, of those that its ModuleConfigs name.

    New Module CRs wait for the template.
    """

    template: ModuleTemplate | None


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


@dataclass(frozen=True, slots=True)
class ReadModuleCrs(Step):
    """Read Module CRs, and make the texts of those that are accepted."""

    template: ModuleTemplate | None


@dataclass(frozen=True, slots=True)
class WriteToKcp(Step):
    """Apply, delete and mark ModuleConfigs, in this order."""

    writes: tuple[Write, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleConfigEnd(End):
    """The end of a reconcile.

    - `forgets`: the module has no configuration, and nothing about it is remembered
    - `waits`: there is nothing to read yet
    - `settles`: what was announced was read, and shows the change or has to be read again
    """

    forgets: bool = False
    waits: bool = False
    settles: bool = False


ModuleConfigStep = ReadModuleCrs | WriteToKcp


def plan(seen: ModuleConfigSnapshot) -> ModuleConfigStep | ModuleConfigEnd:
    if (error := seen.failure_of(WriteToKcp)) is not None:
        return ModuleConfigEnd(error=error)
    match decide(seen.item, seen.module, seen.template):
        case Undecided():
            return ModuleConfigEnd()
        case Wanted(None) if not seen.existing:
            return ModuleConfigEnd()
        case None:
            return _write(seen) or ModuleConfigEnd(forgets=True)
        case Wanted(template):
            return _synchronize(seen, template)


def _synchronize(seen: ModuleConfigSnapshot, template: ModuleTemplate | None) -> ModuleConfigStep | ModuleConfigEnd:
    if seen.error is not None:
        return _write(replace(seen, unreadable=failed(seen.error))) or ModuleConfigEnd(error=seen.error)
    if not (seen.reads.named or seen.reads.complete):
        return ModuleConfigEnd(waits=True)
    if seen.reading is None:
        return ReadModuleCrs(template)
    return _write(seen) or ModuleConfigEnd(settles=True)


def _write(seen: ModuleConfigSnapshot) -> WriteToKcp | None:
    """Return the step with all writes; None where there are none, or they were carried out."""
    writes = () if seen.written else writes_of(seen)
    return WriteToKcp(writes) if writes else None


def decide(kyma: Kyma | None, module: str, template: ModuleTemplate | None) -> Wanted | Undecided | None:
    """Return whether a module has a configuration; None where it has none.

    It has one while the status of the Kyma lists the module, which it does until the module is removed, unless the
    template disables it. A Kyma without a state (just created, or restored without its status) decides nothing:
    ModuleConfigs are deleted only when it is certain that they are not wanted.
    """
    if kyma is None:
        return None
    if kyma.status.state is State.EMPTY:
        return Undecided()
    is_listed = any(each.name == module for each in kyma.status.modules)
    is_enabled = template is None or template.spec.enable_module_config
    return Wanted(template) if is_listed and is_enabled else None


def writes_of(seen: ModuleConfigSnapshot) -> tuple[Write, ...]:
    """Return the writes for one module's ModuleConfigs, in their order; those of kinds of Kubernetes are deleted."""
    if refused := tuple(filter(_is_of_refused_kind, seen.existing)):
        others = replace(seen, existing=tuple(each for each in seen.existing if each not in refused))
        return (*_deletions(replace(seen, existing=refused)), *writes_of(others))
    if seen.unreadable is not None:
        return tuple(
            SetCondition(config.metadata.name, seen.unreadable)
            for config in seen.existing
            if not has_condition(config, seen.unreadable)
        )
    if seen.reading is None:
        return _deletions(seen)
    return _steps_after(seen, seen.reading)


def acceptable(seen: ModuleConfigSnapshot, reading: Reading) -> frozenset[ObjectReference]:
    """Return the Module CRs that are within the quota of objects: those with a ModuleConfig, then the oldest."""
    known, named = {config.metadata.name for config in seen.existing}, _names(seen, reading)
    absent = {named[reference] for reference, each in reading.found.items() if _is_gone(each)}
    present = reading.present
    with_config = {each.source for each in present if named[each.source] in known}
    room = max(0, seen.quota.max_objects - (len(with_config) if reading.complete else len(known - absent)))
    new = sorted((each for each in present if each.source not in with_config), key=_age)
    return frozenset(with_config.union(each.source for each in new[:room]))


def exceeds_quota(seen: ModuleConfigSnapshot, reading: Reading, accepted: Collection[ObjectReference]) -> bool:
    """Tell whether Module CRs that were read wait for room in the quota."""
    present = reading.present
    size = sum(_size(each.text or "") for each in present)
    return len(present) > len(accepted) or size > seen.quota.max_bytes


def _steps_after(seen: ModuleConfigSnapshot, reading: Reading) -> tuple[Write, ...]:
    """Return the writes, what was announced first, and the deletions of ModuleConfigs without Module CR.

    A Module CR that was read by name and does not exist has its ModuleConfig deleted by name, whether that is known or
    not. What was accepted before stays within the quota; of the others the newest exceed it.
    """
    existing = {config.metadata.name: config for config in seen.existing}
    named = _names(seen, reading)
    accepted = acceptable(seen, reading)
    announced, urgent = {each.object for each in seen.pending}, list[Write]()
    steps: list[Write] = []
    exceeding: list[ModuleCr] = []
    absent = {name for name, config in existing.items() if _was_read(config, reading)}
    present: set[str] = set()
    for reference, module_cr in reading.found.items():
        name = named[reference]
        (absent if _is_gone(module_cr) else present).add(name)
    deleted = absent - present
    size = sum(_size(config.spec.resource) for name, config in existing.items() if name not in deleted)
    for module_cr in sorted(reading.present, key=_age):
        read = module_cr
        name = named[module_cr.source]
        config = existing.get(name)
        if module_cr.source not in accepted:
            exceeding.append(module_cr)
            continue
        if module_cr.is_unread:
            continue  # read again soon
        is_past = module_cr.source in seen.superseded or (config is not None and _is_newer(config, module_cr.reference))
        if is_past and not reading.complete:
            continue
        growth = _size(module_cr.text or "") - (_size(config.spec.resource) if config is not None else 0)
        is_larger = module_cr.problem is None and growth > 0
        if is_larger and size + growth > seen.quota.max_bytes:
            if config is None:
                exceeding.append(module_cr)
                continue
            read = replace(module_cr, problem=over_bytes(module_cr.source, seen.quota.max_bytes))
        elif module_cr.problem is None:
            size += growth
        (urgent if module_cr.source in announced else steps).extend(_writes(config, name, read))
    being_deleted = {name for name, config in existing.items() if config.metadata.being_deleted}
    deletions = (DeleteModuleConfig(name, by_users=True) for name in sorted(deleted - being_deleted))
    return (*urgent, *steps, *_report(seen, reading, [each.source for each in exceeding], deleted), *deletions)


def _report(
    seen: ModuleConfigSnapshot, reading: Reading, exceeding: Sequence[ObjectReference], deleted: Collection[str]
) -> tuple[Write, ...]:
    """Return the step by which one ModuleConfig names what exceeds the quota, or says that nothing does any more."""
    if not exceeding and not reading.complete:
        return ()
    configs = sorted(
        (each for each in seen.existing if each.metadata.name not in deleted and not each.metadata.being_deleted),
        key=lambda each: (not is_incomplete(each), each.metadata.name),
    )
    if exceeding and configs:
        quota = seen.quota
        condition = beyond_quota(exceeding, max_objects=quota.max_objects, max_bytes=quota.max_bytes)
        if is_incomplete(configs[0]) and not reading.complete:
            return ()  # the complete reading named all of them
        return () if has_condition(configs[0], condition) else (SetCondition(configs[0].metadata.name, condition),)
    if reading.complete:
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
    if config is None or config.spec.resource != text or not _is_same(config.spec.resource_ref, reference):
        steps.append(ApplyModuleConfig(name, text, reference, source))
    condition = read_from(source)
    if config is None or not has_condition(config, condition):
        steps.append(SetCondition(name, condition))
    return tuple(steps)


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


def _deletions(seen: ModuleConfigSnapshot) -> tuple[Write, ...]:
    return tuple(DeleteModuleConfig(each.metadata.name) for each in seen.existing if not each.metadata.being_deleted)


def _is_of_refused_kind(config: ModuleConfig) -> bool:
    """Tell whether a ModuleConfig has the text of an object of which no module may have the kind, such as a Secret."""
    known = config.spec.resource_ref
    return known is not None and kind_refusal(known.api_version, known.kind) is not None


def _was_read(config: ModuleConfig, reading: Reading) -> bool:
    """Tell whether the reading has the Module CR of a ModuleConfig if that exists."""
    if not reading.complete or reading.served is None:
        return reading.complete
    known = config.spec.resource_ref
    return known is not None and (known.api_version.rpartition("/")[0], known.kind) in reading.served


def _is_gone(module_cr: ModuleCr | None) -> bool:
    return module_cr is None or module_cr.is_deleting


def _names(seen: ModuleConfigSnapshot, reading: Reading) -> dict[ObjectReference, str]:
    """Return the names of the ModuleConfigs of all Module CRs: the one each has, or else one that nobody has."""
    usual = seen.usual_names or usual_names(seen.kyma, seen.module, reading.default, reading.found)
    existing = {config.metadata.name for config in seen.existing}
    if not seen.taken and existing.issubset(usual.values()):
        return dict(usual)  # thousands, and to make each of the other names takes time

    def name_of(reference: ObjectReference) -> str:
        if usual[reference] in existing:
            return usual[reference]
        distinct = distinct_name(seen.kyma, seen.module, reference)
        return distinct if distinct in existing or usual[reference] in seen.taken else usual[reference]

    return {reference: name_of(reference) for reference in reading.found}


def _age(module_cr: ModuleCr) -> tuple[str, ObjectReference]:
    return (module_cr.created, module_cr.source)


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())
