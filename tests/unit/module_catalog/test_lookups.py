"""Descriptors that templates leave empty: which are looked up, when again, and what is reported meanwhile."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import msgspec
import pytest

from kube_runtime import Manager, Result
from kube_simulation import Freeze, Refuse
from kyma_oci import ComponentVersion, DescriptorUnreadable, FoundDescriptor, LookupFailed
from kyma_oci.signatures.cosign import Cosigned
from lifecycle_manager import module_catalog
from lifecycle_manager.catalog_sync.wanted import wanted_catalog
from lifecycle_manager.contract.resources import MODULE_TEMPLATES
from lifecycle_manager.contract.signals import DescriptorFound
from lifecycle_manager.module_catalog.controller import PIN_AGAIN_SECONDS, Offers
from lifecycle_manager.module_catalog.pins import PINNED, TAG_MOVED
from lifecycle_manager.module_catalog.validation import template_error, template_warnings
from lifecycle_manager_api import Condition, ModuleTemplate, find
from tests import builders
from tests.registries import no_link
from tests.waiting import eventually
from tests.world import KCP, World, open_world

COMPONENT = "kyma-project.io/module/telemetry"
WANTED = ComponentVersion(COMPONENT, "1.0.0")
FIRST, SECOND = f"sha256:{'1' * 64}", f"sha256:{'2' * 64}"
FOUND = DescriptorFound(KCP, "telemetry-1.0.0")
RELEASE = builders.release("telemetry", regular="1.0.0", spec={"ocmComponentName": COMPONENT})
WITHOUT_COMPONENT = builders.release("telemetry", regular="1.0.0")


def empty(version: str = "1.0.0") -> ModuleTemplate:
    template = builders.template("telemetry", version)
    return msgspec.structs.replace(template, spec=msgspec.structs.replace(template.spec, descriptor=msgspec.Raw(b"{}")))


@dataclass
class Registry:
    """Returns descriptors or fails, and counts. A request waits while the gate is closed.

    `tag` is the digest that every tag names.
    """

    why: str = ""
    tag: str = FIRST
    asked: int = 0
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.gate.set()

    async def descriptor(self, wanted: ComponentVersion, pinned: str = "") -> FoundDescriptor:
        self.asked += 1
        await self.gate.wait()
        if self.why:
            raise LookupFailed(self.why, 7.0)
        digest = pinned or self.tag
        content = builders.descriptor("telemetry", wanted.version) | {"digest": digest}
        return FoundDescriptor(msgspec.Raw(msgspec.json.encode(content)), digest, self.tag)

    async def cosigned(self, wanted: ComponentVersion, digest: str) -> tuple[Cosigned, ...]:
        raise AssertionError(f"nobody asks for signatures of {wanted} {digest}")


@dataclass
class Lookups:
    """A world with the domain, and what it published."""

    world: World
    offers: Offers
    published: list[DescriptorFound]

    async def look_up(self, wanted: ComponentVersion = WANTED) -> Result:
        return await self.world.turn("descriptor", wanted)

    async def condition(self) -> Condition:
        template = await self.world.kcp.get(MODULE_TEMPLATES, "telemetry-1.0.0", KCP)
        found = find(template.status.conditions, PINNED)
        assert found is not None
        return found

    def component(self) -> str:
        template = self.offers.current().template("telemetry", "1.0.0")
        assert template is not None
        return self.offers.current().component(template).name


@asynccontextmanager
async def lookups(registry: Registry, *offered: object, start_seconds: float = 60.0) -> AsyncIterator[Lookups]:
    async with open_world() as world:
        offers = module_catalog.setup(world.manager, registry, no_link, start_seconds=start_seconds)
        published: list[DescriptorFound] = []
        world.manager.on(DescriptorFound, published.append)
        await world.offer(*offered)
        yield Lookups(world, offers, published)


async def test_descriptor_that_was_found_is_offered_and_not_looked_up_again() -> None:
    registry = Registry()
    async with lookups(registry, empty(), RELEASE) as it:
        await it.world.sync_caches()
        with pytest.raises(DescriptorUnreadable, match="is being looked up"):
            it.component()
        await it.look_up()
        await it.look_up()
        assert it.component() == COMPONENT
        assert (registry.asked, it.published) == (1, [FOUND])


async def test_failed_lookup_is_reported_once_and_retried_until_it_succeeds() -> None:
    registry = Registry("the registry is on fire")
    async with lookups(registry, empty(), RELEASE) as it:
        for _ in range(2):
            assert (await it.look_up()).requeue_after == 7.0
        assert it.published == [FOUND]
        with pytest.raises(DescriptorUnreadable, match="the registry is on fire"):
            it.component()
        registry.why = ""
        assert (await it.look_up()).requeue_after is None
        assert it.published == [FOUND, FOUND]
        assert it.component() == COMPONENT


@pytest.mark.parametrize(
    "offered",
    [(RELEASE,), (empty(), WITHOUT_COMPONENT), (builders.template("telemetry", "1.0.0"), RELEASE)],
    ids=["without template", "without component", "with inline descriptor"],
)
async def test_component_that_no_template_stands_for_is_not_looked_up(offered: tuple[object, ...]) -> None:
    registry = Registry()
    async with lookups(registry, *offered) as it:
        await it.look_up()
        assert registry.asked == 0


async def test_descriptor_is_forgotten_with_its_last_template() -> None:
    registry = Registry()
    async with lookups(registry, empty(), RELEASE) as it:
        await it.look_up()
        await it.world.kcp.delete(MODULE_TEMPLATES, "telemetry-1.0.0", KCP)
        await it.look_up()
        await it.world.offer(empty())
        await it.look_up()
        assert registry.asked == 2


async def test_template_without_a_component_is_reported_at_admission_and_later() -> None:
    async with lookups(Registry(), empty(), WITHOUT_COMPONENT) as it:
        await it.world.sync_caches()
        with pytest.raises(DescriptorUnreadable, match="no ModuleReleaseMeta names telemetry's ocmComponentName"):
            it.component()
        offer = it.offers.current()
        assert template_error(empty(), offer) is None
        assert "ocmComponentName" in template_warnings(empty(), offer)[0]
        assert not template_warnings(builders.template("telemetry", "1.0.0"), offer)


async def test_clusters_have_a_template_as_it_was_written_whatever_was_found_for_it() -> None:
    async with lookups(Registry(), empty(), RELEASE) as it:
        await it.world.sync_caches()
        before = wanted_catalog(it.offers.current(), {})
        await it.look_up()
        assert wanted_catalog(it.offers.current(), {}).digest == before.digest


@pytest.mark.parametrize("why", ["", "the registry is on fire"])
async def test_start_waits_until_each_descriptor_was_looked_up_once(why: str) -> None:
    registry = Registry(why)
    registry.gate.clear()
    async with lookups(registry, empty(), empty("2.0.0"), RELEASE) as it, it.world.running():
        await eventually(lambda: registry.asked == 2)
        assert not it.world.manager.working
        registry.gate.set()
        await eventually(lambda: it.world.manager.working)
        assert it.published or why == ""


async def test_start_does_not_wait_for_ever_for_a_registry_that_does_not_answer() -> None:
    registry = Registry()
    registry.gate.clear()
    async with lookups(registry, empty(), RELEASE, start_seconds=0.01) as it, it.world.running():
        await eventually(lambda: it.world.manager.working)
        with pytest.raises(DescriptorUnreadable, match="is being looked up"):
            it.component()
        registry.gate.set()
        await eventually(lambda: it.published)
        assert it.component() == COMPONENT


async def test_release_that_names_the_component_later_has_the_descriptor_looked_up() -> None:
    async with lookups(Registry(), empty(), WITHOUT_COMPONENT) as it, it.world.running():
        await eventually(lambda: it.world.manager.working)
        await it.world.offer(RELEASE)
        await eventually(lambda: it.published)
        assert it.component() == COMPONENT


def digest_in(descriptor: msgspec.Raw) -> str:
    return str(msgspec.json.decode(descriptor)["digest"])


async def test_tag_that_is_moved_later_is_reported_and_not_installed_after_a_restart() -> None:
    registry = Registry()
    async with lookups(registry, empty(), RELEASE) as it:
        await it.look_up()
        assert (await it.condition()).status == "True"
        registry.tag = SECOND
        restarted = Manager(it.world.kcp, clock=it.world.clock, namespace=KCP)
        offers = module_catalog.setup(restarted, registry, no_link)
        async with restarted.background():
            await restarted.wait_synced()
            await restarted.controllers["descriptor"].reconcile_now(WANTED)
            assert digest_in(offers.current().descriptors["telemetry-1.0.0"]) == FIRST
        moved = await it.condition()
        assert (moved.status, moved.reason, SECOND in moved.message) == ("False", TAG_MOVED, True)


async def test_replica_takes_what_another_one_recorded_first() -> None:
    async with lookups(Registry(), empty(), RELEASE) as it:
        await it.world.sync_caches()
        it.world.unseen.add("moduletemplates")
        kcp = it.world.cluster("kcp")
        with kcp.ruled_by(Freeze(kcp.version, lambda request: request.verb == "watch")):
            status = {"status": {"pinnedDescriptor": {"component": COMPONENT, "version": "1.0.0", "digest": SECOND}}}
            await it.world.kcp.merge_patch(MODULE_TEMPLATES, "telemetry-1.0.0", status, KCP, subresource="status")
            await it.look_up()
            assert digest_in(it.offers.current().descriptors["telemetry-1.0.0"]) == SECOND


async def test_descriptor_whose_digest_can_not_be_recorded_is_not_installed() -> None:
    async with lookups(Registry(), empty(), RELEASE) as it:
        refuse = Refuse(lambda request: request.subresource == "status" and request.is_write)
        with it.world.cluster("kcp").ruled_by(refuse):
            assert (await it.look_up()).requeue_after == PIN_AGAIN_SECONDS
            with pytest.raises(DescriptorUnreadable, match="could not be recorded"):
                it.component()
        await it.look_up()
        assert it.component() == COMPONENT


async def test_who_writes_a_template_does_not_change_the_record_of_its_descriptor() -> None:
    async with lookups(Registry(), empty(), RELEASE) as it:
        await it.look_up()
        status = {"status": {"pinnedDescriptor": {"component": COMPONENT, "version": "1.0.0", "digest": SECOND}}}
        written = await it.world.kcp.merge_patch(MODULE_TEMPLATES, "telemetry-1.0.0", status, KCP, field_manager="team")
        assert written.status.pinned_descriptor is not None
        assert written.status.pinned_descriptor.digest == FIRST


async def recorded(it: Lookups, name: str) -> str:
    pin = (await it.world.kcp.get(MODULE_TEMPLATES, name, KCP)).status.pinned_descriptor
    return pin.digest if pin is not None else ""


async def test_template_that_is_created_again_at_once_gets_what_the_tag_names_now() -> None:
    registry = Registry()
    async with lookups(registry, empty(), RELEASE) as it:
        await it.look_up()
        registry.tag = SECOND
        await it.world.kcp.delete(MODULE_TEMPLATES, "telemetry-1.0.0", KCP)
        await it.world.offer(empty())
        await it.look_up()
        await it.world.sync_caches()
        assert await recorded(it, "telemetry-1.0.0") == SECOND
        assert digest_in(it.offers.current().descriptors["telemetry-1.0.0"]) == SECOND


async def test_template_that_comes_later_gets_a_record_of_its_descriptor() -> None:
    registry = Registry()
    older = builders.template("telemetry", "1.0.0", channel="regular")
    older = msgspec.structs.replace(
        older, spec=msgspec.structs.replace(older.spec, version="1.0.0", descriptor=msgspec.Raw(b"{}"))
    )
    async with lookups(registry, older, RELEASE) as it:
        await it.look_up()
        assert await recorded(it, older.metadata.name) == FIRST
        await it.world.offer(empty())
        await it.look_up()
        assert await recorded(it, "telemetry-1.0.0") == FIRST


async def test_lookup_is_of_the_component_that_the_release_in_force_names() -> None:
    other = builders.release(
        "telemetry",
        regular="1.0.0",
        metadata={"name": "a-former-release"},
        spec={"ocmComponentName": "kyma-project.io/module/former"},
    )
    async with lookups(Registry(), empty(), other, RELEASE) as it:
        await it.look_up()
        assert it.component() == COMPONENT
