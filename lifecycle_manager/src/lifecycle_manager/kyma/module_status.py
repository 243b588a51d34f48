"""The status of one module in one SKR, aggregated from its Manifest and its Module CRs."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import msgspec

from lifecycle_manager.contract.conditions import (
    COMPLETE,
    DELETION_HELD,
    MODULE_CRS_IN_USE,
    NAMESPACE_NOT_WRITABLE,
    PUBLIC_REASONS,
)
from lifecycle_manager.contract.verdict import config_of, verdict_of
from lifecycle_manager.kyma.causes import MAX_CAUSES, MAX_MESSAGE_LENGTH, MAX_NAME_LENGTH, Cause, format_causes
from lifecycle_manager.kyma.reasons import (
    DESCRIPTOR_UNREADABLE,
    DESCRIPTOR_UNVERIFIED,
    INSTALLING,
    NOTHING_TO_INSTALL,
    REMOVING,
    UPDATING,
)
from lifecycle_manager.kyma.resolution import MAX_MODULES
from lifecycle_manager.kyma.snapshot import KymaSnapshot
from lifecycle_manager.kyma.wanted import WantedModule
from lifecycle_manager.object_set.reporting import READY
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
from lifecycle_manager_api.conditions import listed, shortened

STAYS = "stays as it is, since it was removed while it was not managed; its Module CRs stay in force"


@dataclass(frozen=True, slots=True)
class ModuleReport:
    """What is known of one module: its status without a message, why it is not ready, and what else to say."""

    status: KymaModuleStatus
    causes: tuple[Cause, ...] = ()
    note: str = ""

    def for_users(self) -> "ModuleReport":
        """Return the report as the users of the SKR may read it."""
        return replace(self, causes=tuple(each.for_users() for each in self.causes))

    @property
    def shown(self) -> KymaModuleStatus:
        """The status with its message."""
        message = "; ".join(filter(None, (format_causes(self.causes, MAX_MESSAGE_LENGTH), self.note)))
        return msgspec.structs.replace(self.status, message=shortened(message, MAX_MESSAGE_LENGTH))

    @property
    def causes_by_name(self) -> Iterator[Cause]:
        """The causes, each with the name of the module in its subject."""
        for cause in self.causes:
            yield replace(cause, subject=": ".join(filter(None, (self.status.name, cause.subject))))


def module_report(snapshot: KymaSnapshot, module: WantedModule) -> ModuleReport:
    resolution = module.resolution
    causes = tuple(_causes(snapshot, module))
    status = KymaModuleStatus(
        name=module.name[:MAX_NAME_LENGTH],
        channel=resolution.channel,
        version=resolution.version,
        state=aggregate([resolution.state, *(cause.state for cause in causes)]) if causes else resolution.state,
        fqdn=module.component,
        ocm_component_name=module.component,
        available_version=resolution.available,
        upgrade_by=resolution.again if resolution.available else None,
        maintenance=resolution.maintenance,
        template=reference_to(resolution.template),
        manifest=reference_to(module.manifest or module.wanted),
        resource=module.resource,
    )
    is_cause = resolution.state in {State.ERROR, State.WARNING}
    return ModuleReport(status, causes, "" if is_cause else resolution.message)


def removed_module(snapshot: KymaSnapshot, manifest: Manifest) -> ModuleReport:
    """Return the report on a module that is not requested any more, as long as its Manifest exists."""
    is_unmanaged = names.IS_UNMANAGED in manifest.metadata.annotations
    status = msgspec.structs.replace(
        _leaving(snapshot, snapshot.module_of(manifest)),
        channel=manifest.metadata.labels.get(names.CHANNEL, ""),
        version=manifest.spec.version,
        state=State.UNMANAGED if is_unmanaged else State.DELETING,
        manifest=reference_to(manifest),
    )
    return ModuleReport(status, note=STAYS) if is_unmanaged else ModuleReport(status, (_removal(manifest),))


def configured_module(snapshot: KymaSnapshot, name: str) -> ModuleReport:
    """Return the report on a module that is not requested any more, as long as it has ModuleConfigs.

    The template stays in its status: by that its Module CRs are read until they are gone. One that was not managed
    stays in the cluster, and its Module CRs in force.
    """
    status = msgspec.structs.replace(_leaving(snapshot, name), manifest=None)
    if status.state is State.UNMANAGED:
        return ModuleReport(status, note=STAYS)
    return ModuleReport(status, tuple(_removal_of_configs(snapshot, name)))


def _leaving(snapshot: KymaSnapshot, name: str) -> KymaModuleStatus:
    known = next((each for each in snapshot.kyma.status.modules if each.name == name), KymaModuleStatus(name=name))
    state = known.state if known.state is State.UNMANAGED else State.DELETING
    return msgspec.structs.replace(known, state=state, maintenance=False, available_version="", upgrade_by=None)


def _removal_of_configs(snapshot: KymaSnapshot, name: str) -> Iterator[Cause]:
    """Yield what the removal of a module without a Manifest waits for: its users, then the deletion of its objects."""
    configs = [each for each in snapshot.module_configs if each.spec.module == name]
    if in_use := [module_cr_of(each) or "a Module CR" for each in configs if not each.metadata.being_deleted]:
        message = f"is being removed: delete its Module CRs first: {listed(in_use, MAX_CAUSES)}"
        yield Cause(State.DELETING, MODULE_CRS_IN_USE, message)
    else:
        yield from _causes_of_module_crs(snapshot, name)


def _removal(manifest: Manifest) -> Cause:
    reason, why = _message_of(manifest)
    message = f"is being removed{': ' if why else ''}{why}"
    return Cause(State.DELETING, reason or REMOVING, message, is_internal=bool(why) and reason not in PUBLIC_REASONS)


def module_cr_of(config: ModuleConfig) -> str:
    """Name the Module CR of a ModuleConfig as its users know it; empty where it is not known."""
    found = config.spec.resource_ref
    if found is None:
        return ""
    namespace = "" if found.namespace in {"", names.SKR_NAMESPACE} else f"{found.namespace}/"
    return f"{found.kind} {namespace}{found.name}"


def _causes(snapshot: KymaSnapshot, module: WantedModule) -> Iterator[Cause]:
    """Yield why a module is not ready."""
    resolution, template = module.resolution, module.resolution.template
    if resolution.state in {State.ERROR, State.WARNING}:
        is_internal = resolution.reason in {DESCRIPTOR_UNREADABLE, DESCRIPTOR_UNVERIFIED}
        yield Cause(resolution.state, resolution.reason, resolution.message, is_internal=is_internal)
    if resolution.is_excluded and module.manifest is None:
        yield from _removal_of_configs(snapshot, module.name)
    elif resolution.is_excluded and module.manifest is not None and module.manifest.metadata.being_deleted:
        yield _removal(module.manifest)
    if resolution.state in {State.ERROR, State.UNMANAGED}:
        return
    if module.installs_nothing and template is not None and not template.spec.enable_module_config:
        message = f"ModuleTemplate {template.metadata.name} has nothing to install and does not enable ModuleConfig"
        yield Cause(State.WARNING, NOTHING_TO_INSTALL, message)
        return
    if (cause := _cause_of_manifest(module)) is not None:
        yield cause
    if problem := snapshot.namespace_problems.get(module.name):
        yield Cause(State.WARNING, NAMESPACE_NOT_WRITABLE, problem, is_internal=True)
    yield from _causes_of_module_crs(snapshot, module.name)


def _cause_of_manifest(module: WantedModule) -> Cause | None:
    """Return why the Manifest of a module is not ready. What it says of an older generation does not count."""
    manifest = module.manifest
    if manifest is None:
        return Cause(State.PROCESSING, INSTALLING, "is being installed") if module.wanted is not None else None
    reason, why = _message_of(manifest)
    if manifest.metadata.being_deleted:
        return _removal_before_installation(reason, why)
    observed = manifest.status.observed_generation
    outdated = observed is not None and observed < manifest.metadata.generation
    is_settled = manifest.status.state in {State.READY, State.UNMANAGED}
    if outdated or (module.to_be_written and is_settled) or manifest.status.state is State.UNMANAGED:
        return Cause(State.PROCESSING, UPDATING, "is being updated")
    if is_settled:
        return None
    if not why and manifest.status.state in {State.EMPTY, State.PROCESSING}:
        return Cause(State.PROCESSING, INSTALLING, "is being installed")
    return Cause(manifest.status.state, reason, why, is_internal=bool(why) and reason not in PUBLIC_REASONS)


def _removal_before_installation(reason: str, why: str) -> Cause:
    """Return what a module waits for that is requested again while it is being removed."""
    again = "is being removed, and is installed again after that"
    if reason == DELETION_HELD:
        return Cause(State.WARNING, reason, why, is_internal=True)
    if reason == MODULE_CRS_IN_USE:
        return Cause(State.DELETING, reason, f"{again}: {why}")
    return Cause(State.DELETING, REMOVING, again)


def _causes_of_module_crs(snapshot: KymaSnapshot, name: str) -> Iterator[Cause]:
    """Yield why the Module CRs of a module are not in force."""
    configs = [each for each in snapshot.module_configs if each.spec.module == name]
    of_the_module = [each for each in snapshot.sync_resources if each.spec.module == name]
    made = _by_config(of_the_module)
    for config in configs:
        verdict = verdict_of(config, made.pop(config.metadata.name, ()))
        if verdict.state is not State.READY:
            yield Cause(verdict.state, verdict.reason, verdict.message, module_cr_of(config))
        complete = find(config.status.conditions, COMPLETE)
        if complete is not None and complete.status == "False":
            yield Cause(State.WARNING, complete.reason, complete.message)
    others = {each.metadata.name for each in chain(*made.values())}  # of a manager that names them as it likes
    for resource in of_the_module:
        reason, why = _message_of(resource)
        if reason == DELETION_HELD:
            yield Cause(State.WARNING, reason, why, is_internal=True)
        elif resource.metadata.name in others and resource.status.state not in {State.READY, State.UNMANAGED}:
            is_internal = bool(why) and reason not in PUBLIC_REASONS
            yield Cause(resource.status.state, reason, why or "objects are being applied", is_internal=is_internal)


def _by_config(resources: Iterable[SyncResource]) -> dict[str, list[SyncResource]]:
    """Return SyncResources of one module by the name of the ModuleConfig that they were made from."""
    found: dict[str, list[SyncResource]] = {}
    for resource in resources:
        found.setdefault(config_of(resource), []).append(resource)
    return found


def _message_of(part: Manifest | SyncResource) -> tuple[str, str]:
    """Return reason and message of a part that is not ready.

    A Manifest that another version of Lifecycle Manager wrote last has no such condition, but a last operation.
    """
    ready = find(part.status.conditions, READY)
    if ready is not None and ready.status != "True":
        return ready.reason, ready.message
    operation = part.status.last_operation
    return "", operation.operation if operation is not None and ready is None else ""


def modules_shown(modules: Sequence[KymaModuleStatus]) -> tuple[KymaModuleStatus, ...]:
    """Return the modules that a status has room for, in their order: those of the catalog before unknown ones."""
    if len(modules) <= MAX_MODULES:
        return tuple(modules)
    known = [number for number, each in enumerate(modules) if each.template is not None or each.manifest is not None]
    others = sorted(set(range(len(modules))) - set(known))
    return tuple(modules[number] for number in sorted([*known, *others][:MAX_MODULES]))


def reference_to(thing: ModuleTemplate | Manifest | None) -> TrackingObject | None:
    if thing is None:
        return None
    metadata = thing.metadata
    return TrackingObject(
        api_version=thing.api_version,
        kind=thing.kind,
        metadata=PartialMeta(name=metadata.name, namespace=metadata.namespace, generation=metadata.generation),
    )
