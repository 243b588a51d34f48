"""All modules that the control plane offers, found by what they are asked for."""

from types import SimpleNamespace
from typing import Any

import msgspec

from kube_runtime import ObjectKey
from kube_runtime.informer.cache import Cache
from lifecycle_manager.module_catalog.controller import Offers
from lifecycle_manager.module_catalog.offer import Offer
from lifecycle_manager_api import ModuleTemplate
from tests import builders


def changed(template: ModuleTemplate, **spec: Any) -> ModuleTemplate:
    return msgspec.structs.replace(template, spec=msgspec.structs.replace(template.spec, **spec))


def test_template_of_a_version_is_found_by_its_name_or_else_by_what_it_says() -> None:
    named = builders.template("api", "1.0.0")
    of_channel = changed(builders.template("api", "2.0.0", channel="fast"), version="2.0.0")
    other = changed(builders.template("nats", "3.0.0", channel="fast"), version="3.0.0")
    offer = Offer.of([named, of_channel, other], [])
    assert offer.template("api", "1.0.0") is named
    assert offer.template("api", "2.0.0") is of_channel
    assert offer.template("api", "3.0.0") is None


def test_template_of_what_is_installed_is_found_wherever_it_says_its_version() -> None:
    of_channel = builders.template("api", "1.0.0", channel="fast")
    mandatory = builders.template("nats", "2.0.0", mandatory=True, name="nats-for-all")
    unreadable = changed(builders.template("api", channel="regular"), descriptor=msgspec.Raw(b"7"))
    offer = Offer.of([unreadable, of_channel, mandatory], [])
    assert offer.installed("api", "1.0.0") is of_channel
    assert offer.installed("nats", "2.0.0") is mandatory
    assert offer.installed("api", "2.0.0") is None


def test_template_that_names_no_module_is_nobodys_and_makes_nothing_mandatory() -> None:
    nameless = changed(builders.template(channel="fast", mandatory=True), module_name="")
    offer = Offer.of([nameless], [])
    assert (dict(offer.by_channel), dict(offer.mandatory)) == ({}, {})


def test_what_is_being_deleted_is_not_offered() -> None:
    leaving: dict[str, Any] = {"deletionTimestamp": "2026-11-01T12:00:00Z"}
    mandatory = builders.template("api", "1.0.0", mandatory=True, **leaving)
    of_channel = builders.template("api", channel="fast", **leaving)
    offer = Offer.of([mandatory, of_channel], [builders.release("api", regular="1.0.0", metadata=leaving)])
    assert not any((offer.templates, offer.by_channel, offer.releases, offer.mandatory))


def test_of_two_templates_in_one_channel_the_first_by_name_counts() -> None:
    first, second = (builders.template("api", channel="fast", name=name) for name in ("api-a", "api-b"))
    for templates in ([first, second], [second, first]):
        assert Offer.of(templates, []).by_channel["api", "fast"] is first


def test_offer_is_indexed_once_for_each_state_of_the_caches() -> None:
    templates: Cache[Any] = Cache({})
    releases: Cache[Any] = Cache({})
    offers = Offers(*(_informer(each) for each in (templates, releases)))
    templates.put(ObjectKey("kcp-system", "api-1.0.0"), builders.template("api", "1.0.0"))
    first = offers.current()
    assert offers.current() is first
    releases.put(ObjectKey("kcp-system", "api"), builders.release("api", regular="1.0.0"))
    second = offers.current()
    assert (set(first.releases), set(second.releases)) == (set(), {"api"})


def _informer(cache: Cache[Any]) -> Any:
    return SimpleNamespace(cache=cache)
