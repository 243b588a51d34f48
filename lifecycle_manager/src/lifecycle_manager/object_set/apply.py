"""Requests to an SKR that change the objects of a set. Each of them may be repeated."""

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import structlog

from kube_runtime import (
    AlreadyExists,
    Applier,
    ApplyMemory,
    ApplyResult,
    Client,
    Forbidden,
    InventoryEntry,
    JsonObject,
    KubernetesObject,
    NoteExisting,
    NotFound,
    ObjectOutcome,
    find_object,
)
from lifecycle_manager.contract.resources import FIELD_MANAGER, NAMESPACES
from lifecycle_manager.object_set.inventory import DEFAULT_NAMESPACE, Identity, identities, is_namespace, without
from lifecycle_manager.object_set.ownership import OWN_LABELS, OwnObjects, SetOwner
from lifecycle_manager_api import names

log = structlog.get_logger("object_set")


@dataclass(eq=False, slots=True)
class SkrObjects:
    """The objects of one owner in one SKR: part of the owner's state. `namespaces` are known to exist.

    What was applied is remembered as long as the client is the same: another one may lead to another cluster. The
    `default_namespace` is for objects that name none.
    """

    skr: Client
    owner: SetOwner | OwnObjects
    default_namespace: str
    namespaces: tuple[str, ...] = ()
    _memory: ApplyMemory = field(default_factory=ApplyMemory, init=False)

    @classmethod
    def of(
        cls,
        known: "SkrObjects | None",
        skr: Client,
        *,
        owner: SetOwner | OwnObjects,
        namespace: str = DEFAULT_NAMESPACE,
    ) -> "SkrObjects":
        """Return what is kept for this client and owner, or start anew. `namespace` is for objects that name none."""
        if known is not None and known.skr is skr and known.owner == owner:
            return known
        return cls(skr, owner, namespace)

    @property
    def applier(self) -> Applier:
        """An Applier with the memory of its predecessors: one for each reconcile takes nothing in between."""
        owner = self.owner
        return Applier(
            self.skr,
            field_manager=owner.field_manager,
            labels=owner.all_labels,
            annotations=owner.annotations,
            owns=owner.owns,
            default_namespace=self.default_namespace,
            former_managers=owner.former_managers,
            recreate_annotation=names.RECREATE,
            memory=self._memory,
        )

    def has_applied(self, entry: InventoryEntry) -> bool:
        """Tell whether an object is known to have been applied to this cluster."""
        return self._memory.knows(entry)

    async def apply(
        self,
        objects: tuple[KubernetesObject, ...],
        inventory: tuple[InventoryEntry, ...],
        *,
        recheck: bool | frozenset[Identity],
        new: frozenset[InventoryEntry] = frozenset(),
        namespaces: tuple[str, ...] = (),
        found: frozenset[Identity] = frozenset(),
        unsure: frozenset[InventoryEntry] = frozenset(),
        note_existing: NoteExisting | None = None,
        leave: Callable[[InventoryEntry, JsonObject], bool] = lambda _entry, _live: False,
        repeated: bool = False,
    ) -> ApplyResult:
        """Apply objects and delete none: those that only the inventory names are kept, see `prune`.

        Without `recheck` only objects with another document than before are requested; with identities in it these are
        requested too. `new` objects were not in the inventory before this reconcile. `namespaces` are created before
        where they are missing. They are not a part of the set: others may use them by the time it is deleted. `found`
        objects existed before the set: they are never deleted to be created anew. For the others see `Applier.apply`.
        """
        for name in sorted(set(namespaces).difference(self.namespaces)):  # they belong to no set
            namespace = {"metadata": {"name": name, "labels": OWN_LABELS}}
            with suppress(AlreadyExists):
                await self.skr.create(NAMESPACES, namespace, field_manager=FIELD_MANAGER)
            self.namespaces = (*self.namespaces, name)
        result = await self.applier.apply(
            map(_without_owners, objects),
            inventory,
            new=new,
            prune=False,
            recheck=recheck,
            leave=leave,
            found=found,
            unsure=unsure,
            note_existing=note_existing,
            repeated=repeated,
        )
        if result.failed:
            self.namespaces = ()  # somebody may have deleted one
        return result

    async def delete(
        self, entries: Collection[InventoryEntry], *, in_removal: Callable[[], Collection[str]] = frozenset
    ) -> tuple[ApplyResult, tuple[ObjectOutcome, ...]]:
        """Delete objects; return the result, and the Namespaces that are left because of what they contain.

        `in_removal` names the Namespaces that others are emptying: these are kept. It is asked again when it is known
        what a Namespace contains, since owners deleted at the same time are seen one after the other.
        """

        def waits(entry: InventoryEntry) -> bool:
            return is_namespace(entry) and entry.name in in_removal()

        waiting = [each for each in entries if waits(each)]
        removed = await self.applier.delete(without(entries, waiting))
        waiting += [each.entry for each in removed.held if waits(each.entry)]
        left = tuple(each for each in removed.held if is_namespace(each.entry) and each.entry not in waiting)
        await self.leave([each.entry for each in left])
        outcomes = [replace(each, action="released", live=None) if each in left else each for each in removed.outcomes]
        outcomes = [each for each in outcomes if each.entry not in waiting]
        outcomes += [ObjectOutcome(each, None, "kept") for each in waiting]
        inventory = {*without(removed.inventory, [each.entry for each in left]), *waiting}
        return ApplyResult(tuple(outcomes), tuple(sorted(inventory))), left

    async def leave(self, entries: Iterable[InventoryEntry]) -> tuple[InventoryEntry, ...]:
        """Leave objects to their users; return those that were there and the owner's. Raises KubeError.

        They lose the owner's labels, annotations and managed fields. Each field keeps its value: nobody owns those that
        only the owner has applied. What may not even be read stays as it is, unless it is known to have been applied.
        """
        left = []
        for entry in entries:
            found = None
            try:
                found = await find_object(self.skr, entry)
            except Forbidden:
                if self.has_applied(entry):
                    raise
            if found is None or not self.owner.owns(entry, found.live):
                continue
            patch, namespace = {"metadata": released_metadata(self.owner, found.live)}, entry.namespace or None
            with suppress(NotFound):  # deleted meanwhile
                await self.skr.merge_patch(found.resource, entry.name, patch, namespace, field_manager=FIELD_MANAGER)
                left.append(entry)
        return tuple(left)

    async def prune(self, applied: ApplyResult, entries: tuple[InventoryEntry, ...]) -> ApplyResult:
        """Delete objects that an apply has left over; return the result of both."""
        chosen = identities(entries)
        removed = await self.applier.prune(entries, applied.outcomes)
        outcomes = (
            *(each for each in applied.outcomes if each.index is not None or each.entry.identity not in chosen),
            *removed.outcomes,
        )
        staying = {each for each in applied.inventory if each.identity not in chosen}
        return ApplyResult(outcomes, tuple(sorted(staying.union(removed.inventory))))


def _without_owners(thing: KubernetesObject) -> KubernetesObject:
    """Return an object without the owners that its document names: for those of another cluster it would be deleted."""
    if "ownerReferences" not in thing.document["metadata"]:
        return thing
    metadata = {key: value for key, value in thing.document["metadata"].items() if key != "ownerReferences"}
    return replace(thing, document={**thing.document, "metadata": metadata})


def released_metadata(owner: SetOwner | OwnObjects, live: Mapping[str, Any]) -> dict[str, Any]:
    """Return the patch of the metadata of an object that its owner gives up, in the version that was read.

    Of labels and annotations go those with the owner's values that no other field manager owns.
    """
    metadata = live["metadata"]
    managers = {owner.field_manager, *owner.former_managers}
    fields: list[Any] = [each for each in metadata.get("managedFields") or () if each.get("manager") not in managers]
    owned = [each.get("fieldsV1", {}).get("f:metadata", {}) for each in fields]
    patch: dict[str, Any] = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
    for section, ours in (("labels", owner.all_labels), ("annotations", owner.annotations)):
        theirs = {key for each in owned for key in each.get(f"f:{section}", {})}
        present = metadata.get(section) or {}
        patch[section] = {
            key: None for key, value in ours.items() if present.get(key) == value and f"f:{key}" not in theirs
        }
    # The server ignores an empty list. This one it stores as empty.
    return {**patch, "managedFields": fields or [{}]}


async def hand_over(skr: Client, giver: SetOwner, given: Mapping[InventoryEntry, SetOwner]) -> None:
    """Give those objects that carry the labels of the giver those of the owner that gets them. Raises KubeError.

    Done before the giver forgets them, so that an object has an owner at any time, whenever a process ends.
    """
    for entry, next_owner in given.items():
        metadata = {"labels": next_owner.labels, "annotations": next_owner.annotations}
        if await _change_metadata(skr, giver, entry, metadata):
            log.info("object handed over", object=str(entry), module=next_owner.module, owner=str(next_owner.key))


async def release(skr: Client, owner: SetOwner, entries: Iterable[InventoryEntry]) -> None:
    """Remove what says who manages and watches them from the objects of an owner. Raises KubeError."""
    labels = {names.MANAGED_BY: None, names.WATCHED_BY: None}
    for entry in entries:
        if await _change_metadata(skr, owner, entry, {"labels": labels, "annotations": {names.DISCLAIMER: None}}):
            log.info("object released", object=str(entry), module=owner.module)


async def _change_metadata(skr: Client, owner: SetOwner, entry: InventoryEntry, metadata: Mapping[str, Any]) -> bool:
    """Change the metadata of an object, if it exists and is the owner's."""
    try:
        found = await find_object(skr, entry)
        if found is None or not owner.owns(entry, found.live):
            return False
        patch = {"metadata": {**metadata, "uid": found.live["metadata"]["uid"]}}
        await skr.merge_patch(found.resource, entry.name, patch, entry.namespace or None, field_manager=FIELD_MANAGER)
    except NotFound:
        return False  # deleted meanwhile
    return True
