"""The other modules of an SKR: which objects they have as well, and to which of them an object is handed over."""

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from kube_runtime import Informer, InventoryEntry, ObjectKey
from lifecycle_manager.contract.indexes import MANIFESTS_BY_KYMA
from lifecycle_manager.contract.resources import MANIFESTS
from lifecycle_manager.module_catalog.manifests import kyma_of_manifest
from lifecycle_manager.module_installation.snapshot import ManifestState, holder
from lifecycle_manager.object_set.ownership import Holder, holders_of
from lifecycle_manager_api import Manifest


@dataclass(eq=False)
class Neighbours:
    """The other modules of an SKR: what they have, and the turns in which objects are handed over to them."""

    manifests: Informer[Manifest]
    state_of: Callable[[ObjectKey], ManifestState | None]
    enqueue: Callable[[ObjectKey], None]
    _turns: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary, init=False)

    def of(self, manifest: Manifest) -> tuple[Holder, ...]:
        """Return the other modules of the same SKR that are not being deleted."""
        own, nothing = MANIFESTS.key_of(manifest), ManifestState()
        others = self.manifests.by_index(MANIFESTS_BY_KYMA, kyma_of_manifest(manifest))
        known = ((each, self.state_of(MANIFESTS.key_of(each)) or nothing) for each in others)
        found = (holder(each, state.inventory, state.released) for each, state in known)
        return tuple(each for each in found if each is not None and each.key != own)

    def turn(self, manifest: Manifest) -> asyncio.Lock:
        """Return the lock of the SKR: no two modules hand an object over to each other."""
        return self._turns.setdefault(kyma_of_manifest(manifest), asyncio.Lock())

    def notify(self, manifest: Manifest, gone: Collection[InventoryEntry]) -> None:
        """Enqueue the other modules that have objects which this one no longer has."""
        for key in holders_of(gone, self.of(manifest)) if gone else ():
            self.enqueue(key)
