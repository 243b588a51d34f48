"""Whom a change of the catalog concerns: those who use it, found without looking at the others."""

from types import SimpleNamespace
from typing import Any

import msgspec

from kube_runtime import Change, ObjectKey
from kube_runtime.informer.cache import Cache
from lifecycle_manager.informers import channels_in_use, modules_in_use, templates_in_use
from lifecycle_manager.release_audience import (
    Concerned,
    concerned_by_release,
    concerned_by_template,
    who_has_release,
    who_has_template,
)
from lifecycle_manager.resources import DatedReleaseMeta
from tests import builders

INDEXES: Any = {"module": modules_in_use, "channel": channels_in_use, "template": templates_in_use}


def informers(*releases: Any, templates: tuple[Any, ...] = ()) -> Any:
    """Return caches with three Kymas: two take the module from one channel or the other, one has it not."""
    kymas: Cache[Any] = Cache(INDEXES)
    for name, module, channel in (("a", "api", "regular"), ("b", "api", "fast"), ("c", "nats", "regular")):
        template = {"apiVersion": "v1", "kind": "ModuleTemplate", "metadata": {"name": f"{module}-1.0.0"}}
        status = {"name": module, "channel": channel, "state": "Ready", "template": template}
        kymas.put(ObjectKey("kcp-system", name), builders.kyma(name, status={"modules": [status]}))
    released: Cache[Any] = Cache({})
    for each in releases:
        released.put(ObjectKey("kcp-system", each.metadata.name), each)
    offered: Cache[Any] = Cache({})
    for each in templates:
        offered.put(ObjectKey("kcp-system", each.metadata.name), each)
    caches = {"kymas": kymas, "releases": released, "templates": offered}
    return SimpleNamespace(**{name: SimpleNamespace(cache=cache) for name, cache in caches.items()})


def dated(**given: Any) -> DatedReleaseMeta:
    return msgspec.convert(msgspec.to_builtins(builders.release("api", **given)), DatedReleaseMeta)


def named(kymas: Any) -> list[str]:
    return sorted(kyma.metadata.name for kyma in kymas)


def test_version_bump_wakes_those_who_use_the_channel() -> None:
    change = Change(dated(regular="1.0.0", fast="1.0.0"), dated(regular="1.0.0", fast="1.1.0"))
    assert named(who_has_release(informers(), change)) == ["b"]


def test_channel_that_comes_or_goes_wakes_those_who_ask_for_it() -> None:
    one, both, other = dated(fast="1.0.0"), dated(fast="1.0.0", regular="1.0.0"), dated(regular="1.0.0")
    assert named(who_has_release(informers(), Change(one, both))) == ["a"]
    assert named(who_has_release(informers(), Change(both, other))) == ["b"]


def test_whatever_else_changes_wakes_all_who_have_the_module() -> None:
    beta = dated(regular="1.0.0", spec={"beta": True})
    for change in (Change(None, beta), Change(beta, None), Change(dated(regular="1.0.0"), beta)):
        assert named(who_has_release(informers(), change)) == ["a", "b"]


def test_template_wakes_those_who_have_it_and_those_whose_channel_it_is() -> None:
    assert named(who_has_template(informers(), builders.template("api", "1.0.0"))) == ["a", "b"]
    releases = dated(regular="1.0.0", fast="2.0.0")
    assert named(who_has_template(informers(releases), builders.template("api", "2.0.0"))) == ["b"]
    assert named(who_has_template(informers(), builders.template("nats", channel="regular"))) == ["c"]
    assert named(who_has_template(informers(), builders.template("other", "1.0.0"))) == []


CATALOG_ALONE, MANDATORY_ALONE, BOTH = Concerned(True, False), Concerned(False, True), Concerned(True, True)


def test_release_that_becomes_mandatory_or_ceases_to_be_concerns_catalogs_and_installations() -> None:
    chosen, mandatory = dated(regular="1.0.0"), dated(mandatory="1.0.0")
    assert concerned_by_release(Change(chosen, dated(regular="1.1.0"))) == CATALOG_ALONE
    assert concerned_by_release(Change(mandatory, dated(mandatory="1.1.0"))) == MANDATORY_ALONE
    assert concerned_by_release(Change(chosen, mandatory)) == concerned_by_release(Change(mandatory, chosen)) == BOTH
    assert (
        concerned_by_release(Change(None, mandatory))
        == concerned_by_release(Change(mandatory, None))
        == MANDATORY_ALONE
    )


def test_template_that_becomes_mandatory_or_ceases_to_be_concerns_catalogs_and_installations() -> None:
    chosen, mandatory = builders.template("api", "1.0.0"), builders.template("api", "1.0.0", mandatory=True)
    assert concerned_by_template(informers(), Change(None, chosen)) == CATALOG_ALONE
    assert concerned_by_template(informers(), Change(mandatory, mandatory)) == MANDATORY_ALONE
    assert concerned_by_template(informers(), Change(chosen, mandatory)) == BOTH
    assert concerned_by_template(informers(), Change(mandatory, chosen)) == BOTH


def test_mandatory_template_concerns_the_catalogs_that_show_others_of_its_module() -> None:
    mandatory = builders.template("api", "1.0.0", mandatory=True)
    for module, concerned in (("api", BOTH), ("nats", MANDATORY_ALONE)):
        shown = informers(templates=(builders.template(module, channel="regular"),))
        assert concerned_by_template(shown, Change(None, mandatory)) == concerned
        assert concerned_by_template(shown, Change(mandatory, None)) == concerned


def test_template_of_a_version_that_a_release_makes_mandatory_concerns_the_installations() -> None:
    released = informers(dated(mandatory="1.0.0"))
    assert concerned_by_template(released, Change(None, builders.template("api", "1.0.0"))) == MANDATORY_ALONE
    assert concerned_by_template(released, Change(None, builders.template("nats", "1.0.0"))) == CATALOG_ALONE
