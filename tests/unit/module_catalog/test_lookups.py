"""Descriptors that templates leave out: which are looked up, when again, and what is told in the meantime."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from lifecycle_manager.catalog_sync.plan import wanted_catalog
from lifecycle_manager.module_catalog import ComponentVersion, DescriptorUnreadable, LookupFailed, Lookups, Offers
from lifecycle_manager.module_catalog.objections import objection_to_template, warnings_about_template
from lifecycle_manager_api import ModuleTemplate
from tests import builders

COMPONENT = "kyma-project.io/module/telemetry"
WANTED = ComponentVersion(COMPONENT, "1.0.0")


def cache(*items: Any) -> Any:
    handlers: list[Callable[[Any], None]] = []
    return SimpleNamespace(cache=SimpleNamespace(list=lambda: list(items), changes=1), on_change=handlers.append)


def empty(version: str = "1.0.0") -> ModuleTemplate:
    template = builders.template("telemetry", version)
    return msgspec.structs.replace(template, spec=msgspec.structs.replace(template.spec, descriptor=msgspec.Raw(b"{}")))


RELEASE = builders.release("telemetry", regular="1.0.0", spec={"ocmComponentName": COMPONENT})
SILENT = builders.release("telemetry", regular="1.0.0")


class Registry:
    """Gives descriptors, or says what is wrong, and counts."""

    def __init__(self, why: str = "") -> None:
        self.why, self.asked = why, 0

    async def find(self, wanted: ComponentVersion) -> msgspec.Raw:
        self.asked += 1
        if self.why:
            raise LookupFailed(self.why, 7.0)
        return msgspec.Raw(msgspec.json.encode(builders.descriptor("telemetry", wanted.version)))


async def test_descriptor_that_was_found_is_offered_and_not_asked_for_again() -> None:
    registry, templates, releases = Registry(), cache(empty()), cache(RELEASE)
    lookups = Lookups(templates, releases, registry.find)
    offers = Offers(templates, releases, lookups)
    told: list[ModuleTemplate] = []
    lookups.on_news = told.append
    with pytest.raises(DescriptorUnreadable, match="is being looked up"):
        offers.current().component(empty())
    await lookups.reconcile(WANTED)
    await lookups.reconcile(WANTED)
    offered = offers.current().template("telemetry", "1.0.0")
    assert offered is not None
    assert offers.current().component(offered).name == COMPONENT
    assert (registry.asked, told) == (1, [empty()])


async def test_what_is_wrong_is_told_once_and_tried_again_until_it_is_mended() -> None:
    registry, templates, releases = Registry("the registry is on fire"), cache(empty()), cache(RELEASE)
    lookups = Lookups(templates, releases, registry.find)
    offers = Offers(templates, releases, lookups)
    told: list[ModuleTemplate] = []
    lookups.on_news = told.append
    for _ in range(2):
        assert (await lookups.reconcile(WANTED)).requeue_after == 7.0
    assert len(told) == 1
    with pytest.raises(DescriptorUnreadable, match="the registry is on fire"):
        offers.current().component(empty())
    registry.why = ""
    assert (await lookups.reconcile(WANTED)).requeue_after is None
    assert len(told) == 2
    assert lookups.problem(empty()) is None


async def test_component_that_no_template_stands_for_is_not_asked_for() -> None:
    registry = Registry()
    for templates, releases in ((cache(), cache(RELEASE)), (cache(empty()), cache(SILENT))):
        await Lookups(templates, releases, registry.find).reconcile(WANTED)
    inline = cache(builders.template("telemetry", "1.0.0"))
    lookups = Lookups(inline, cache(RELEASE), registry.find)
    await lookups.reconcile(WANTED)
    assert lookups.problem(builders.template("telemetry", "1.0.0")) is None
    assert registry.asked == 0


def test_template_of_which_nothing_says_the_component_is_told_so_at_the_door_and_later() -> None:
    offers = Offers(cache(empty()), cache(SILENT), Lookups(cache(empty()), cache(SILENT), Registry().find))
    offer = offers.current()
    with pytest.raises(DescriptorUnreadable, match="no ModuleReleaseMeta names telemetry's ocmComponentName"):
        offer.component(empty())
    assert objection_to_template(empty(), offer) is None
    assert "ocmComponentName" in warnings_about_template(empty(), offer)[0]
    assert not warnings_about_template(builders.template("telemetry", "1.0.0"), offer)


async def test_clusters_are_shown_a_template_as_it_was_written_whatever_was_found_for_it() -> None:
    templates, releases = cache(empty()), cache(RELEASE)
    lookups = Lookups(templates, releases, Registry().find)
    offers = Offers(templates, releases, lookups)
    before = wanted_catalog(offers.current(), {})
    await lookups.reconcile(WANTED)
    assert wanted_catalog(offers.current(), {}).digest == before.digest


@pytest.mark.parametrize("why", ["", "the registry is on fire"])
async def test_start_waits_until_each_descriptor_was_looked_up_once(why: str) -> None:
    registry = Registry(why)
    lookups = Lookups(cache(empty(), empty("2.0.0")), cache(RELEASE), registry.find)
    waiting = asyncio.create_task(lookups.wait_tried(60))
    await lookups.reconcile(WANTED)
    await asyncio.sleep(0)
    assert not waiting.done()
    await lookups.reconcile(ComponentVersion(COMPONENT, "2.0.0"))
    await waiting
    assert registry.asked == 2


async def test_start_does_not_wait_for_ever_for_a_registry_that_gives_no_answer() -> None:
    lookups = Lookups(cache(empty()), cache(RELEASE), Registry().find)
    await lookups.wait_tried(0.01)
    assert "is being looked up" in str(lookups.problem(empty()))
