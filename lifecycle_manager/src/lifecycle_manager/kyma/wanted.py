"""The modules of a Kyma: the version in force, the Manifest that exists, the one that is wanted, and what to change.

A requested module that is unmanaged, deferred or refused keeps the Manifest that it has. A module that is not requested
any more is being removed as long as its Manifest exists, and after that as long as it has ModuleConfigs: of Module CRs
that users have left, or whose objects are still being deleted. One that is unmanaged then stays in the cluster.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

import msgspec

from kyma_oci import DescriptorNotFound, DescriptorUnreadable, DescriptorUnverified
from lifecycle_manager.contract.verdict import owning_configs
from lifecycle_manager.kyma.reasons import DESCRIPTOR_UNREADABLE, DESCRIPTOR_UNVERIFIED, NOTHING_TO_INSTALL
from lifecycle_manager.kyma.resolution import Installed, Resolution, limited, resolve
from lifecycle_manager.kyma.snapshot import KymaSnapshot
from lifecycle_manager.module_catalog.manifests import (
    differs,
    is_mandatory_manifest,
    module_of_manifest,
    wanted_manifest,
    with_content_of,
)
from lifecycle_manager.module_catalog.module_kinds import default_kind
from lifecycle_manager.module_catalog.offer import Offer
from lifecycle_manager_api import (
    Kyma,
    KymaModule,
    KymaSpec,
    Manifest,
    ModuleTemplate,
    PartialMeta,
    State,
    SyncResource,
    TrackingObject,
    names,
)


@dataclass(frozen=True, slots=True)
class ApplyManifest:
    """Install a module by this Manifest."""

    manifest: Manifest


@dataclass(frozen=True, slots=True)
class UpdateTerminatingManifest:
    """Give a Manifest that is being deleted another version; once it is gone, it stays gone."""

    manifest: Manifest


@dataclass(frozen=True, slots=True)
class MarkUnmanaged:
    """Annotate the Manifest of a module that stays installed as it is, or take that back."""

    manifest: str
    is_unmanaged: bool = True


@dataclass(frozen=True, slots=True)
class DeleteManifest:
    """Remove a module: delete its Manifest in the foreground, so that its objects are deleted first.

    `by_users`: they do not request the module any more. `removed_since`: when the catalog was changed whose effect an
    operator continued.
    """

    manifest: str
    by_users: bool = False
    removed_since: datetime | None = None

    @property
    def marks(self) -> dict[str, str]:
        """The annotations by which the brake knows why the Manifest is deleted."""
        if self.by_users:
            return {names.REMOVED_BY_USERS: "true"}
        return {} if self.removed_since is None else {names.REMOVED_SINCE: self.removed_since.isoformat()}


@dataclass(frozen=True, slots=True)
class DeleteSyncResource:
    """Remove the objects that a Module Manager wanted in the SKR."""

    resource: SyncResource


ModuleChange = ApplyManifest | UpdateTerminatingManifest | MarkUnmanaged | DeleteManifest | DeleteSyncResource


@dataclass(frozen=True, slots=True)
class WantedModule:
    """A requested module. `wanted` is its Manifest as it has to be; None where the existing one, if any, stays."""

    resolution: Resolution
    manifest: Manifest | None = None
    wanted: Manifest | None = None
    installs_nothing: bool = False
    component: str = ""
    resource: TrackingObject | None = None

    @property
    def name(self) -> str:
        """The name of the module."""
        return self.resolution.module.name

    @property
    def to_be_written(self) -> bool:
        """Whether the Manifest has to be created or changed now; one that is being deleted has to be gone first."""
        if self.wanted is None:
            return False
        if self.manifest is None:
            return True
        return not self.manifest.metadata.being_deleted and differs(self.manifest, self.wanted)

    @property
    def change(self) -> ModuleChange | None:
        """How its Manifest has to be changed; None where it stays as it is."""
        known = self.manifest.metadata if self.manifest is not None else None
        is_unmanaged = known is not None and names.IS_UNMANAGED in known.annotations
        if known is not None and self.resolution.is_excluded:
            since = self.resolution.removed_since
            return DeleteManifest(known.name, removed_since=since) if not known.being_deleted else None
        if known is not None and not self.resolution.module.managed:
            return MarkUnmanaged(known.name) if not is_unmanaged else None
        if known is not None and self.wanted is None and is_unmanaged and not known.being_deleted:
            return MarkUnmanaged(known.name, is_unmanaged=False)
        return ApplyManifest(self.wanted) if self.wanted is not None and self.to_be_written else None


@dataclass(frozen=True, slots=True)
class WantedModules:
    """The requested modules, and the Manifests of those that are not requested any more.

    `ignored` counts requested modules beyond the limit for unknown ones. `terminating` are the Manifests that are being
    deleted and get another version meanwhile, as they have to be. `left` are the SyncResources of removed modules that
    no ModuleConfig takes with it. `configured` are the modules that are not requested, and have ModuleConfigs
    alone, or stay without a Manifest.
    """

    modules: tuple[WantedModule, ...]
    removed: tuple[Manifest, ...]
    ignored: int = 0
    terminating: tuple[Manifest, ...] = ()
    left: tuple[SyncResource, ...] = ()
    configured: tuple[str, ...] = ()

    @property
    def changes(self) -> tuple[ModuleChange, ...]:
        """What has to be changed in KCP."""
        requested = {each.name for each in self.modules}
        deletions = (
            DeleteManifest(each.metadata.name, by_users=module_of_manifest(each) not in requested)
            for each in self.removed
            if not each.metadata.being_deleted
        )
        changes = (each.change for each in self.modules)
        updates = map(UpdateTerminatingManifest, self.terminating)
        left = map(DeleteSyncResource, self.left)
        return (*(each for each in changes if each is not None), *deletions, *updates, *left)


def wanted_of(snapshot: KymaSnapshot, spec: KymaSpec) -> WantedModules:
    kyma, offer, timing = snapshot.kyma, snapshot.offer, snapshot.timing
    manifests = snapshot.by_module(chosen_manifests(snapshot))
    installed = installed_in(kyma, manifests)
    terminating = {name: each for name, each in sorted(manifests.items()) if each.metadata.being_deleted}
    still_there = {name: _installed_by(each) for name, each in terminating.items()}
    configured = _configured(snapshot)
    requested, ignored = limited(spec.modules, offer.modules | manifests.keys() | configured)
    chosen = {module.name: module for module in requested}
    leaving = tuple(
        chosen.get(name) or KymaModule(name=name, channel=each.channel) for name, each in still_there.items()
    )
    of_requested, of_leaving = (msgspec.structs.replace(spec, modules=modules) for modules in (requested, leaving))
    resolutions = resolve(of_requested, kyma.metadata, offer=offer, installed=installed, timing=timing)
    newest = resolve(of_leaving, kyma.metadata, offer=offer, installed=still_there, timing=timing)
    modules = tuple(
        _wanted(snapshot, each, manifests.get(each.module.name), installed.get(each.module.name))
        for each in resolutions
    )
    stay = {module.name for module in modules if not module.installs_nothing or module.resolution.reason}
    removed = tuple(each for name, each in sorted(manifests.items()) if name not in stay)
    updated = (_terminating(snapshot, each, terminating[each.module.name]) for each in newest)
    terminating_anew = tuple(each for each in updated if each is not None)
    unrequested = (configured | _in_force(snapshot)) - chosen.keys() - manifests.keys()
    left = tuple(_left(snapshot, spec))
    return WantedModules(modules, removed, ignored, terminating_anew, left, tuple(sorted(unrequested)))


def _configured(snapshot: KymaSnapshot) -> frozenset[str]:
    """Return the modules that have ModuleConfigs."""
    return frozenset(each.spec.module for each in snapshot.module_configs)


def _in_force(snapshot: KymaSnapshot) -> frozenset[str]:
    """Return the modules that are not managed and have SyncResources: these stay in force."""
    unmanaged = {each.name for each in snapshot.kyma.status.modules if each.state is State.UNMANAGED}
    return frozenset(each.spec.module for each in snapshot.sync_resources) & unmanaged


def _left(snapshot: KymaSnapshot, spec: KymaSpec) -> Iterator[SyncResource]:
    """Yield the SyncResources of removed modules that no ModuleConfig takes along. Those of unmanaged ones stay."""
    listed = {status.name for status in snapshot.kyma.status.modules}
    removed = listed - _in_force(snapshot) - {module.name for module in spec.modules}
    there = {module_of_manifest(each) for each in snapshot.manifests if not each.metadata.being_deleted}
    yield from taken_by_none(snapshot, removed - there) if removed else ()


def taken_by_none(snapshot: KymaSnapshot, modules: Collection[str]) -> Iterator[SyncResource]:
    """Yield the SyncResources of modules without ModuleConfigs that are still to be deleted.

    Not after the Manifest: that may wait for an object in them which its manager has to clean up.
    """
    configured = _configured(snapshot)
    for each in snapshot.sync_resources:
        is_left = not owning_configs(each) and not each.metadata.being_deleted
        if is_left and each.spec.module in modules and each.spec.module not in configured:
            yield each


def _terminating(snapshot: KymaSnapshot, resolution: Resolution, manifest: Manifest) -> Manifest | None:
    """Return a Manifest that is being deleted with the version of its channel; None where it stays as it is.

    While something blocks its deletion the module runs, and its manager may need another version to clean up. The rules
    for changes of versions hold. What belongs to the deletion stays: the default Module CR and its policy.
    """
    held, offer, template = manifest.metadata, snapshot.offer, resolution.template
    if names.IS_UNMANAGED in held.annotations or names.MANIFEST_FINALIZER not in held.finalizers:
        return None
    if template is None or resolution.reason or resolution.keeps_content:
        return None
    try:
        component = offer.component(template)
    except DescriptorUnreadable:
        return None  # the module itself may not be requested any more
    wanted = wanted_manifest(
        snapshot.kyma,
        template,
        component,
        default_cr=offer.default_cr(template),
        channel=resolution.channel,
        policy=manifest.spec.custom_resource_policy,
        held=manifest,
    )
    if wanted is None:
        return None
    wanted = msgspec.structs.replace(
        wanted,
        metadata=msgspec.structs.replace(wanted.metadata, uid=held.uid),
        spec=msgspec.structs.replace(wanted.spec, resource=manifest.spec.resource),
    )
    return wanted if differs(manifest, wanted) else None


def _installed_by(manifest: Manifest) -> Installed:
    return Installed(manifest.spec.version, _channel_of(manifest), manifest.status.release)


def _channel_of(manifest: Manifest) -> str:
    return manifest.metadata.labels.get(names.CHANNEL, "")


def chosen_manifests(snapshot: KymaSnapshot) -> tuple[Manifest, ...]:
    """Return the Manifests of modules that users chose, without the mandatory ones: these have no channel."""
    required = snapshot.offer.required

    def is_mandatory(manifest: Manifest) -> bool:
        lost_its_label = module_of_manifest(manifest) in required and names.CHANNEL not in manifest.metadata.labels
        return is_mandatory_manifest(manifest) or lost_its_label

    return tuple(each for each in snapshot.manifests if not is_mandatory(each))


def installed_in(kyma: Kyma, manifests: Mapping[str, Manifest]) -> dict[str, Installed]:
    """Return the installed modules: by their Manifests, or by the status where a module installs nothing."""
    known = {
        status.name: Installed(status.version, status.channel, has_manifest=False)
        for status in kyma.status.modules
        if status.version and status.manifest is None and status.template is not None
    }
    return known | {
        name: _installed_by(manifest) for name, manifest in manifests.items() if not manifest.metadata.being_deleted
    }


def _wanted(
    snapshot: KymaSnapshot, resolution: Resolution, manifest: Manifest | None, installed: Installed | None
) -> WantedModule:
    kyma, offer, template = snapshot.kyma, snapshot.offer, resolution.template
    if template is None or resolution.state is State.UNMANAGED:
        return WantedModule(resolution, manifest, component=_component_in(manifest))
    deferred = bool(resolution.reason)
    channel = _channel_of(manifest) if deferred and manifest else resolution.channel
    policy = resolution.module.custom_resource_policy
    default_cr = offer.default_cr(template)
    resource = default_cr_reference(offer, template) if policy == "CreateAndDelete" else None
    there = manifest.spec.version if manifest is not None else installed.version if installed is not None else ""
    try:
        component = offer.component(template)
    except DescriptorUnreadable as error:
        is_needed = installed is None or installed.version != resolution.version
        if is_needed or not isinstance(error, DescriptorNotFound):
            return WantedModule(_unreadable(offer, resolution, template, manifest, there, error), manifest)
        # The version is installed, so that its descriptor is not needed.
        in_status = (each.ocm_component_name for each in kyma.status.modules if each.name == resolution.module.name)
        component_name = _component_in(manifest) or next(in_status, "")
        nothing = manifest is None
        return WantedModule(resolution, manifest, installs_nothing=nothing, component=component_name, resource=resource)
    wanted = wanted_manifest(
        kyma, template, component, default_cr=default_cr, channel=channel, policy=policy, held=manifest
    )
    if wanted is None and (stays := _without_objects(offer, resolution, template, manifest, there)) is not None:
        return WantedModule(stays, manifest, component=component.name)
    if wanted is not None and manifest is not None and resolution.keeps_content:
        wanted = with_content_of(manifest, wanted)
    return WantedModule(
        resolution,
        manifest,
        wanted=None if deferred and manifest is None else wanted,
        installs_nothing=wanted is None,
        component=component.name,
        resource=resource,
    )


def _unreadable(
    offer: Offer,
    resolution: Resolution,
    template: ModuleTemplate,
    manifest: Manifest | None,
    there: str,
    error: DescriptorUnreadable,
) -> Resolution:
    message = f"ModuleTemplate {template.metadata.name}: {error}"
    reason = DESCRIPTOR_UNVERIFIED if isinstance(error, DescriptorUnverified) else DESCRIPTOR_UNREADABLE
    failed = replace(resolution, state=State.ERROR, reason=reason, message=message)
    # Where nothing is installed, the status must not name a template: it would count as installed.
    is_there = manifest is not None or there not in {"", resolution.version}
    return _staying(offer, failed, there) if is_there else replace(failed, template=None)


def _without_objects(
    offer: Offer, resolution: Resolution, template: ModuleTemplate, manifest: Manifest | None, there: str
) -> Resolution | None:
    """Return how a module stays whose version has nothing to install; None where there is nothing to stay.

    One that enables ModuleConfig leaves all to its Module Manager, once its rollout releases it. Else it is a mistake.
    """
    if template.spec.enable_module_config:
        return resolution if manifest is not None and resolution.keeps_content else None
    if manifest is None and there in {"", resolution.version}:
        return None
    why = f"ModuleTemplate {template.metadata.name} has nothing to install and does not enable ModuleConfig"
    message = f"{why}; version {there} stays"
    warned = replace(resolution, state=State.WARNING, reason=NOTHING_TO_INSTALL, message=message)
    return _staying(offer, warned, there)


def _staying(offer: Offer, failed: Resolution, version: str) -> Resolution:
    """Return with what is installed: the template of another version would decide about the ModuleConfigs."""
    if not version or failed.version in {"", version}:
        return replace(failed, version=version or failed.version)
    return replace(failed, version=version, template=offer.installed(failed.module.name, version))


def _component_in(manifest: Manifest | None) -> str:
    return manifest.metadata.annotations.get(names.OCM_COMPONENT_NAME, "") if manifest is not None else ""


def default_cr_reference(offer: Offer, template: ModuleTemplate) -> TrackingObject | None:
    """Return the default Module CR of a template as a status names it; None where it has none."""
    found = default_kind(template, offer.namespace)
    if found is None:
        return None
    metadata = PartialMeta(name=found.default_name, namespace=found.default_namespace)
    return TrackingObject(api_version=found.api_version, kind=found.kind, metadata=metadata)
