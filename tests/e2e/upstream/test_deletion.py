"""Modules are removed, or their removal is blocked: by Module CRs of users, or by finalizers."""

from dataclasses import dataclass

import pytest

from lifecycle_manager_api import State, SyncedReference
from tests.e2e.upstream.modules import NEW, OLD, Module
from tests.e2e.upstream.product import SKR, Product
from tests.e2e.upstream.runtime import WORKLOADS
from tests.waiting import consistently

ELSEWHERE = (SKR, "default")


@dataclass(frozen=True)
class Blocked:
    """What blocks the removal of a module. `namespaces` have Module CRs of users."""

    policy: str = "CreateAndDelete"
    namespaces: tuple[str, ...] = (SKR, SKR)
    is_held: bool = False
    is_cluster_scoped: bool = False


@pytest.mark.parametrize(
    ("name", "blocked"),
    [
        pytest.param("users-ignore", Blocked("Ignore"), id="multiple module crs with ignore policy"),
        pytest.param("users", Blocked(), id="multiple module crs with create and delete policy"),
        pytest.param("held", Blocked(namespaces=(), is_held=True), id="default cr with finalizer"),
        pytest.param("places-ignore", Blocked("Ignore", ELSEWHERE), id="different namespaces with ignore policy"),
        pytest.param("places", Blocked(namespaces=ELSEWHERE), id="different namespaces with create and delete policy"),
        pytest.param("wide-ignore", Blocked("Ignore", is_cluster_scoped=True), id="cluster-scoped with ignore policy"),
        pytest.param("wide", Blocked(is_cluster_scoped=True), id="cluster-scoped with create and delete policy"),
    ],
)
async def test_module_deletion_blocking(world: Product, name: str, blocked: Blocked) -> None:
    module = Module(name=f"blocked-{name}", is_cluster_scoped=blocked.is_cluster_scoped)
    async with world.offered(module):
        await world.enable(module, customResourcePolicy=blocked.policy)
        await world.installed(module)
        has_default = blocked.policy == "CreateAndDelete"
        assert (await world.default_cr(module) is not None) is has_default
        users = [
            (f"mine-{number}", None if blocked.is_cluster_scoped else namespace)
            for number, namespace in enumerate(blocked.namespaces)
        ]
        for user, namespace in users:
            document = {"metadata": {"name": user}, "spec": {}}
            await world.skr.create(module.samples(), document, namespace, field_manager="user")
        if blocked.is_held:
            await world.hold(module)
        await world.disable(module)
        await world.kyma_is(State.PROCESSING)
        objects = set((await world.manifest_is(module, State.DELETING)).status.synced)
        found = [await world.object_of(each) for each in objects]
        while users:
            await stays_blocked(world, module, objects)
            await world.skr.delete(module.samples(), *users.pop())
        if blocked.is_held:
            await stays_blocked(world, module, objects)
            await world.hold(module, held=False)
        await world.until_gone(module)
        assert await world.default_cr(module) is None
        for each in found:
            await world.until_lacks(*each, of=world.skr)
    await world.kyma_is(State.READY)


async def stays_blocked(world: Product, module: Module, objects: set[SyncedReference]) -> None:
    """Check that a removal waits, that nothing of the module is gone, and that the Kyma is Processing."""

    async def is_blocked() -> bool:
        manifest, kyma = await world.manifest(module), await world.kyma()
        assert manifest is not None
        assert set(manifest.status.synced) == objects
        assert len(await world.synced(module)) == len(objects)
        return manifest.status.state is State.DELETING and kyma.status.state is State.PROCESSING

    await consistently(is_blocked, what=f"the removal of {module.name} waits")


async def test_non_blocking_module_deletion_with_only_default_cr(world: Product) -> None:
    async with world.offered(Module(name="simple")) as module:
        await world.enable(module)
        await world.installed(module)
        await world.has_default_cr(module, "Ready")
        await world.disable(module)
        await world.until_gone(module)
        assert await world.workload(module, OLD) is None
        await world.kyma_is(State.READY)


async def test_non_blocking_kyma_module_deletion(world: Product) -> None:
    """The module is enabled again in another channel while its removal is blocked."""
    async with world.offered(Module(name="again")) as module:
        await world.enable(module, "regular")
        await world.installed(module)
        before = await world.manifest(module)
        await world.hold(module)
        await world.disable(module)
        await world.manifest_is(module, State.DELETING)
        await world.has_default_cr(module, "Deleting")
        await world.enable(module, "fast")
        await world.runs(module, NEW, but_not=OLD)
        await world.has_default_cr(module, "Deleting")
        await world.manifest_is(module, State.DELETING)
        await world.hold(module, held=False)
        await world.installed(module, NEW)
        await world.has_default_cr(module, "Ready")
        after = await world.manifest(module)
        assert before is not None
        assert after is not None
        assert before.metadata.uid != after.metadata.uid


async def upgraded_while_blocked(world: Product, module: Module) -> None:
    async with world.offered(module, regular=OLD):
        await world.enable(module)
        await world.installed(module)
        await world.hold(module)
        await world.disable(module)
        await world.manifest_is(module, State.DELETING)
        assert await world.workload(module, OLD) is not None
        await world.release(module, regular=NEW)
        await world.runs(module, NEW, but_not=OLD)
        await world.has_default_cr(module, "Deleting")
        await world.manifest_is(module, State.DELETING)
        await world.hold(module, held=False)
        await world.until_gone(module)
        assert await world.default_cr(module, NEW) is None
        await world.until_lacks(WORKLOADS["Deployment"], module.operator(NEW), SKR, of=world.skr)
    await world.kyma_is(State.READY)


async def test_modulereleasemeta_module_deletion_upgrade(world: Product) -> None:
    await upgraded_while_blocked(world, Module(name="retired"))


async def test_module_api_upgrade_under_blocked_deletion(world: Product) -> None:
    await upgraded_while_blocked(world, Module(name="renewed", api={NEW: "v2"}))
