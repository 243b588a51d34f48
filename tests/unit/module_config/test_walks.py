"""Whatever users, KCP and this process do, in any order: each Module CR ends with its ModuleConfig alone."""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from kube_runtime import KubeError, NotFound, NotServed
from kube_simulation import ApiRequest
from lifecycle_manager.contract.resources import MODULE_CONFIGS
from lifecycle_manager.contract.signals import ReadScope
from tests.unit.module_config.test_controller import INTERVAL, Module, changed, module
from tests.walks import Step, failure
from tests.world import KCP

NAMES, VALUES = ("default", "one", "two"), ("red", "green", "blue")
_NAME = st.sampled_from(NAMES)
STEPS = st.one_of(
    st.tuples(st.just("write"), _NAME, st.sampled_from(VALUES), st.booleans()),
    st.tuples(st.just("delete"), _NAME, st.booleans()),
    st.tuples(st.sampled_from(["refuse", "lose"]), _NAME, st.integers(0, 3)),
    st.tuples(st.sampled_from(["spoil", "take away"]), _NAME),
    st.tuples(st.sampled_from(["interval", "restart", "reconcile"])),
)


def is_write(request: ApiRequest) -> bool:
    return request.is_write and "moduleconfigs" in request.path


@dataclass
class Walk:
    module: Module
    values: dict[str, str] = field(default_factory=dict)

    async def take(self, step: Step) -> None:
        match step:
            case ("write", str(name), str(value), bool(is_reported)):
                await self.module.write(value, name)
                self.values[name] = value
                if is_reported:
                    await self.module.reconcile(changed(name))
                    assert (await self.configs())[name] == value
            case ("delete", str(name), bool(is_reported)):
                if self.values.pop(name, None) is not None:
                    await self.module.delete(name)
                    if is_reported:
                        await self.module.reconcile(changed(name, "DELETE"))
                        assert name not in await self.configs()
            case ("refuse" | "lose" as what, str(name), int(after)):
                await self._fail(what, name, after)
            case ("spoil" | "take away" as what, str(name)):
                await self._change(what, name)
            case ("restart",):
                for controller in self.module.world.manager.controllers.values():
                    controller.begin(gained={"demo"}, lost=set())
            case _:
                self.module.world.clock.advance(INTERVAL if step == ("interval",) else 0.0)
                await self.module.reconcile()

    async def configs(self) -> dict[str, str]:
        """Return the value in each ModuleConfig, by the name of its Module CR."""
        found = {}
        for each in (await self.module.world.kcp.list(MODULE_CONFIGS, KCP)).items:
            assert each.spec.resource_ref is not None
            shown = [value for value in VALUES if f"value: {value}" in each.spec.resource]
            found[each.spec.resource_ref.name] = shown[0] if shown else each.spec.resource
        return found

    async def _fail(self, what: str, name: str, after: int) -> None:
        """Reconcile an announced change, and have a write to KCP refused, or its answer lost."""
        with self.module.world.cluster("kcp").ruled_by(failure(what, after, is_write)), suppress(KubeError):
            await self.module.reconcile(changed(name))

    async def _change(self, what: str, name: str) -> None:
        """Have somebody in KCP change a ModuleConfig, which is found at the interval, or delete it."""
        kcp = self.module.world.kcp
        for each in (await kcp.list(MODULE_CONFIGS, KCP)).items:
            if each.spec.resource_ref is None or each.spec.resource_ref.name != name:
                continue
            if what == "spoil":
                await kcp.merge_patch(MODULE_CONFIGS, each.metadata.name, {"spec": {"resource": "spoilt"}}, KCP)
            else:
                with suppress(NotFound, NotServed):
                    await kcp.delete(MODULE_CONFIGS, each.metadata.name, KCP)
                await self.module.reconcile(ReadScope.DIFFERING)


async def run(steps: Iterable[Step]) -> None:
    async with module() as it:
        walk = Walk(it)
        for step in steps:
            await walk.take(step)
        for _ in range(2):
            await walk.take(("interval",))
        assert await walk.configs() == walk.values
        before = it.world.requests
        await walk.take(("interval",))
        assert [each for each in it.world.writes_to("kcp", before) if "moduleconfigs" in each.path] == []


@settings(max_examples=15)
@given(steps=st.lists(STEPS, max_size=10))
def test_each_module_cr_has_its_module_config_in_the_end(steps: list[Step]) -> None:
    asyncio.run(run(steps))
