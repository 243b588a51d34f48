"""The rules of a module's configuration: which ModuleConfigs to write, to delete, or to mark as not readable."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from kube_runtime import dump_yaml
from lifecycle_manager.module_config.observe import JsonObject, Reading, Snapshot
from lifecycle_manager.skr import ObjectReference
from lifecycle_manager_api import ConditionStatus, ModuleConfig, joined_name
from lifecycle_manager_api import ObjectReference as ResourceReference

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
LONGEST_NAME = 253
# An object may take 1.5 MiB in etcd. The text is one of several fields, and counts as JSON, with its lines escaped.
LARGEST_TEXT_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class WriteModuleConfig:
    """Apply a ModuleConfig that holds this Module CR."""

    name: str
    text: str
    reference: ResourceReference
    source: ObjectReference


@dataclass(frozen=True, slots=True)
class DeleteModuleConfig:
    """Delete a ModuleConfig in the foreground, so that what was made from it goes first."""

    name: str


@dataclass(frozen=True, slots=True)
class MarkSynced:
    """Say on the ModuleConfig from which version of the Module CR it was read, or why it could not be."""

    name: str
    status: ConditionStatus
    reason: str
    message: str


Action = WriteModuleConfig | DeleteModuleConfig | MarkSynced


def plan(snapshot: Snapshot) -> tuple[Action, ...]:
    """Decide what one module's configuration in KCP needs."""
    if snapshot.unreadable is not None:
        reason, message = snapshot.unreadable
        return tuple(
            MarkSynced(config.metadata.name, "False", reason, message)
            for config in snapshot.existing
            if not _shows(config, "False", reason, message)
        )
    if snapshot.reading is None:
        return tuple(
            DeleteModuleConfig(config.metadata.name)
            for config in snapshot.existing
            if not config.metadata.being_deleted
        )
    return (*_plan_found(snapshot, snapshot.reading), *_plan_gone(snapshot, snapshot.reading))


def config_name(kyma: str, module: str, default: ObjectReference | None, reference: ObjectReference) -> str:
    """Return the name of the ModuleConfig for one Module CR: plain for the default one, else with a hash."""
    if reference == default:
        return joined_name(kyma, module)
    return joined_name(kyma, module, distinct_by="/".join(reference))


def text_of(module_cr: JsonObject) -> str:
    """Return a Module CR as YAML text in a stable order, without what only the API server cares for."""
    metadata = {key: value for key, value in module_cr["metadata"].items() if key != "managedFields"}
    annotations = {key: value for key, value in (metadata.get("annotations") or {}).items() if key != LAST_APPLIED}
    metadata.pop("annotations", None)
    if annotations:
        metadata["annotations"] = annotations
    return dump_yaml({**module_cr, "metadata": metadata})


def _plan_found(snapshot: Snapshot, reading: Reading) -> tuple[Action, ...]:
    existing = {config.metadata.name: config for config in snapshot.existing}
    actions: list[Action] = []
    for reference, module_cr in sorted(reading.found.items()):
        if module_cr is None or _leaving(module_cr):
            continue
        name = config_name(snapshot.kyma, snapshot.module, reading.default, reference)
        config = existing.get(name)
        if not reading.complete and config is not None and _is_newer(config, module_cr):
            continue
        actions.extend(_plan_one(config, name, reference, module_cr))
    return tuple(actions)


def _plan_one(
    config: ModuleConfig | None, name: str, source: ObjectReference, module_cr: JsonObject
) -> tuple[Action, ...]:
    if config is not None and config.metadata.being_deleted:
        return ()  # written again once it is gone
    reference = _resource_reference(module_cr)
    text = text_of(module_cr)
    size = len(msgspec.json.encode(text))
    if size > LARGEST_TEXT_BYTES:
        return _plan_too_large(config, name, source, size, reference)
    actions: list[Action] = []
    if config is None or config.spec.resource != text or config.spec.resource_ref != reference:
        actions.append(WriteModuleConfig(name, text, reference, source))
    message = f"read from {source} at resourceVersion {reference.resource_version}"
    if config is None or not _shows(config, "True", "Read", message):
        actions.append(MarkSynced(name, "True", "Read", message))
    return tuple(actions)


def _plan_too_large(
    config: ModuleConfig | None, name: str, source: ObjectReference, size: int, reference: ResourceReference
) -> tuple[Action, ...]:
    """Keep the last text that fitted, and say why the present one did not come."""
    message = f"{source} takes {size} bytes as JSON text, more than the {LARGEST_TEXT_BYTES} that fit; make it smaller"
    if config is not None and _shows(config, "False", "ModuleCRTooLarge", message):
        return ()
    mark = MarkSynced(name, "False", "ModuleCRTooLarge", message)
    return (mark,) if config is not None else (WriteModuleConfig(name, "", reference, source), mark)


def _plan_gone(snapshot: Snapshot, reading: Reading) -> tuple[Action, ...]:
    there = {
        config_name(snapshot.kyma, snapshot.module, reading.default, reference)
        for reference, module_cr in reading.found.items()
        if _is_there(module_cr)
    }
    deleting = {config.metadata.name for config in snapshot.existing if config.metadata.being_deleted}
    # One that was asked for and is not there is deleted by name, known to the cache or not: it may have been
    # written a moment ago.
    gone = {
        config_name(snapshot.kyma, snapshot.module, reading.default, reference)
        for reference, module_cr in reading.found.items()
        if not _is_there(module_cr)
    }
    if reading.complete:
        gone |= {config.metadata.name for config in snapshot.existing}
    return tuple(DeleteModuleConfig(name) for name in sorted(gone - there - deleting))


def _is_there(module_cr: JsonObject | None) -> bool:
    return module_cr is not None and not _leaving(module_cr)


def _leaving(module_cr: JsonObject) -> bool:
    return "deletionTimestamp" in module_cr["metadata"]


def _resource_reference(module_cr: Mapping[str, Any]) -> ResourceReference:
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
    """Tell whether a later version of the same object is written down already: then this read came too late.

    Resource versions of one object can be compared as integers (KEP-5504). A cluster that was restored from a backup
    starts again at older ones; so a reading of all that there is counts whatever it says.
    """
    known, metadata = config.spec.resource_ref, module_cr["metadata"]
    if known is None or known.uid != metadata["uid"]:
        return False
    versions = (known.resource_version, metadata["resourceVersion"])
    return all(each.isdecimal() for each in versions) and int(versions[0]) > int(versions[1])


def _shows(config: ModuleConfig, status: ConditionStatus, reason: str, message: str) -> bool:
    return any(
        condition.type == "Synced"
        and (condition.status, condition.reason, condition.message) == (status, reason, message)
        for condition in config.status.conditions
    )
