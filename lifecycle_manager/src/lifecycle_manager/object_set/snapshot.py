"""What the common rules of a set decide on; the snapshot of a domain adds its own."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Generic

from kube_runtime import InventoryEntry, KubernetesObject
from lifecycle_manager.object_set.inventory import DEFAULT_NAMESPACE, Identity, namespace_in, scopes_of
from lifecycle_manager.object_set.owner_writes import Owner
from lifecycle_manager.skr.brake import RELEASED, Brake
from lifecycle_manager_api.policy_checks import ModuleRules


@dataclass(frozen=True, slots=True, kw_only=True)
class SetSnapshot(Generic[Owner]):
    """One set of objects, as its owner `resource` in KCP has it at the beginning of a reconcile.

    - `inventory`: what is in the SKR or may be: by the status, and by the memory of this process
    - `found`: what of the inventory existed in the SKR before the set had it
    - `rules`: what the module may have; None where it may have everything
    - `pull_secret`: the name of the image pull Secret, which no module may have
    - `default_namespace`: that of objects that name none
    - `brake`: whether the deletion of the set is held
    """

    resource: Owner
    now: datetime
    inventory: tuple[InventoryEntry, ...] = ()
    found: frozenset[Identity] = frozenset()
    rules: ModuleRules | None = None
    pull_secret: str = ""
    default_namespace: str = DEFAULT_NAMESPACE
    brake: Brake = RELEASED

    @property
    def namespace_of(self) -> Callable[[KubernetesObject], str]:
        """What says the namespace of an object, by the scopes of kinds as far as the SKR has stated them."""
        return namespace_in(scopes_of(self.inventory), self.default_namespace)
