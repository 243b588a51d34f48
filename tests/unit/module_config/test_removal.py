"""A module that is removed keeps its ModuleConfigs as long as its users have Module CRs, and then goes by itself."""

import asyncio
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lifecycle_manager.contract.resources import KYMAS, MODULE_CONFIGS, MODULE_RELEASE_METAS, MODULE_TEMPLATES
from lifecycle_manager.contract.signals import ReadScope
from lifecycle_manager_api import KymaModuleStatus
from tests import builders
from tests.unit.module_config.test_controller import INTERVAL, MODULE, NAME, Module, changed, module
from tests.walks import Step
from tests.world import KCP


async def listed(it: Module) -> KymaModuleStatus | None:
    """Return what the status of the Kyma in the SKR says of the module, once both domains were at it."""
    for _ in range(2):
        await it.reconcile()
        await it.world.reconcile()
    modules = (await it.world.in_skr()).status.modules
    return modules[0] if modules else None


async def is_blocked(it: Module, *crs: str) -> bool:
    found = await listed(it)
    named = ", ".join(f"Infrastructure {each}" for each in crs)
    blocked = f"is being removed: delete its Module CRs first: {named} (ModuleCRsInUse)"
    return found is not None and (found.state, found.message) == ("Deleting", blocked)


async def test_module_crs_of_users_block_the_removal_of_a_module_without_a_manifest() -> None:
    async with module(installs=False) as it:
        await it.write("one")
        await it.write("two", name="other")
        await it.reconcile()
        assert await it.number_of_configs() == 2
        await it.world.choose()
        assert await is_blocked(it, "default", "other")
        assert (await it.world.in_kcp()).status.state == "Processing"

        await it.write("three")
        await it.reconcile(changed())
        assert "three" in await it.text()

        await it.delete()
        await it.reconcile(changed(operation="DELETE"))
        assert await it.config() is None
        assert await is_blocked(it, "other")
        await it.delete("other")
        await it.reconcile(changed("other", "DELETE"))
        assert await listed(it) is None
        assert await it.number_of_configs() == 0


async def test_module_waits_for_the_deletion_of_its_last_objects() -> None:
    async with module(installs=False) as it:
        await it.write("one")
        await it.reconcile()
        held = {"metadata": {"finalizers": ["example.com/objects"]}}
        await it.world.kcp.merge_patch(MODULE_CONFIGS, NAME, held, KCP)
        await it.world.choose()
        await it.delete()
        await it.reconcile(changed(operation="DELETE"))
        found = await listed(it)
        assert found is not None
        assert (found.state, found.message) == (
            "Deleting",
            "Infrastructure default: its objects are being deleted (Deleting)",
        )
        await it.world.kcp.merge_patch(MODULE_CONFIGS, NAME, {"metadata": {"finalizers": []}}, KCP)
        assert await listed(it) is None


async def test_module_that_is_enabled_again_while_module_crs_block_its_removal_goes_on() -> None:
    async with module(installs=False) as it:
        await it.write("one")
        await it.reconcile()
        before = await it.config()
        await it.world.choose()
        assert await is_blocked(it, "default")
        await it.world.choose(MODULE)
        found = await listed(it)
        assert found is not None
        assert found.state != "Deleting"
        after = await it.config()
        assert before is not None
        assert after is not None
        assert after.metadata.uid == before.metadata.uid


@pytest.mark.parametrize("crs", [("default",), ("default", "other"), ("other",)])
async def test_removal_ends_although_the_template_is_gone(crs: tuple[str, ...]) -> None:
    async with module(installs=False) as it:
        for each in crs:
            await it.write("one", name=each)
        await it.reconcile()
        await it.world.choose()
        assert await is_blocked(it, *crs)
        await it.world.kcp.delete(MODULE_TEMPLATES, "cloud-resources-0.1.0", KCP)
        await it.write("two", name=crs[0])
        await it.write("later", name="new")  # nothing is to be made of it any more
        await it.reconcile(ReadScope.EVERYTHING)
        assert await is_blocked(it, *crs)
        configs = (await it.world.kcp.list(MODULE_CONFIGS, KCP)).items
        assert sum("two" in each.spec.resource for each in configs) == 1
        for each in crs:
            await it.delete(each)
        it.world.clock.advance(INTERVAL)
        assert await listed(it) is None
        assert await it.number_of_configs() == 0


async def test_module_that_a_kyma_may_not_have_any_more_stays_until_its_module_crs_go() -> None:
    async with module(installs=False) as it:
        await it.write("one")
        await it.reconcile()
        barred = {"spec": {"kymaSelector": {"matchLabels": {"team": "a"}}}}
        await it.world.kcp.merge_patch(MODULE_RELEASE_METAS, MODULE, barred, KCP)
        found = await listed(it)
        assert found is not None
        assert (found.state, found.template) == ("Error", None)
        assert "(ModuleNotForThisCluster)" in found.message
        assert "delete its Module CRs first: Infrastructure default (ModuleCRsInUse)" in found.message
        assert await it.number_of_configs() == 1
        await it.delete()
        it.world.clock.advance(INTERVAL)
        found = await listed(it)
        assert found is not None
        assert "ModuleCRsInUse" not in found.message
        assert await it.number_of_configs() == 0


async def test_deletion_of_a_kyma_does_not_wait_for_module_crs() -> None:
    async with module(installs=False) as it:
        await it.write("one")
        await it.reconcile()
        await it.world.choose()
        assert await is_blocked(it, "default")
        await it.world.kcp.delete(KYMAS, "demo", KCP)
        for _ in range(2):
            await it.world.reconcile()
            await it.reconcile()
        assert await it.number_of_configs() == 0


STEPS = st.one_of(
    st.tuples(st.sampled_from(["write", "delete"]), st.sampled_from(["default", "one"]), st.booleans()),
    st.tuples(st.sampled_from(["enable", "remove", "withdraw", "offer", "interval", "restart"])),
)


class Walk:
    """What users and KCP do. `crs` are the Module CRs that exist."""

    def __init__(self, it: Module) -> None:
        self.it = it
        self.crs: set[str] = set()

    async def take(self, step: Step) -> None:
        configured = await self.configured()
        match step:
            case (str(what), str(name), bool(is_reported)):
                await self._change(what, name, is_reported=is_reported)
            case (str(what),):
                await self._happens(what)
        await self.it.reconcile()
        await self.it.world.reconcile()
        assert configured & self.crs <= await self.configured(), "objects go with their Module CR alone"

    async def _change(self, what: str, name: str, *, is_reported: bool) -> None:
        if what == "write":
            await self.it.write("value", name)
            self.crs.add(name)
            await self.it.reconcile(*([changed(name)] if is_reported else []))
        elif name in self.crs:
            await self.it.delete(name)
            self.crs.discard(name)
            await self.it.reconcile(*([changed(name, "DELETE")] if is_reported else []))

    async def _happens(self, what: str) -> None:
        world = self.it.world
        match what:
            case "enable":
                await world.choose(MODULE)
            case "remove":
                await world.choose()
            case "withdraw":
                for each in (await world.kcp.list(MODULE_TEMPLATES, KCP)).items:
                    await world.kcp.delete(MODULE_TEMPLATES, each.metadata.name, KCP)
            case "offer":
                await world.offer(builders.template())
            case "restart":
                for controller in world.manager.controllers.values():
                    controller.begin(gained={"demo"}, lost=set())
            case _:
                world.clock.advance(INTERVAL)

    async def configured(self) -> set[str]:
        """Return the Module CRs that have ModuleConfigs."""
        configs = (await self.it.world.kcp.list(MODULE_CONFIGS, KCP)).items
        return {each.spec.resource_ref.name for each in configs if each.spec.resource_ref is not None}


async def run(steps: Iterable[Step]) -> None:
    async with module(installs=False) as it:
        walk = Walk(it)
        for step in steps:
            await walk.take(step)
        await walk.take(("remove",))
        for name in sorted(walk.crs):
            await walk.take(("delete", name, False))
        for _ in range(2):
            await walk.take(("interval",))
        assert await walk.configured() == set()
        assert (await it.world.in_skr()).status.modules == ()
        before = it.world.requests
        await walk.take(("interval",))
        assert it.world.writes_to("kcp", before) == []


@settings(max_examples=8)
@given(steps=st.lists(STEPS, max_size=7))
def test_each_removal_ends_and_takes_no_objects_of_a_module_cr_that_exists(steps: list[Step]) -> None:
    asyncio.run(run(steps))
