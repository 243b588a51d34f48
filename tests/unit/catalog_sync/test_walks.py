"""Whatever happens between two syncs, an SKR gets the catalog; and where nothing failed, the next sync brings it."""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from hypothesis import example, given, settings
from hypothesis import strategies as st

from kube_runtime import KubeError, NotFound, NotServed
from kube_simulation import ApiRequest, Refuse
from lifecycle_manager.contract.resources import MODULE_RELEASE_METAS, MODULE_TEMPLATES
from lifecycle_manager.contract.signals import ObjectChanged, ObjectReference
from lifecycle_manager_api import ModuleTemplate, names
from tests import builders
from tests.unit.catalog_sync.worlds import catalog_world, sync
from tests.walks import Step, skipping
from tests.world import World

SKR = names.SKR_NAMESPACE
INTERVAL = 600.0
MODULES, VERSIONS = ("api", "nats"), ("1.0.0", "2.0.0", "3.0.0")
STEPS = st.one_of(
    st.tuples(st.just("offer"), st.sampled_from(MODULES), st.sampled_from(VERSIONS)),
    st.tuples(st.sampled_from(["sync", "write the status", "interval is over", "restart"])),
    st.tuples(st.just("fail"), st.integers(0, 3)),
    st.tuples(st.just("delete"), st.sampled_from(MODULES), st.booleans()),
)
SECONDS = {"sync": 0.0, "interval is over": INTERVAL}
IN_DOUBT = frozenset({"delete", "restart"})


def is_write(request: ApiRequest) -> bool:
    return request.is_write and f"/namespaces/{SKR}/module" in request.path


@dataclass
class Walk:
    world: World
    offered: dict[str, str] = field(default_factory=dict)
    turns: int = 0

    async def take(self, step: Step) -> None:
        match step:
            case ("offer", str(module), str(version)):
                self.offered[module] = version
                await self.world.offer(builders.release(module, regular=version))
            case ("write the status",):
                self.turns += 1
                await self.world.choose(f"unknown-{self.turns}")
                await self.world.reconcile()
            case ("sync" | "interval is over" as moment,):
                self.world.clock.advance(SECONDS[moment])
                await sync(self.world)
            case ("restart",):
                for controller in self.world.manager.controllers.values():
                    controller.begin(gained={"demo"}, lost=set())
            case ("fail", int(number)):
                rule = Refuse(skipping(number, is_write), times=1)
                with self.world.cluster("demo").ruled_by(rule), suppress(KubeError):
                    await sync(self.world)
            case ("delete", str(module), bool(is_reported)):
                skr, name = await self.world.skr(), f"{module}-{self.offered[module]}"
                with suppress(NotFound, NotServed):
                    await skr.delete(MODULE_TEMPLATES, name, SKR)
                if is_reported:
                    template = ObjectReference(names.GROUP, ModuleTemplate.KIND, SKR, name)
                    await sync(self.world, ObjectChanged("demo", template, "DELETE"))
            case _:
                raise AssertionError(step)

    async def catalog(self) -> tuple[set[str], dict[str, str]]:
        """Return the names of the templates in the SKR, and the versions of its releases."""
        skr = await self.world.skr()
        templates = {each.metadata.name for each in (await skr.list(MODULE_TEMPLATES, SKR)).items}
        releases = (await skr.list(MODULE_RELEASE_METAS, SKR)).items
        return templates, {each.metadata.name: each.spec.channels[0].version for each in releases}

    @property
    def wanted(self) -> tuple[set[str], dict[str, str]]:
        return {f"{module}-{version}" for module, version in self.offered.items()}, self.offered


async def run(steps: Iterable[Step]) -> None:
    async with catalog_world(interval_seconds=INTERVAL) as world:
        await world.offer(*(builders.template(module, version) for module in MODULES for version in VERSIONS))
        walk = Walk(world)
        for module in MODULES:
            await walk.take(("offer", module, VERSIONS[0]))
        await world.introduced()
        await sync(world)
        for step in steps:
            await walk.take(step)
        await sync(world)
        if not any(step[0] in IN_DOUBT for step in steps):
            assert await walk.catalog() == walk.wanted
        await walk.take(("interval is over",))
        assert await walk.catalog() == walk.wanted
        record = (await world.in_kcp()).status.records.catalog
        await walk.take(("write the status",))
        assert (await world.in_kcp()).status.records.catalog == record, "what is true is not overwritten"
        before = world.requests
        await walk.take(("interval is over",))
        assert world.writes_to("demo", before) == []


TAKEN_BACK_AFTER_A_REFUSAL: list[Step] = [("offer", "api", "2.0.0"), ("fail", 2), ("offer", "api", "1.0.0")]
TAKEN_BACK_AFTER_A_FAILURE: list[Step] = [
    ("offer", "api", "2.0.0"),
    ("sync",),
    ("write the status",),
    ("offer", "nats", "2.0.0"),
    ("fail", 0),
    ("offer", "nats", "1.0.0"),
    ("offer", "api", "1.0.0"),
]


@settings(max_examples=15)
@example(steps=TAKEN_BACK_AFTER_A_REFUSAL)
@example(steps=TAKEN_BACK_AFTER_A_FAILURE)
@given(steps=st.lists(STEPS, max_size=8))
def test_catalog_arrives_whatever_happens(steps: list[Step]) -> None:
    asyncio.run(run(steps))
