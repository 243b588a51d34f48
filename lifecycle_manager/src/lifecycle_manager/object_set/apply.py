"""Requests to an SKR that change the objects of a set. Every function may be repeated."""

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress

import structlog

from kube_runtime import (
    AlreadyExists,
    Applier,
    ApplyResult,
    Client,
    InventoryEntry,
    JsonObject,
    KindUnknown,
    KubernetesObject,
    NotFound,
    ObjectKey,
)
from lifecycle_manager.object_set.inventory import identities
from lifecycle_manager.object_set.ownership import Holder
from lifecycle_manager.resources import FIELD_MANAGER, NAMESPACES
from lifecycle_manager_api import names

log = structlog.get_logger("object_set")


async def apply_objects(
    applier: Applier,
    objects: Iterable[KubernetesObject],
    inventory: Collection[InventoryEntry],
    *,
    recheck: bool,
    new: Collection[InventoryEntry] = (),
    leave: Callable[[InventoryEntry, JsonObject], bool] = lambda _entry, _live: False,
) -> ApplyResult:
    """Apply objects and delete none: those that only the inventory names are kept, see `prune`."""
    return await applier.apply(objects, inventory, new=new, prune=False, recheck=recheck, leave=leave)


async def prune(
    applier: Applier,
    objects: Iterable[KubernetesObject],
    applied: ApplyResult,
    entries: Collection[InventoryEntry],
) -> ApplyResult:
    """Delete objects that an apply has left over; return the result of both.

    The objects just applied are named again, so that none of them is deleted under another API group.
    """
    chosen = identities(entries)
    removed = await applier.apply(objects, entries, prune=True, recheck=False)
    outcomes = (
        *(each for each in applied.outcomes if each.index is not None or each.entry.identity not in chosen),
        *(each for each in removed.outcomes if each.index is None),
    )
    staying = {each for each in applied.inventory if each.identity not in chosen}
    remaining = {each for each in removed.inventory if each.identity in chosen}
    return ApplyResult(outcomes, tuple(sorted(staying | remaining)))


async def create_namespace(skr: Client, name: str) -> None:
    """Create a namespace where it is missing. It belongs to no set. Raises KubeError."""
    namespace = {"metadata": {"name": name, "labels": {names.MANAGED_BY: names.LIFECYCLE_MANAGER}}}
    with suppress(AlreadyExists):
        await skr.create(NAMESPACES, namespace, field_manager=FIELD_MANAGER)


async def hand_over(skr: Client, giver: ObjectKey, given: Mapping[InventoryEntry, Holder]) -> None:
    """Give those objects that carry the labels of the giver those of the module that gets them. Raises KubeError.

    Done before the giver forgets them, so that an object has an owner at any time, whenever a process ends.
    """
    for entry, heir in given.items():
        try:
            resource = await skr.mapper.resource(entry.api_version, entry.kind)
            live = await skr.get(resource, entry.name, entry.namespace or None)
            if (live["metadata"].get("annotations") or {}).get(names.OWNED_BY) != str(giver):
                continue
            metadata = {"labels": {names.MODULE_NAME: heir.module}, "annotations": {names.OWNED_BY: str(heir.key)}}
            patch = {"metadata": {**metadata, "uid": live["metadata"]["uid"]}}
            await skr.merge_patch(resource, entry.name, patch, entry.namespace or None, field_manager=FIELD_MANAGER)
        except (KindUnknown, NotFound):
            continue  # gone already
        log.info("object handed over to another module", object=str(entry), module=heir.module)
