"""What the common rules of a set decide on; the snapshot of a domain adds its own."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Generic

from kube_runtime import ApplyResult, InventoryEntry, KubernetesObject, Snapshot
from lifecycle_manager.object_set.inventory import DEFAULT_NAMESPACE, Identity, identities, namespace_in
from lifecycle_manager.object_set.owner_writes import Owner
from lifecycle_manager.object_set.ownership import Holder
from lifecycle_manager.skr import RELEASED, Brake
from lifecycle_manager_api.policy_checks import ModuleRules


@dataclass(frozen=True, slots=True, kw_only=True)
class SetSnapshot(Snapshot, Generic[Owner]):
    """One set of objects, as its owner `resource` in KCP and the steps of the reconcile have it.

    - `inventory`: what is in the SKR or may be: by the status, and by the memory of this process
    - `before`: the inventory at the beginning of the reconcile
    - `found`: what of the inventory, and of what is wanted, existed in the SKR before the set had it
    - `rules`: what the module may have; None where it may have everything
    - `pull_secret`: the name of the image pull Secret, which no module may have
    - `default_namespace`: that of objects that name none
    - `brake`: whether the deletion of the set is held
    - `wanted`: what an apply may create, as the SKR resolves it; None before that is known
    - `others`: the other owners that may have the same objects, as read last
    - `recorded`: this reconcile has recorded the intent
    - `applied`, `removed`: the results of steps; `applied` with those of pruning once `pruned`
    """

    resource: Owner
    now: datetime
    inventory: tuple[InventoryEntry, ...] = ()
    before: tuple[InventoryEntry, ...] = ()
    found: frozenset[Identity] = frozenset()
    rules: ModuleRules | None = None
    pull_secret: str = ""
    default_namespace: str = DEFAULT_NAMESPACE
    brake: Brake = RELEASED
    wanted: frozenset[InventoryEntry] | None = None
    others: tuple[Holder, ...] = ()
    recorded: bool = False
    applied: ApplyResult | None = None
    pruned: bool = False
    removed: ApplyResult | None = None

    @property
    def leftover(self) -> tuple[InventoryEntry, ...]:
        """What is in the inventory and no longer wanted."""
        wanted = identities(self.wanted or ())
        return tuple(each for each in self.inventory if each.identity not in wanted)

    @property
    def namespace_of(self) -> Callable[[KubernetesObject], str]:
        """What says the namespace of an object, by the scopes of kinds as far as the SKR has stated them."""
        entries = (*self.inventory, *(self.wanted or ()))
        scopes = {(each.group, each.kind): bool(each.namespace) for each in entries}
        return namespace_in(scopes, self.default_namespace)

    @property
    def intended(self) -> tuple[InventoryEntry, ...]:
        """What is in the SKR or about to be, sorted."""
        return tuple(sorted((*self.leftover, *(self.wanted or ()))))
