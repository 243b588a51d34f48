"""The other sets of objects in one SKR: what they found there, take over, and from which namespaces they delete."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

import msgspec

from kube_runtime import Informer, InventoryEntry, KubeError, ManifestInvalid, parse_aside, parse_objects
from lifecycle_manager.contract.indexes import MANIFESTS_BY_KYMA, MODULE_CONFIGS_BY_KYMA, SYNC_RESOURCES_BY_KYMA
from lifecycle_manager.contract.verdict import POLICY_VIOLATION
from lifecycle_manager.module_catalog.manifests import module_of_manifest
from lifecycle_manager.object_set.inventory import (
    DEFAULT_NAMESPACE,
    Identity,
    found_before,
    identities,
    inventory_of,
    own_inventory,
    pending_object,
    unresolved_entries,
    without,
)
from lifecycle_manager.object_set.owner_writes import OwnerWrites, RecordingFailed
from lifecycle_manager.object_set.ownership import SetOwner
from lifecycle_manager.object_set.policy import Policies
from lifecycle_manager.object_set.reporting import cluster_of, set_owner
from lifecycle_manager_api import Manifest, ModuleConfig, State, SyncResource, find, names


@dataclass(frozen=True, eq=False, slots=True)
class OtherSets:
    """The Manifests and SyncResources of the same Kyma, as the caches have them.

    A SyncResource counts in the namespace of its module alone: another one's status says nothing. `parts` writes them.
    """

    manifests: Informer[Manifest]
    parts: OwnerWrites[SyncResource]
    configs: Informer[ModuleConfig]
    policies: Policies

    def found_before(self, owner: Manifest | SyncResource) -> frozenset[Identity]:
        """Return what the others have that existed before, also those that are being deleted."""
        return frozenset().union(*map(found_before, self._others(owner)))

    def in_removal(self, owner: Manifest | SyncResource) -> frozenset[str]:
        """Return the namespaces from which others that are being deleted delete objects."""
        removed = (each for each in self._others(owner) if is_in_removal(each) and not self._waits_for(each, owner))
        return frozenset(entry.namespace for each in removed for entry in own_inventory(each))

    async def take(
        self, owner: Manifest | SyncResource, entries: Collection[InventoryEntry]
    ) -> dict[InventoryEntry, SetOwner]:
        """Have SyncResources of the same module take what an owner gives up and their texts name; return by whom.

        They record it first, so that it has an owner at any time. Raises KubeError.
        """
        module, taken = set_owner(owner).module, dict[InventoryEntry, SetOwner]()
        for each in self._others(owner):
            if isinstance(each, Manifest) or each.metadata.being_deleted or each.spec.module != module:
                continue
            text, left = each.spec.resource, [entry for entry in entries if entry not in taken]
            if named := await parse_aside(len(text), _named_in, text, left):
                fresh = map(pending_object, without(named, inventory_of(each)))
                status = msgspec.structs.replace(each.status, synced=(*each.status.synced, *fresh))
                try:
                    await self.parts.intend(each, status)
                except RecordingFailed as error:  # the owner's own intent is recorded: its status says what failed
                    raise KubeError(f"SyncResource {each.metadata.name} can't take over objects: {error}") from error
                taken |= dict.fromkeys(named, set_owner(each))
        return taken

    def _others(self, owner: Manifest | SyncResource) -> Iterator[Manifest | SyncResource]:
        kyma, metadata = cluster_of(owner), owner.metadata
        own = (type(owner), metadata.namespace, metadata.name)
        parts = filter(self.policies.is_in_place, self.parts.informer.by_index(SYNC_RESOURCES_BY_KYMA, kyma))
        found: Iterable[Manifest | SyncResource] = [*self.manifests.by_index(MANIFESTS_BY_KYMA, kyma), *parts]
        for each in found:
            if (type(each), each.metadata.namespace, each.metadata.name) != own:
                yield each

    def _waits_for(self, other: Manifest | SyncResource, owner: Manifest | SyncResource) -> bool:
        """Tell whether the removal of a module waits for a SyncResource that is made from its ModuleConfigs."""
        if isinstance(owner, Manifest) or not isinstance(other, Manifest):
            return False
        module, configs = owner.spec.module, self.configs.by_index(MODULE_CONFIGS_BY_KYMA, owner.spec.kyma)
        return module_of_manifest(other) == module and any(each.spec.module == module for each in configs)


def _named_in(text: str, entries: Collection[InventoryEntry]) -> list[InventoryEntry]:
    """Return the objects that a text names; none where it can't be read."""
    if not any(each.name in text for each in entries):
        return []
    try:
        named = identities(unresolved_entries(parse_objects(text, default_namespace=DEFAULT_NAMESPACE)))
    except ManifestInvalid:
        return []
    return [it for it in entries if (it.group, it.kind, it.namespace or DEFAULT_NAMESPACE, it.name) in named]


def is_in_removal(owner: Manifest | SyncResource) -> bool:
    """Tell whether an owner is being deleted and has more to delete than what its module may not delete."""
    finalizer = names.MANIFEST_FINALIZER if isinstance(owner, Manifest) else names.SYNC_RESOURCE_FINALIZER
    if not owner.metadata.being_deleted or finalizer not in owner.metadata.finalizers:
        return False
    ready = find(owner.status.conditions, names.READY_CONDITION)
    return not (owner.status.state is State.DELETING and ready is not None and ready.reason == POLICY_VIOLATION)
