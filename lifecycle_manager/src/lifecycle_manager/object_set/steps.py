"""The steps that every owner of a set takes. A domain adds its own; its plan decides on their order."""

from typing import Any, TypeGuard

import msgspec

from kube_runtime import ApplyResult, InventoryEntry, KubernetesObject
from lifecycle_manager.object_set.inventory import Identity


class Step(msgspec.Struct, frozen=True):
    """What a reconcile does next, with all that it needs for it."""


class End(Step, frozen=True):
    """A step that ends the reconcile."""


class ApplyObjects(Step, frozen=True):
    """Apply these objects; delete none. Without `recheck` only objects with another document than before are requested.

    With identities in `recheck` these are requested too.
    `new` objects were not in the inventory before this reconcile. `namespaces` are created before where they are
    missing. They are not a part of the set: others may use them by the time it is deleted.
    """

    objects: tuple[KubernetesObject, ...]
    inventory: tuple[InventoryEntry, ...]
    recheck: bool | frozenset[Identity]
    new: frozenset[InventoryEntry] = frozenset()
    namespaces: tuple[str, ...] = ()


class PruneObjects(Step, frozen=True):
    """Delete objects that are in the inventory and not among the objects any more."""

    objects: tuple[KubernetesObject, ...]
    applied: ApplyResult
    entries: tuple[InventoryEntry, ...]


class DeleteObjects(Step, frozen=True):
    """Delete these objects of the inventory: their owner is being deleted."""

    inventory: tuple[InventoryEntry, ...]


class RemoveFinalizer(End, frozen=True):
    """Remove the finalizer: nothing is left in the SKR, or it stays there for its users.

    Those `of_others` too where the SKR is gone: nobody can do anything there any more.
    """

    of_others: bool = False


def is_end(step: Any) -> TypeGuard[End]:
    """Tell whether a step ends the reconcile."""
    return isinstance(step, End)


def kept(applied: ApplyResult) -> tuple[InventoryEntry, ...]:
    """Return the objects that an apply has kept although they are no longer among its objects."""
    return tuple(each.entry for each in applied.outcomes if each.index is None and each.action == "kept")
