"""The other modules of the same cluster: what is left to them, and who of them is to look again at what is gone.

What a Manifest's status says of its objects comes back from the control plane a moment late. So what this process has
brought since, or left to another module, counts as well.
"""

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from kube_runtime import Client, Informer, InventoryEntry, ObjectKey
from lifecycle_manager.module_catalog import kyma_of_manifest
from lifecycle_manager.module_installation import sharing
from lifecycle_manager.module_installation.handover import hand_over
from lifecycle_manager.resources import MANIFESTS
from lifecycle_manager_api import Manifest


@dataclass(eq=False)
class Neighbours:
    """Looks after the objects that several modules of a cluster bring.

    `brought` says what this process has in the cluster for a Manifest; `wake` has one looked at.
    """

    manifests: Informer[Manifest]
    brought: Callable[[ObjectKey], Collection[InventoryEntry]]
    wake: Callable[[ObjectKey], None]
    _given_up: dict[ObjectKey, frozenset[sharing.Identity]] = field(default_factory=dict, init=False)
    _handovers: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary, init=False)

    def of(self, manifest: Manifest) -> tuple[sharing.Holder, ...]:
        """Return the other modules of the same cluster that stay there."""
        found, own = [], MANIFESTS.key_of(manifest)
        for other in self.manifests.cache.by_index("kyma", kyma_of_manifest(manifest)):
            key = MANIFESTS.key_of(other)
            if key != own:
                found.append(sharing.holder(other, self.brought(key), self._given_up.get(key, frozenset())))
        return tuple(each for each in found if each is not None)

    async def leave(
        self, manifest: Manifest, skr: Client, entries: Collection[InventoryEntry]
    ) -> tuple[InventoryEntry, ...]:
        """Leave objects to other modules that have them too; return those that nobody else has. Raises KubeError.

        One module of a cluster at a time, so that no two leave an object to each other.
        """
        if not sharing.left_to(entries, self.of(manifest)):
            return tuple(entries)
        key = MANIFESTS.key_of(manifest)
        async with self._handovers.setdefault(kyma_of_manifest(manifest), asyncio.Lock()):
            left = sharing.left_to(entries, self.of(manifest))
            await hand_over(skr, key, left)
            self._given_up[key] = self._given_up.get(key, frozenset()) | {each.identity for each in left}
        return tuple(each for each in entries if each not in left)

    def take_back(self, key: ObjectKey, identities: Collection[sharing.Identity]) -> None:
        """Count objects as a Manifest's again: it brings them anew."""
        if key in self._given_up:
            self._given_up[key] -= {*identities}

    def tell(self, manifest: Manifest, gone: Collection[InventoryEntry]) -> None:
        """Have the other modules looked at that have objects which this one has no more."""
        for key in sharing.holding(gone, self.of(manifest)) if gone else ():
            self.wake(key)

    def forget(self, key: ObjectKey) -> None:
        """Drop what a Manifest has left to others: its status says it by now, or it is gone."""
        self._given_up.pop(key, None)
