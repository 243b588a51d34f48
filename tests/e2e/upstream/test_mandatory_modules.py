"""Modules that every cluster has."""

from lifecycle_manager.contract.resources import MODULE_RELEASE_METAS
from lifecycle_manager_api import State, names
from tests.e2e.upstream.modules import NEW, OLD, Module
from tests.e2e.upstream.product import KCP, SKR, Product
from tests.e2e.upstream.runtime import WORKLOADS


async def test_mandatory_module(world: Product) -> None:
    async with world.offered(Module(name="everywhere"), mandatory=OLD) as module:
        await world.manifest_is(module, State.READY)
        await world.has_default_cr(module, "Ready")
        await world.kyma_is(State.READY)
        manifest = await world.manifest(module)
        assert manifest is not None
        assert manifest.spec.version == OLD
        assert names.CHANNEL not in manifest.metadata.labels
        assert not [each for each in await world.catalog() if module.name in each]
        await world.skip(module)
        await world.skr.delete(WORKLOADS["Deployment"], module.operator(OLD), SKR)
        async with world.labelled("seen", "true"):  # the Kyma is reconciled
            await world.kyma_is(State.READY)
        assert await world.workload(module, OLD) is None
        await world.skip(module, skipped=False)
        await world.runs(module, OLD)
        await world.release(module, mandatory=NEW)
        await world.runs(module, NEW, but_not=OLD)
        await world.manifest_is(module, State.READY)
        await world.kcp.delete(MODULE_RELEASE_METAS, module.name, KCP)
        await world.until_gone(module)
        assert await world.default_cr(module) is None
        await world.kyma_is(State.READY)


async def test_mandatory_modules_metrics(world: Product) -> None:
    state = ("lifecycle_mgr_mandatory_module_state", {"state": "Ready"})
    async with world.offered(Module(name="measured"), OLD, mandatory=OLD) as module:
        await world.manifest_is(module, State.READY)
        await world.has_default_cr(module, "Ready")
        await world.measures(1.0, state[0], module_name=module.name, **state[1])
        await world.measures(1.0, "lifecycle_mgr_mandatory_modules")
        await world.kcp.delete(MODULE_RELEASE_METAS, module.name, KCP)
        await world.until_gone(module)
        await world.measures(0.0, "lifecycle_mgr_mandatory_modules")
        await world.measures(None, state[0], module_name=module.name, **state[1])
