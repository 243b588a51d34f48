"""The status of one module in one SKR, aggregated from its Manifest, ModuleConfigs and SyncResources."""

from collections.abc import Iterator

import msgspec

from lifecycle_manager.kyma.limits import MAX_MESSAGE_LENGTH, MAX_NAME_LENGTH
from lifecycle_manager.kyma.snapshot import Snapshot
from lifecycle_manager.kyma.wanted import WantedModule
from lifecycle_manager.kyma_conditions import COMPLETE
from lifecycle_manager.module_catalog import module_of_manifest
from lifecycle_manager.module_namespaces import Standing
from lifecycle_manager_api import (
    KymaModuleStatus,
    Manifest,
    ModuleConfig,
    ModuleTemplate,
    PartialMeta,
    State,
    SyncResource,
    TrackingObject,
    aggregate,
    find,
    names,
)
from lifecycle_manager_api.conditions import shortened


def module_status(snapshot: Snapshot, module: WantedModule) -> KymaModuleStatus:
    """Return the status of a requested module."""
    resolution = module.resolution
    state, message = _state_of(snapshot, module)
    return KymaModuleStatus(
        name=module.name[:MAX_NAME_LENGTH],
        channel=resolution.channel,
        version=resolution.version,
        state=state,
        message=shortened(message, MAX_MESSAGE_LENGTH),
        fqdn=module.component,
        ocm_component_name=module.component,
        maintenance=resolution.maintenance,
        template=_reference_to(resolution.template),
        manifest=_reference_to(module.manifest or module.wanted),
        resource=module.resource,
    )


def removed_module(snapshot: Snapshot, manifest: Manifest) -> KymaModuleStatus:
    """Return the status of a module that is not requested any more, as long as its Manifest exists."""
    name = module_of_manifest(manifest)
    known = next((each for each in snapshot.kyma.status.modules if each.name == name), KymaModuleStatus(name=name))
    why = manifest.status.last_operation.operation if manifest.status.last_operation is not None else ""
    return msgspec.structs.replace(
        known,
        channel=manifest.metadata.labels.get(names.CHANNEL, ""),
        version=manifest.spec.version,
        state=State.WARNING if manifest.status.state is State.WARNING else State.DELETING,
        message=shortened(f"is being removed{': ' if why else ''}{why}", MAX_MESSAGE_LENGTH),
        maintenance=False,
        manifest=_reference_to(manifest),
    )


def _state_of(snapshot: Snapshot, module: WantedModule) -> tuple[State, str]:
    resolution = module.resolution
    if resolution.state in {State.ERROR, State.UNMANAGED}:
        return resolution.state, resolution.message
    template = resolution.template
    if module.installs_nothing and template is not None and not template.spec.enable_module_config:
        return State.WARNING, (
            f"ModuleTemplate {template.metadata.name} has nothing to install and does not enable ModuleConfig"
        )
    parts = tuple(_parts_of(snapshot, module))
    state = aggregate([resolution.state, *(state for _, state, _ in parts)])
    waiting = [
        f"{what} is {state.value or 'new'}{': ' if why else ''}{why}"
        for what, state, why in sorted(parts, key=lambda part: not part[2])  # a message is cut at its end
        if state is not State.READY
    ]
    return state, "; ".join([*([resolution.message] if resolution.message else []), *waiting])


def _parts_of(snapshot: Snapshot, module: WantedModule) -> Iterator[tuple[str, State, str]]:
    """Return each part of a module with its state and, for the Manifest, the reason for it."""
    if module.manifest is not None:
        state, why = _state_of_manifest(module.manifest, module)
        yield f"Manifest {module.manifest.metadata.name}", state, why
    elif module.wanted is not None:
        yield f"Manifest {module.wanted.metadata.name}", State.EMPTY, ""
    parts: tuple[ModuleConfig | SyncResource, ...] = (*snapshot.module_configs, *snapshot.sync_resources)
    for part in parts:
        if part.spec.module == module.name and snapshot.assignment.standing(part) is Standing.CURRENT:
            excess = _excess_of(part)
            state = aggregate([part.status.state, State.WARNING]) if excess else part.status.state
            yield f"{part.KIND} {part.metadata.name}", state, excess


def _excess_of(part: ModuleConfig | SyncResource) -> str:
    """Return what a part says of Module CRs beyond the quota of the module."""
    complete = find(part.status.conditions, COMPLETE)
    return complete.message if complete is not None and complete.status == "False" else ""


def _state_of_manifest(manifest: Manifest, module: WantedModule) -> tuple[State, str]:
    """Return the state of a Manifest, unless it is that of an older generation than the wanted one."""
    if manifest.metadata.being_deleted:
        return State.DELETING, ""
    observed = manifest.status.observed_generation
    outdated = observed is not None and observed < manifest.metadata.generation
    if outdated or (module.to_be_written and manifest.status.state is State.READY):
        return State.PROCESSING, "is being updated"
    operation = manifest.status.last_operation
    return manifest.status.state, operation.operation if operation is not None else ""


def _reference_to(thing: ModuleTemplate | Manifest | None) -> TrackingObject | None:
    if thing is None:
        return None
    metadata = thing.metadata
    return TrackingObject(
        api_version=thing.api_version,
        kind=thing.kind,
        metadata=PartialMeta(name=metadata.name, namespace=metadata.namespace, generation=metadata.generation),
    )
