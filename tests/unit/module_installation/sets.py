"""Reconciles of a Manifest on a cluster without a server, from what is known at their beginning."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from kube_runtime import SYSTEM_CLOCK, Causes, InventoryEntry, Request
from lifecycle_manager.contract.resources import MANIFESTS
from lifecycle_manager.module_installation.apply import ManifestEngine, ModuleSet
from lifecycle_manager.module_installation.controller import ManifestReconciler
from lifecycle_manager.module_installation.reading import ManagerView
from lifecycle_manager.module_installation.rendering import RenderedModule
from lifecycle_manager.module_installation.snapshot import ManifestReader, ManifestSnapshot, ManifestState
from lifecycle_manager.module_installation.status import unreachable
from lifecycle_manager.module_installation.steps import Upgrade
from lifecycle_manager.module_sources.references import Source
from lifecycle_manager.object_set.engine import ObjectSet
from lifecycle_manager.object_set.inventory import without
from lifecycle_manager.object_set.ownership import Holder
from lifecycle_manager.options.modules import Options
from lifecycle_manager.skr.connections import Connections
from lifecycle_manager_api import Manifest, names
from tests.sets import NO_OTHER_SETS, RecordedSet, RecordedWrites


@dataclass(eq=False, kw_only=True)
class RecordedModule(RecordedSet):
    """A module in an SKR without a server.

    `rendering` are the objects of its version, `others` the other modules of the SKR.
    """

    rendering: RenderedModule
    others: tuple[Holder, ...] = ()
    handed_over: list[InventoryEntry] = field(default_factory=list)


@dataclass(frozen=True, eq=False, kw_only=True)
class RecordedEngine(ManifestEngine):
    world: RecordedModule

    def others_of(self, _owner: Manifest) -> tuple[Holder, ...]:
        return self.world.others

    def gave_up(self, _owner: Manifest, _entries: tuple[InventoryEntry, ...]) -> None:
        """No other module is enqueued."""

    async def render(self, _manifest: Manifest, _source: Source) -> RenderedModule:
        return self.world.rendering

    async def hand_over(self, module: ModuleSet, shared: Mapping[InventoryEntry, Holder]) -> None:
        self.world.requests.append("hand over")
        self.world.handed_over += shared
        module.remember(without(module.inventory, shared))

    async def judge(self, _module: ModuleSet, seen: ManifestSnapshot) -> ManifestSnapshot:
        return replace(seen, managers=(ManagerView("Deployment manager", None),))


@dataclass(frozen=True)
class _Known:
    """A reader that returns what is known."""

    seen: ManifestSnapshot

    async def read(self, _: object) -> ManifestSnapshot:
        return self.seen


def engine_of(world: RecordedModule) -> RecordedEngine:
    nothing: Any = None
    return RecordedEngine(
        writes=cast("Any", RecordedWrites(world, names.MANIFEST_FINALIZER)),
        connections=cast("Connections", world),
        clock=SYSTEM_CLOCK,
        unreachable=unreachable,
        other_sets=NO_OTHER_SETS,
        neighbours=nothing,
        store=nothing,
        logins=nothing,
        renderings=nothing,
        data=None,
        options=Options(),
        world=world,
    )


def state_of(world: RecordedModule, seen: ManifestSnapshot, settled: str = "") -> ManifestState:
    objects = world.objects_of(seen.resource, seen.default_namespace)
    return ManifestState(objects=objects, inventory=seen.inventory, settled=settled, next_check=1000.0)


def installed(seen: ManifestSnapshot, world: RecordedModule) -> None:
    """Reconcile a Manifest that is not being deleted."""
    reconciler = ManifestReconciler(cast("ManifestReader", _Known(seen)), engine_of(world))
    asyncio.run(reconciler.reconcile(MANIFESTS.key_of(seen.resource), Causes(), state_of(world, seen)))


def upgraded(seen: ManifestSnapshot, step: Upgrade, world: RecordedModule, settled: str) -> ManifestSnapshot:
    """Take the step of a removal that brings another version."""

    async def take() -> ManifestSnapshot:
        engine = engine_of(world)
        request = Request(MANIFESTS.key_of(seen.resource), state_of(world, seen, settled))
        async with request:
            module: ModuleSet = ObjectSet(engine, request, seen)
            module.others = seen.others
            return await engine.take(module, seen, step)

    return asyncio.run(take())
