"""What a Kyma's modules come to: for each the version in force, the Manifest that is there and the one that is wanted.

A module that is asked for and left alone, held back or refused keeps the Manifest that it has. One that is not asked
for any more is on its way out as long as its Manifest is there.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import msgspec

from lifecycle_manager.kyma.bounds import heeded
from lifecycle_manager.kyma.observe import Snapshot
from lifecycle_manager.kyma.resolution import Installed, Resolution, Subject, resolve
from lifecycle_manager.module_catalog import (
    DescriptorNotFound,
    DescriptorUnreadable,
    differs,
    is_mandatory_manifest,
    module_of_manifest,
    wanted_manifest,
)
from lifecycle_manager_api import (
    Kyma,
    KymaSpec,
    Manifest,
    PartialMeta,
    State,
    TrackingObject,
    names,
)


@dataclass(frozen=True, slots=True)
class WantedModule:
    """A module that is asked for. `wanted` is the Manifest to write; None where the one there, if any, stays."""

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
        """Whether the Manifest has to be created or changed now; one that is being deleted goes first."""
        if self.wanted is None:
            return False
        if self.manifest is None:
            return True
        return not self.manifest.metadata.being_deleted and differs(self.manifest, self.wanted)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The modules that are asked for, and the Manifests of those that no longer are.

    `unheeded` counts those that are asked for as well, and are too many of which nobody knows anything.
    """

    modules: tuple[WantedModule, ...]
    leaving: tuple[Manifest, ...]
    unheeded: int = 0


def wanted_of(snapshot: Snapshot, spec: KymaSpec) -> Wanted:
    """Decide on every module of a Kyma."""
    kyma = snapshot.kyma
    manifests = {module_of_manifest(each): each for each in chosen_manifests(snapshot)}
    subject = Subject(kyma.metadata.name, kyma.metadata.uid, kyma.metadata.labels)
    asked_for, unheeded = heeded(spec.modules, snapshot.offer.modules | manifests.keys())
    bounded = msgspec.structs.replace(spec, modules=asked_for)
    resolutions = resolve(bounded, subject, snapshot.offer, _installed(kyma, manifests), snapshot.timing)
    modules = tuple(_wanted(snapshot, resolution, manifests.get(resolution.module.name)) for resolution in resolutions)
    asked = {module.name for module in modules}
    nothing = {module.name for module in modules if module.installs_nothing and not module.resolution.reason}
    leaving = [each for name, each in sorted(manifests.items()) if name not in asked or name in nothing]
    return Wanted(modules, tuple(leaving), unheeded)


def chosen_manifests(snapshot: Snapshot) -> tuple[Manifest, ...]:
    """Return the Manifests of modules that users chose; the mandatory ones are not theirs."""
    return tuple(each for each in snapshot.manifests if not is_mandatory_manifest(each))


def _installed(kyma: Kyma, manifests: Mapping[str, Manifest]) -> dict[str, Installed]:
    """Return what there is of each module: as its Manifest says, or the status where it installs nothing."""
    known = {
        status.name: Installed(status.version, status.channel)
        for status in kyma.status.modules
        if status.version and status.manifest is None and status.template is not None
    }
    return known | {
        name: Installed(manifest.spec.version, manifest.metadata.labels.get(names.CHANNEL, ""))
        for name, manifest in manifests.items()
        if not manifest.metadata.being_deleted
    }


def _wanted(snapshot: Snapshot, resolution: Resolution, manifest: Manifest | None) -> WantedModule:
    kyma, template = snapshot.kyma, resolution.template
    if template is None or resolution.state is State.UNMANAGED:
        return WantedModule(resolution, manifest, component=_component_in(manifest))
    held = bool(resolution.reason)
    channel = manifest.metadata.labels.get(names.CHANNEL, "") if held and manifest else resolution.channel
    policy = resolution.module.custom_resource_policy
    resource = _resource_in(bytes(template.spec.data)) if policy == "CreateAndDelete" else None
    try:
        component = snapshot.offer.component(template)
    except DescriptorUnreadable as error:
        if isinstance(error, DescriptorNotFound) and _is_in_force(kyma, resolution, manifest):
            known = next((each for each in kyma.status.modules if each.name == resolution.module.name), None)
            known_as = _component_in(manifest) or (known.ocm_component_name if known is not None else "")
            return WantedModule(resolution, manifest, None, manifest is None, known_as, resource)
        message = f"module {resolution.module.name!r}: ModuleTemplate {template.metadata.name}: {error}"
        # Where nothing is installed, the status must not name a template: it would count as what is there.
        named = template if manifest is not None else None
        unreadable = replace(
            resolution, state=State.ERROR, reason="DescriptorUnreadable", message=message, template=named
        )
        return WantedModule(unreadable, manifest)
    name = manifest.metadata.name if manifest else ""
    wanted = wanted_manifest(kyma, template, component, channel=channel, policy=policy, name=name)
    write = None if held and manifest is None else wanted
    return WantedModule(resolution, manifest, write, wanted is None, component.name, resource)


def _is_in_force(kyma: Kyma, resolution: Resolution, manifest: Manifest | None) -> bool:
    """Tell whether a version is the one that is there, and its descriptor would tell nothing new."""
    there = _installed(kyma, {resolution.module.name: manifest} if manifest is not None else {})
    known = there.get(resolution.module.name)
    return known is not None and known.version == resolution.version


def _component_in(manifest: Manifest | None) -> str:
    return manifest.metadata.annotations.get(names.OCM_COMPONENT_NAME, "") if manifest is not None else ""


class _Identity(msgspec.Struct, frozen=True):
    name: str = ""
    namespace: str = ""


class _Resource(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    metadata: _Identity = _Identity()


@lru_cache(maxsize=1024)
def _resource_in(data: bytes) -> TrackingObject | None:
    """Return the default Module CR of a template as a reference."""
    found = msgspec.json.decode(data, type=_Resource | None)
    if found is None or not found.kind:
        return None
    metadata = PartialMeta(name=found.metadata.name, namespace=found.metadata.namespace)
    return TrackingObject(api_version=found.api_version, kind=found.kind, metadata=metadata)


def names_of(manifests: Iterable[Manifest]) -> tuple[str, ...]:
    """Return the names by which a status speaks of Manifests."""
    return tuple(f"Manifest {each.metadata.name}" for each in manifests)
