"""The rules of a module's configuration: whether it has one, and which ModuleConfigs to write, delete or mark."""

from collections.abc import Collection
from dataclasses import dataclass

import msgspec

from kube_runtime import dump_yaml
from lifecycle_manager.module_config.snapshot import JsonObject, Reading, Snapshot
from lifecycle_manager.module_config.status import SyncedCondition, has_condition, read_from, too_large
from lifecycle_manager.signals import ObjectReference
from lifecycle_manager_api import Kyma, ModuleConfig, ModuleTemplate, State, joined_name
from lifecycle_manager_api import ObjectReference as ResourceReference

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
# etcd stores objects of up to 1.5 MiB. The text is one of several fields, and its size is that of the JSON string.
MAX_TEXT_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Undecided:
    """It is not known yet whether a module has a configuration; its ModuleConfigs stay as they are."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A module has a configuration, of the kinds in this template."""

    template: ModuleTemplate


@dataclass(frozen=True, slots=True)
class WriteModuleConfig:
    """Apply a ModuleConfig with the text of a Module CR."""

    name: str
    text: str
    reference: ResourceReference
    source: ObjectReference


@dataclass(frozen=True, slots=True)
class DeleteModuleConfig:
    """Delete a ModuleConfig in the foreground, so that objects made from it are deleted first."""

    name: str


@dataclass(frozen=True, slots=True)
class SetCondition:
    """Write the condition `Synced` of a ModuleConfig."""

    name: str
    condition: SyncedCondition


Step = WriteModuleConfig | DeleteModuleConfig | SetCondition


def decide(kyma: Kyma | None, module: str, template: ModuleTemplate | None) -> Wanted | Undecided | None:
    """Return whether a module has a configuration; None where it has none.

    It has one while the status of the Kyma lists the module, which it does until the module is removed, and the
    template enables it. A Kyma without a state (just created, or restored without its status) and a module whose
    template is not found decide nothing: ModuleConfigs are deleted only when it is certain that they are not wanted.
    """
    if kyma is None:
        return None
    if kyma.status.state is State.EMPTY:
        return Undecided()
    if not any(status.name == module for status in kyma.status.modules):
        return None
    if template is None:
        return Undecided()
    return Wanted(template) if template.spec.enable_module_config else None


def plan(seen: Snapshot) -> tuple[Step, ...]:
    """Return the steps for one module's ModuleConfigs, in their order."""
    if seen.unreadable is not None:
        return tuple(
            SetCondition(config.metadata.name, seen.unreadable)
            for config in seen.existing
            if not has_condition(config, seen.unreadable)
        )
    if seen.reading is None:
        return tuple(
            DeleteModuleConfig(config.metadata.name) for config in seen.existing if not config.metadata.being_deleted
        )
    return _steps_after(seen, seen.reading)


def config_name(kyma: str, module: str, default: ObjectReference | None, reference: ObjectReference) -> str:
    """Return the name of the ModuleConfig of a Module CR; all but the default one have a hash in it.

    It may be that of another Kyma and module, too: `a` with `b-c`, and `a-b` with `c`.
    """
    if reference == default:
        return joined_name(kyma, module)
    return joined_name(kyma, module, distinct_by="/".join(reference))


def distinct_name(kyma: str, module: str, reference: ObjectReference) -> str:
    """Return the name of the ModuleConfig of a Module CR where another Kyma or module has the usual one."""
    return joined_name(kyma, module, distinct_by="/".join((kyma, module, *reference)))


def usual_names(kyma: str, module: str, reading: Reading) -> frozenset[str]:
    """Return the usual names of the ModuleConfigs of the Module CRs that were read."""
    return frozenset(config_name(kyma, module, reading.default, reference) for reference in reading.found)


def _name_of(seen: Snapshot, reading: Reading, reference: ObjectReference, existing: Collection[str]) -> str:
    """Return the name of the ModuleConfig of a Module CR: the one it has, or else one that nobody has."""
    usual = config_name(seen.kyma, seen.module, reading.default, reference)
    distinct = distinct_name(seen.kyma, seen.module, reference)
    return distinct if usual not in existing and (distinct in existing or usual in seen.taken) else usual


def text_of(module_cr: JsonObject) -> str:
    """Return a Module CR as YAML in a stable order, without managed fields and the annotation of kubectl apply."""
    metadata = {key: value for key, value in module_cr["metadata"].items() if key != "managedFields"}
    annotations = {key: value for key, value in (metadata.get("annotations") or {}).items() if key != LAST_APPLIED}
    metadata.pop("annotations", None)
    if annotations:
        metadata["annotations"] = annotations
    return dump_yaml({**module_cr, "metadata": metadata})


def _steps_after(seen: Snapshot, reading: Reading) -> tuple[Step, ...]:
    """Return the writes, and the deletions of ModuleConfigs without Module CR.

    A Module CR that was read by name and does not exist has its ModuleConfig deleted by name, whether that is known or
    not.
    """
    existing = {config.metadata.name: config for config in seen.existing}
    steps: list[Step] = []
    absent, present = set(existing) if reading.complete else set(), set()
    for reference, module_cr in sorted(reading.found.items()):
        name = _name_of(seen, reading, reference, existing)
        if module_cr is None or "deletionTimestamp" in module_cr["metadata"]:
            absent.add(name)
            continue
        present.add(name)
        config = existing.get(name)
        if reading.complete or config is None or not _is_newer(config, module_cr):
            steps += _writes(config, name, reference, module_cr)
    being_deleted = {name for name, config in existing.items() if config.metadata.being_deleted}
    return (*steps, *(DeleteModuleConfig(name) for name in sorted(absent - present - being_deleted)))


def _writes(config: ModuleConfig | None, name: str, source: ObjectReference, module_cr: JsonObject) -> tuple[Step, ...]:
    if config is not None and config.metadata.being_deleted:
        return ()  # written again after the deletion
    reference = _resource_reference(module_cr)
    text = text_of(module_cr)
    size = len(msgspec.json.encode(text))
    if size > MAX_TEXT_BYTES:  # the last text that fitted stays
        mark = SetCondition(name, too_large(source, size=size, limit=MAX_TEXT_BYTES))
        if config is None:
            return WriteModuleConfig(name, "", reference, source), mark
        return () if has_condition(config, mark.condition) else (mark,)
    steps: list[Step] = []
    if config is None or config.spec.resource != text or config.spec.resource_ref != reference:
        steps.append(WriteModuleConfig(name, text, reference, source))
    condition = read_from(source, reference.resource_version)
    if config is None or not has_condition(config, condition):
        steps.append(SetCondition(name, condition))
    return tuple(steps)


def _resource_reference(module_cr: JsonObject) -> ResourceReference:
    metadata = module_cr["metadata"]
    return ResourceReference(
        api_version=module_cr["apiVersion"],
        kind=module_cr["kind"],
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        uid=metadata["uid"],
        resource_version=metadata["resourceVersion"],
        generation=metadata.get("generation"),
    )


def _is_newer(config: ModuleConfig, module_cr: JsonObject) -> bool:
    """Tell whether a ModuleConfig holds a later version of the same object than the one that was read.

    Resource versions of one object can be compared as integers (KEP-5504). A cluster that was restored from a backup
    starts again at older ones, so a complete reading always counts.
    """
    known, metadata = config.spec.resource_ref, module_cr["metadata"]
    if known is None or known.uid != metadata["uid"]:
        return False
    versions = (known.resource_version, metadata["resourceVersion"])
    return all(each.isdecimal() for each in versions) and int(versions[0]) > int(versions[1])
