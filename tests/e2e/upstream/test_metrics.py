"""Metrics of upstream's names and values."""

from lifecycle_manager.contract.resources import KYMAS
from lifecycle_manager_api import State
from tests.e2e.upstream.modules import OLD, Module
from tests.e2e.upstream.product import KCP, KYMA, Product
from tests.integration.lifecycle_manager.programs import start_manager
from tests.waiting import eventually

KYMA_STATE, MODULE_STATE = "lifecycle_mgr_kyma_state", "lifecycle_mgr_module_state"
REASONS = "lifecycle_mgr_requeue_reason_total"


async def counted(world: Product, reason: str) -> float:
    return await world.sample(REASONS, requeue_reason=reason, requeue_type="intended") or 0.0


async def test_kyma_metrics(world: Product) -> None:
    enabling = ("manifest_add_finalizer", "manifest_sync_resources_enqueue_required")
    removing = ("manifest_pre_delete_enqueue_required", "manifest_reconcile_finished")
    before = {reason: await counted(world, reason) for reason in (*enabling, *removing)}
    async with world.offered(Module(name="metered"), OLD, regular=OLD) as module:
        await world.enable(module)
        await world.installed(module)
        await world.measures(1.0, KYMA_STATE, kyma_name=KYMA, state="Ready")
        await world.measures(0.0, KYMA_STATE, kyma_name=KYMA, state="Error")
        await world.measures(1.0, MODULE_STATE, module_name=module.name, state="Ready")
        assert all([await counted(world, reason) > before[reason] for reason in enabling])
        await world.disable(module)
        await world.until_gone(module)
        await world.measures(None, MODULE_STATE, module_name=module.name, state="Ready")
        await world.measures(1.0, KYMA_STATE, kyma_name=KYMA, state="Ready")
        assert all([await counted(world, reason) > before[reason] for reason in removing])
    deletions = await counted(world, "kyma_deletion")
    try:
        await world.kcp.delete(KYMAS, KYMA, KCP, propagation="Background")
        await world.until_lacks(KYMAS, KYMA, KCP, of=world.kcp)
        for state in State:
            await world.measures(None, KYMA_STATE, kyma_name=KYMA, state=state.value)
            await world.measures(None, MODULE_STATE, kyma_name=KYMA, state=state.value)
        assert await counted(world, "kyma_deletion") == deletions + 1
    finally:  # the other scenarios need it
        await world.write_kyma()
        await world.programs.start_watcher()
        await world.kyma_is(State.READY)


async def test_metric_says_that_the_provider_is_not_used(world: Product) -> None:
    await world.measures(0.0, "lifecycle_mgr_fips_mode")
    assert "FIPS_ONLY" not in await world.watcher_environment()


async def test_fips_mode_metric(world: Product, in_fips_mode: dict[str, str]) -> None:
    world.manager = await start_manager(world.programs, "--fips-only", **in_fips_mode)
    try:
        await world.measures(2.0, "lifecycle_mgr_fips_mode")

        async def is_demanded() -> bool:
            return (await world.watcher_environment()).get("FIPS_ONLY") == "true"

        await eventually(is_demanded, what="the Watcher may use the provider only")
        await world.kyma_is(State.READY)
    finally:
        world.manager = await start_manager(world.programs)
