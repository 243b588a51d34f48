"""What a channel gives clusters: a version, what its ModuleTemplate installs, how many that changes. Pure functions.

A ModuleTemplate may change under the same version. So a cluster has what its channel gives only if its Manifest
installs the same, too. Where that is not known, as long as a descriptor is looked up, the version alone counts.

A change of the catalog that changes more clusters than `--max-changed-clusters` allows is a rollout, although no
RolloutStrategy is named. That depends on KCP alone, so that every replica finds the same as soon as it sees the change.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

import msgspec
from msgspec.structs import replace as with_fields

from kube_runtime.informer import Index
from kyma_oci import DescriptorUnreadable
from lifecycle_manager.module_catalog.identity import version_of
from lifecycle_manager.module_catalog.manifests import (
    is_mandatory_manifest,
    module_of_manifest,
    named_as_before,
    spec_differs,
    wanted_spec,
)
from lifecycle_manager.module_catalog.offer import Offer
from lifecycle_manager_api import (
    CustomResourcePolicy,
    InvalidVersion,
    Manifest,
    ManifestSpec,
    ModuleTemplate,
    Version,
    names,
)

MANDATORY_CHANNEL = "mandatory"
"""The channel of rollouts of mandatory modules, which have no channels."""
NOTHING = "nothing"
"""The content of a ModuleTemplate that leaves all to its Module Manager, so that the Manifests are deleted."""
POLICIES: tuple[CustomResourcePolicy, ...] = ("CreateAndDelete", "Ignore")


@dataclass(frozen=True, slots=True)
class RolloutTarget:
    """What a channel gives clusters. `content` is a digest of what is installed, empty where that is not known."""

    version: str
    content: str = ""
    specs: Mapping[CustomResourcePolicy, ManifestSpec] = field(default_factory=dict, compare=False)

    def is_in(self, manifest: Manifest) -> bool:
        """Tell whether a cluster has it."""
        held = manifest.spec
        if held.version != self.version:
            return False
        wanted = self.specs.get(held.custom_resource_policy)
        if wanted is None:
            return self.content != NOTHING or is_mandatory_manifest(manifest)  # which stays without objects
        if not spec_differs(held, wanted):
            return True
        named = with_fields(wanted, resource=named_as_before(wanted.resource, held.resource))
        return not spec_differs(held, named)


def channel_of(manifest: Manifest) -> str:
    """Return the channel whose rollouts decide about a Manifest; empty where it has none."""
    if is_mandatory_manifest(manifest):
        return MANDATORY_CHANNEL
    return manifest.metadata.labels.get(names.CHANNEL, "")


MANIFESTS_BY_MODULE: Index[Manifest] = Index("module", lambda it: (module_of_manifest(it),) if channel_of(it) else ())
"""Manifests about which rollouts may decide, by the module."""


def targets_of(offer: Offer) -> dict[str, dict[str, RolloutTarget]]:
    """Return what each channel of the modules gives, by module and channel."""
    found: dict[str, dict[str, RolloutTarget]] = {}
    for module, release in offer.releases.items():
        channels = {each.channel: each.version for each in release.spec.channels}
        found[module] = {
            channel: target_of(offer, offer.template(module, version), version) for channel, version in channels.items()
        }
    for module, template in offer.mandatory.items():
        found[module] = {MANDATORY_CHANNEL: target_of(offer, template, version_of(template))}
    return found


def target_of(offer: Offer, template: ModuleTemplate | None, version: str) -> RolloutTarget:
    """Return what the clusters of a channel get that has this version and, if it is there, its template."""
    if template is None:
        return RolloutTarget(version)
    try:
        component = offer.component(template)
    except DescriptorUnreadable:
        return RolloutTarget(version)
    default_cr = offer.default_cr(template)
    wanted = {policy: wanted_spec(template, component, default_cr=default_cr, policy=policy) for policy in POLICIES}
    specs = {policy: spec for policy, spec in wanted.items() if spec is not None}
    empty = NOTHING if template.spec.enable_module_config else ""
    return RolloutTarget(version, _digest_of(specs[POLICIES[0]]) if specs else empty, specs)


def changes(manifest: Manifest, target: RolloutTarget, known: Collection[str]) -> bool:
    """Tell whether what a channel gives changes a cluster, or a rollout does that is not `known` yet."""
    metadata, release = manifest.metadata, manifest.status.release
    if metadata.being_deleted or names.IS_UNMANAGED in metadata.annotations:
        return False
    if manifest.spec.version == target.version:
        is_under_way = release is not None and release.version == target.version and release.rollout not in known
        return is_under_way or not target.is_in(manifest)
    try:
        is_lower = Version.parse(target.version) < Version.parse(manifest.spec.version)
        return not is_lower or is_mandatory_manifest(manifest)  # what users chose gets no lower version
    except InvalidVersion:
        return True


def changed_clusters(
    targets: Mapping[str, RolloutTarget], manifests: Iterable[Manifest], known: Collection[str]
) -> int:
    """Return how many clusters the channels of a module change. `manifests`: those of the module."""
    found = ((each, targets.get(channel_of(each))) for each in manifests)
    return sum(target is not None and changes(manifest, target, known) for manifest, target in found)


def _digest_of(spec: ManifestSpec) -> str:
    return hashlib.blake2b(msgspec.json.encode(spec, order="sorted"), digest_size=8).hexdigest()
