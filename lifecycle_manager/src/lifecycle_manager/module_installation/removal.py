"""Has a cluster without a module: its default Module CR first, while what runs it can still clean up after it.

Then its other objects in reverse order, its definitions last. Nothing is taken away while users have objects of its
kinds: with the definition they would be gone, and without what runs the module nobody could clean up after them. What
another module has as well is left to that one.
"""

from collections.abc import Awaitable, Callable, Collection, Sequence

from kube_runtime import Applier, Client, InventoryEntry, JsonObject, NotFound, Resource
from lifecycle_manager.module_installation.custom_resources import (
    ModuleCr,
    definition_of,
    is_definition,
    kinds_of,
    listed,
    made_for,
    others_in_use,
)
from lifecycle_manager.module_installation.managers import manager_seen, managers_of
from lifecycle_manager.module_installation.module_cr import DefaultCr, default_cr
from lifecycle_manager.module_installation.sharing import Holder, left_to
from lifecycle_manager.module_installation.status import Leaving
from lifecycle_manager.skr.finalizers import strip_finalizers
from lifecycle_manager_api import Manifest

GiveUp = Callable[[Collection[InventoryEntry]], Awaitable[tuple[InventoryEntry, ...]]]
"""Leaves objects to other modules that have them too, and returns those that nobody else has. Raises KubeError."""


async def remove(
    skr: Client,
    applier: Applier,
    manifest: Manifest,
    inventory: Collection[InventoryEntry],
    others: Sequence[Holder],
    give_up: GiveUp,
    *,
    default_namespace: str,
) -> Leaving | None:
    """Take the next steps of a removal; None where nothing is left. Raises KubeError.

    Objects of users hold nothing back where their definition stays, for `others` have it.
    """
    wanted = default_cr(manifest, default_namespace)
    managers = managers_of(manifest.spec.manager, inventory, default_namespace)
    kinds = await kinds_of(skr, inventory, wanted)
    made = await _made(skr, manifest, wanted, kinds, inventory)
    waiting = [str(each) for each in made if await _remove_default(skr, each, managers, manifest)]
    going = [each for each in kinds if not left_to([definition_of(each)], others)]
    shared = left_to(inventory, others)
    own = {*(each.identity for each in inventory if each not in shared), *(each.identity for each in made)}
    if users := await others_in_use(skr, going, own):
        return Leaving(tuple(inventory), f"delete them first, they go with the module: {listed(users)}", True)
    if waiting:
        return Leaving(tuple(inventory), f"waits for {listed(waiting)} to go")
    definitions = [entry for entry in inventory if is_definition(entry)]
    rest = [entry for entry in inventory if not is_definition(entry)]
    if rest and (left := await _delete(applier, await give_up(rest))):
        return Leaving(tuple(sorted({*left, *definitions})), _waits_for(left))
    if users := await others_in_use(skr, going, frozenset()):
        return Leaving(tuple(definitions), f"delete them first, they go with the module: {listed(users)}", True)
    if definitions and (left := await _delete(applier, await give_up(definitions))):
        return Leaving(left, _waits_for(left))
    return None


async def _made(
    skr: Client,
    manifest: Manifest,
    wanted: DefaultCr | None,
    kinds: Collection[Resource[JsonObject]],
    inventory: Collection[InventoryEntry],
) -> tuple[ModuleCr, ...]:
    """Return the default Module CR, and those that earlier versions had in its place; none that are left to users."""
    if manifest.spec.custom_resource_policy != "CreateAndDelete":
        return ()
    default = [
        ModuleCr(each, wanted.namespace, wanted.name)
        for each in kinds
        if wanted is not None and (each.group, each.kind) == (wanted.group, wanted.kind)
    ]
    return tuple(dict.fromkeys((*default, *await made_for(skr, manifest, kinds, inventory))))


async def _delete(applier: Applier, entries: Collection[InventoryEntry]) -> tuple[InventoryEntry, ...]:
    result = await applier.delete(entries)
    result.raise_first_failure()
    return result.inventory


async def _remove_default(skr: Client, made: ModuleCr, managers: Collection[InventoryEntry], owner: Manifest) -> bool:
    """Delete a default Module CR; return whether it is still there."""
    try:
        live = await skr.get(made.resource, made.name, made.namespace or None)
        if not live["metadata"].get("deletionTimestamp"):
            uid = live["metadata"]["uid"]
            gone = await skr.delete_and_see(made.resource, made.name, made.namespace or None, uid=uid)
            if gone is None:
                return False
            live = gone
        if live["metadata"].get("finalizers") and await _nobody_runs(skr, managers):
            await strip_finalizers(skr, made.resource, live, owner)
            return False
    except NotFound:
        return False
    return True


async def _nobody_runs(skr: Client, managers: Collection[InventoryEntry]) -> bool:
    """Tell whether what runs the module is gone, so that nobody will ever act on the finalizers of its Module CR."""
    seen = [await manager_seen(skr, entry) for entry in managers]
    return bool(seen) and all(each.readiness is None for each in seen)


def _waits_for(left: Collection[InventoryEntry]) -> str:
    return f"waits for {len(left)} to go: {listed([f'{each.kind} {each.name}' for each in left])}"
