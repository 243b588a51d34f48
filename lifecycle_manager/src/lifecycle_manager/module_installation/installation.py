"""Has a module in a cluster: its objects, then what runs it, then its default Module CR."""

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType

from kube_runtime import (
    AlreadyExists,
    Applier,
    ApplyResult,
    Client,
    ClusterUnreachable,
    InventoryEntry,
    JsonObject,
    KindUnknown,
    KubeError,
    NotFound,
    ObjectOutcome,
)
from lifecycle_manager.module_installation.custom_resources import is_definition, listed, objects_of
from lifecycle_manager.module_installation.managers import manager_seen, managers_of, waited_for
from lifecycle_manager.module_installation.module_cr import DefaultCr, default_cr
from lifecycle_manager.module_installation.rendering import Rendering
from lifecycle_manager.module_installation.sharing import Identity
from lifecycle_manager.module_installation.status import CrView, ManagerView, Seen, was_made
from lifecycle_manager.resources import FIELD_MANAGER, NAMESPACES
from lifecycle_manager_api import Manifest, names


@dataclass(frozen=True, slots=True)
class Applied:
    """What came of applying the objects of a module; `held` are the definitions that may not go yet, and why."""

    result: ApplyResult
    held: tuple[tuple[InventoryEntry, str], ...] = ()

    @property
    def inventory(self) -> tuple[InventoryEntry, ...]:
        """What is in the cluster now and is the module's."""
        return tuple(sorted({*self.result.inventory, *(entry for entry, _ in self.held)}))

    @property
    def is_settled(self) -> bool:
        """Whether nothing is left to be done before something changes."""
        return not self.held and not self.result.failed and not self._going

    @property
    def _going(self) -> tuple[str, ...]:
        return tuple(
            f"{each.entry.kind} {each.entry.name}"
            for each in self.result.outcomes
            if each.index is None and each.error is None and (each.live is not None or each.action == "kept")
        )

    @property
    def lives(self) -> Mapping[Identity, JsonObject]:
        """What is there of the objects, as far as this apply has shown."""
        return {each.entry.identity: each.live for each in self.result.outcomes if each.live is not None}

    def seen(self) -> Seen:
        """Return it as a part of what a round shows."""
        failures = tuple(_failure(each) for each in self.result.failed)
        held = tuple(f"{entry.kind} {entry.name} has {why}" for entry, why in self.held)
        return Seen(self.inventory, failures, self._going, held)


async def apply(
    skr: Client,
    applier: Applier,
    rendering: Rendering,
    inventory: Collection[InventoryEntry],
    *,
    new: Collection[InventoryEntry],
    recheck: bool,
    leave: Callable[[InventoryEntry, JsonObject], bool],
) -> Applied:
    """Apply the objects of a module, and take out what left it; but no definition of which there are objects.

    `new` is what was not in the inventory before this apply; `leave` tells of an object whether it may stay as another
    module has made it. Raises KubeError.
    """
    wanted = {(each.api_version.rpartition("/")[0], each.kind, each.name) for each in rendering.objects}
    held = [
        (entry, listed(found))
        for entry in inventory
        if is_definition(entry) and (entry.group, entry.kind, entry.name) not in wanted
        if (found := await objects_of(skr, entry.name))
    ]
    staying = {entry for entry, _ in held}
    leaving = [entry for entry in inventory if entry not in staying]
    return Applied(await applier.apply(rendering.objects, leaving, new=new, recheck=recheck, leave=leave), tuple(held))


async def make_namespace(skr: Client, name: str) -> None:
    """Make the namespace that modules have in common, where it is missing. Raises KubeError."""
    namespace = {"metadata": {"name": name, "labels": {names.MANAGED_BY: names.LIFECYCLE_MANAGER}}}
    with suppress(AlreadyExists):
        await skr.create(NAMESPACES, namespace, field_manager=FIELD_MANAGER)


async def look(
    skr: Client,
    manifest: Manifest,
    inventory: Collection[InventoryEntry],
    *,
    closely: bool,
    default_namespace: str,
    lives: Mapping[Identity, JsonObject] = MappingProxyType({}),
) -> Seen:
    """Say how a module does whose objects are in the cluster; make its default Module CR where it is missing.

    Not `closely`, a module that has a Module CR is judged by that alone: one request. `lives` are objects as they were
    just read. Raises KubeError.
    """
    wanted = default_cr(manifest, default_namespace)
    managers: tuple[ManagerView, ...] = ()
    if closely or wanted is None:
        named = manifest.spec.manager
        runs = managers_of(named, inventory, default_namespace)
        found = [await manager_seen(skr, each, lives.get(each.identity)) for each in runs]
        others = [await manager_seen(skr, each, lives.get(each.identity)) for each in waited_for(named, inventory)]
        managers = (*found, *(each for each in others if each.readiness is not None))
    running = all(each.readiness is not None and each.readiness.state == "Current" for each in managers)
    module_cr = None
    if wanted is not None and (running or was_made(manifest, wanted)):
        module_cr = await _module_cr(skr, wanted, made=was_made(manifest, wanted))
    return Seen(tuple(inventory), managers=managers, module_cr=module_cr)


async def _module_cr(skr: Client, wanted: DefaultCr, *, made: bool) -> CrView:
    """Read the default Module CR, and create it if that was never done."""
    try:
        resource = await skr.mapper.resource(wanted.api_version, wanted.kind)
        try:
            live = await skr.get(resource, wanted.name, wanted.namespace or None)
        except NotFound:
            if made:
                return CrView(wanted, None)
            live = await skr.create(resource, wanted.document, wanted.namespace or None, field_manager=FIELD_MANAGER)
        return CrView(wanted, live)
    except ClusterUnreachable:
        raise
    except AlreadyExists:
        return CrView(wanted, {})  # a user was faster
    except (KindUnknown, KubeError, ValueError) as error:
        return CrView(wanted, None, refused=str(error), made=made)


def _failure(outcome: ObjectOutcome) -> str:
    entry = outcome.entry
    where = f"document {outcome.index}: " if outcome.index is not None else ""
    name = f"{entry.namespace}/{entry.name}" if entry.namespace else entry.name
    return f"{where}{entry.kind} {name}: {outcome.error}"
