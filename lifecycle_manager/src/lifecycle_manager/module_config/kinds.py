"""Which kinds of Module CRs a module has, and may have."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import structlog

from kube_runtime import Change, Client, Informer, JsonObject, KubeError, Resource, read_kind
from lifecycle_manager.contract.indexes import MANIFESTS_BY_KYMA, SYNC_RESOURCES_BY_KYMA
from lifecycle_manager.contract.resources import CUSTOM_RESOURCE_DEFINITIONS
from lifecycle_manager.contract.signals import ObjectReference
from lifecycle_manager.module_catalog.manifests import module_of_manifest
from lifecycle_manager.module_catalog.module_kinds import (
    ModuleCrKind,
    ModuleKinds,
    TemplateUnreadable,
    is_named_by,
    why_foreign,
)
from lifecycle_manager.module_config.snapshot import ModuleConfigSnapshot
from lifecycle_manager.object_set.policy import Policies
from lifecycle_manager_api import Manifest, ModuleConfig, SyncResource, joined_name
from lifecycle_manager_api.known_kinds import kind_refusal

log = structlog.get_logger("module_config")


@dataclass(frozen=True, eq=False)
class AllowedKinds:
    """The kinds of modules by their templates, as far as their CRDs and ModulePolicies allow them."""

    kinds: ModuleKinds
    policies: Policies
    manifests: Informer[Manifest]
    sync_resources: Informer[SyncResource]

    async def of(self, seen: ModuleConfigSnapshot) -> tuple[ModuleCrKind, ...]:
        """Return the kinds of a module, without a template those that its ModuleConfigs name.

        Raises TemplateUnreadable.
        """
        if seen.template is None:
            return _kinds_named_by(seen.existing, default=joined_name(seen.kyma, seen.module))
        return await self.kinds.of(seen.template)

    async def staying(
        self, skr: Client, seen: ModuleConfigSnapshot, kinds: Collection[ModuleCrKind]
    ) -> frozenset[ObjectReference]:
        """Return which Module CRs with ModuleConfigs exist of kinds that the template of a module no longer names.

        All of a kind that can't be listed, as its conversion may fail for ever; none of one that the SKR does not have.
        """
        present, found = {(each.group, each.kind) for each in kinds}, set[ObjectReference]()
        named = {ObjectReference.to(it) for each in seen.existing if (it := each.spec.resource_ref) is not None}
        for kind in _kinds_named_by(seen.existing):
            if (kind.group, kind.kind) in present:
                continue
            own = {each for each in named if (each.group, each.kind) == (kind.group, kind.kind)}
            try:
                listed = await read_kind(skr, kind.api_version, kind.kind, skr.list_revisions)
                own &= {kind.reference(each.metadata.namespace, each.metadata.name) for each in listed or ()}
            except KubeError as error:
                log.warning("module crs of a former kind not listed", kind=kind.kind, error=str(error))
            found |= own
        return frozenset(found)

    def require(self, seen: ModuleConfigSnapshot, resource: Resource[JsonObject]) -> None:
        """Raise TemplateUnreadable where the template of a module names a kind that the module may not have.

        It may where the CRD is one of the module's objects, and of no module that was there before, or where its
        ModulePolicy names the kind.
        """
        policy, crd = self.policies.policy_of(seen.module), f"{resource.plural}.{resource.group}"
        if seen.template is None or is_named_by(policy.spec if policy is not None else None, resource):
            return
        manifests = [each for each in self.manifests.by_index(MANIFESTS_BY_KYMA, seen.kyma) if crd in _crds_of(each)]
        manifests.sort(key=lambda each: (str(each.metadata.creation_timestamp), each.metadata.name))
        if first := next(iter(manifests), None):
            owner = module_of_manifest(first)
        else:
            parts = self.sync_resources.by_index(SYNC_RESOURCES_BY_KYMA, seen.kyma)
            own = (each for each in parts if each.spec.module == seen.module and self.policies.is_in_place(each))
            owner = seen.module if any(crd in _crds_of(each) for each in own) else ""
        if owner != seen.module:
            why = why_foreign(resource, module=f"module {seen.module}", owner=owner and f"module {owner}")
            raise TemplateUnreadable(f"ModuleTemplate {seen.template.metadata.name}: {why}")


def crds_changed(change: Change[Manifest] | Change[SyncResource]) -> bool:
    """Tell whether the CRDs among the objects of a Manifest or SyncResource changed."""
    before, after = (_crds_of(each) if each is not None else frozenset() for each in (change.old, change.new))
    return before != after


def _crds_of(part: Manifest | SyncResource) -> frozenset[str]:
    crd = (CUSTOM_RESOURCE_DEFINITIONS.group, CUSTOM_RESOURCE_DEFINITIONS.kind)
    return frozenset(each.name for each in part.status.synced if (each.group, each.kind) == crd)


def _kinds_named_by(configs: Iterable[ModuleConfig], *, default: str = "") -> tuple[ModuleCrKind, ...]:
    """Return the kinds of the Module CRs that ModuleConfigs name, first that of the one with the default name."""
    found: dict[tuple[str, str], ModuleCrKind] = {}
    for config in sorted(configs, key=lambda each: each.metadata.name != default):
        if (named := config.spec.resource_ref) is None or kind_refusal(named.api_version, named.kind) is not None:
            continue
        is_default = config.metadata.name == default
        kind = ModuleCrKind(named.api_version, named.kind, named.namespace * is_default, named.name * is_default)
        found.setdefault((kind.group, kind.kind), kind)
    return tuple(found.values())
