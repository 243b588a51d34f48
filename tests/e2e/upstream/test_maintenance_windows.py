"""Versions that require a downtime wait for a maintenance window, unless nothing is installed or the Kyma says so."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from lifecycle_manager_api import names
from tests.e2e.upstream.modules import NEW, OLD, Module
from tests.e2e.upstream.product import Product
from tests.waiting import eventually


@asynccontextmanager
async def installed(world: Product, name: str) -> AsyncIterator[Module]:
    """Install the version that requires no downtime, and ask for the one that does."""
    async with world.offered(Module(name=name, requires_downtime=(NEW,))) as module:
        await world.enable(module, "regular")
        await world.installed(module)
        await world.enable(module, "fast")
        yield module


async def test_maintenance_windows_wait(world: Product) -> None:
    async with installed(world, "waiting") as module:

        async def waits() -> bool:
            found = await world.module_status(module)
            return found is not None and found.maintenance and found.version == OLD

        await eventually(waits, what="the upgrade waits")
        await world.runs(module, OLD)
        assert await world.workload(module, NEW) is None
        async with world.labelled(names.REGION, "asia"):
            await world.installed(module, NEW)
            await world.runs(module, NEW, but_not=OLD)
            done = await world.module_status(module)
            assert done is not None
            assert not done.maintenance


async def test_maintenance_windows_skip(world: Product) -> None:
    await world.skip_windows(skipped=True)
    try:
        async with installed(world, "hurried") as module:
            await world.installed(module, NEW)
            await world.runs(module, NEW, but_not=OLD)
    finally:
        await world.skip_windows(skipped=False)


async def test_maintenance_windows_initial_installation(world: Product) -> None:
    await world.measures(1.0, "lifecycle_mgr_maintenance_window_config_read_success")
    async with world.offered(Module(name="first", requires_downtime=(NEW,))) as module:
        await world.enable(module, "fast")
        await world.installed(module, NEW)
        await world.runs(module, NEW)
