"""Which mandatory modules a Kyma is given, and how long what says so is held."""

from typing import Any

import msgspec
import pytest

from lifecycle_manager.mandatory_modules.installation import Apply, CannotInstall, Delete, plan
from lifecycle_manager.mandatory_modules.retirement import is_to_be_held, mandatory_index
from lifecycle_manager.module_catalog import Offer
from lifecycle_manager_api import Kyma, names
from tests import builders


def mandatory(version: str = "1.0.0", **given: Any) -> Any:
    return builders.template("warden", version, **({"installs": True, "mandatory": True} | given))


def introduced(reason: str = "Reachable", **metadata: Any) -> Kyma:
    """Return a Kyma whose cluster was looked at."""
    condition = {"type": "SKRReachable", "status": "False", "reason": reason, "message": ""}
    return builders.kyma(status={"conditions": [condition]}, **metadata)


OFFER = Offer.of([mandatory()], [])
LEAVING = "2026-11-01T12:00:00Z"


def test_highest_version_wins() -> None:
    offer = Offer.of([mandatory("1.9.0"), mandatory("1.10.0"), mandatory("1.10.0-rc")], [])
    (apply,) = plan(introduced(), offer, ())
    assert isinstance(apply, Apply)
    assert apply.manifest.spec.version == "1.10.0"
    assert apply.manifest.metadata.labels[names.MANDATORY_MODULE] == "true"


def test_release_names_the_version_whatever_else_there_is() -> None:
    offer = Offer.of([mandatory("1.0.0"), mandatory("2.0.0")], [builders.release("warden", mandatory="1.0.0")])
    (apply,) = plan(introduced(), offer, ())
    assert isinstance(apply, Apply)
    assert apply.manifest.spec.version == "1.0.0"


def test_version_that_has_no_template_yet_takes_nothing_away() -> None:
    """The release comes first, the template after it: no cluster loses the module in between."""
    there = builders.manifest("warden", "1.0.0", mandatory=True)
    offer = Offer.of(
        [builders.template("warden", "1.0.0", installs=True)], [builders.release("warden", mandatory="2.0.0")]
    )
    (told,) = plan(introduced(), offer, [there])
    assert isinstance(told, CannotInstall)
    assert told.release.KIND == "ModuleReleaseMeta"
    leaving = builders.template("warden", "1.0.0", installs=True, deletionTimestamp=LEAVING)
    waiting = Offer.of([leaving], [builders.release("warden", mandatory="2.0.0")])
    assert is_to_be_held(leaving, waiting, [there])


def test_template_that_is_deleted_takes_the_module_away_although_its_release_stays() -> None:
    there = builders.manifest("warden", "1.0.0", mandatory=True)
    leaving = builders.template("warden", "1.0.0", installs=True, deletionTimestamp=LEAVING)
    offer = Offer.of([leaving], [builders.release("warden", mandatory="1.0.0")])
    assert plan(introduced(), offer, [there]) == (Delete("demo-warden"),)
    assert is_to_be_held(leaving, offer, [there])
    assert not is_to_be_held(leaving, offer, [])


def test_manifest_that_is_there_is_changed_under_its_own_name_and_only_if_need_be() -> None:
    old = builders.manifest("warden", "0.9.0", mandatory=True, name="named-by-another-version")
    (apply,) = plan(introduced(), OFFER, [old])
    assert isinstance(apply, Apply)
    assert apply.manifest.metadata.name == "named-by-another-version"
    assert plan(introduced(), OFFER, [apply.manifest]) == ()


@pytest.mark.parametrize("metadata", [{"deletionTimestamp": LEAVING}, {"finalizers": []}])
def test_kyma_that_leaves_or_has_only_come_is_given_nothing(metadata: dict[str, Any]) -> None:
    assert plan(introduced(**metadata), OFFER, ()) == ()


@pytest.mark.parametrize("kyma", [builders.kyma(), introduced("SKRClaimed")])
def test_cluster_that_nobody_looked_at_or_that_is_anothers_is_given_nothing_and_lets_go(kyma: Kyma) -> None:
    assert plan(kyma, OFFER, ()) == ()
    there = builders.manifest("warden", mandatory=True)
    assert plan(kyma, Offer.of([], []), [there]) == (Delete("demo-warden"),)


def test_cluster_that_gives_no_answer_is_given_what_waits_for_it() -> None:
    assert len(plan(introduced("SKRUnreachable"), OFFER, ())) == 1


def test_skipped_kyma_keeps_what_it_has_but_lets_go_of_what_is_mandatory_no_more() -> None:
    skipped = introduced(labels={names.SKIP_RECONCILIATION: "true"})
    assert plan(skipped, OFFER, ()) == ()
    there = builders.manifest("warden", mandatory=True)
    assert plan(skipped, Offer.of([], []), [there]) == (Delete("demo-warden"),)


def test_modules_that_users_chose_are_left_alone() -> None:
    assert plan(introduced(), Offer.of([], []), [builders.manifest()]) == ()


def test_template_without_anything_to_install_is_told_and_disturbs_no_other() -> None:
    broken = mandatory("1.0.0")
    unreadable = msgspec.structs.replace(
        broken, spec=msgspec.structs.replace(broken.spec, descriptor=msgspec.Raw(b"[]")), metadata=broken.metadata
    )
    offer = Offer.of([unreadable, builders.template("istio", installs=True, mandatory=True)], [])
    told = plan(introduced(), offer, ())
    assert {type(each) for each in told} == {Apply, CannotInstall}
    nothing = Offer.of([mandatory(installs=False)], [])
    (cannot,) = plan(introduced(), nothing, ())
    assert isinstance(cannot, CannotInstall)


def test_manifest_that_goes_already_is_not_deleted_again_and_comes_again_only_once_it_is_gone() -> None:
    going = builders.manifest("warden", "0.9.0", mandatory=True, deletionTimestamp=LEAVING)
    assert plan(introduced(), Offer.of([], []), [going]) == ()
    assert plan(introduced(), OFFER, [going]) == ()


def test_manifests_of_mandatory_modules_are_found_by_their_module() -> None:
    assert list(mandatory_index(builders.manifest("warden", mandatory=True))) == ["warden"]
    assert list(mandatory_index(builders.manifest("warden"))) == []


def test_what_says_that_a_module_is_mandatory_is_held_while_it_does() -> None:
    assert is_to_be_held(mandatory(), OFFER, ())
    both = Offer.of([mandatory("1.0.0"), mandatory("0.9.0")], [])
    assert is_to_be_held(mandatory("0.9.0"), both, ())
    chosen = builders.template("warden", "1.0.0", installs=True)
    release = builders.release("warden", mandatory="1.0.0")
    offer = Offer.of([chosen], [release])
    assert is_to_be_held(chosen, offer, ())
    assert is_to_be_held(release, offer, ())
    assert not is_to_be_held(chosen, Offer.of([chosen], []), ())


def test_leaving_template_waits_for_the_manifests_of_its_version() -> None:
    leaving = mandatory("1.0.0", deletionTimestamp=LEAVING)
    offer = Offer.of([leaving, mandatory("0.9.0")], [])
    assert is_to_be_held(leaving, offer, [builders.manifest("warden", "1.0.0", mandatory=True)])
    assert not is_to_be_held(leaving, offer, [builders.manifest("warden", "0.9.0", mandatory=True)])
    (apply,) = plan(introduced(), offer, [builders.manifest("warden", "1.0.0", mandatory=True)])
    assert isinstance(apply, Apply)
    assert apply.manifest.spec.version == "0.9.0"


def test_template_that_is_named_after_a_channel_has_the_version_of_its_descriptor() -> None:
    leaving = mandatory("1.9.0", channel="fast", deletionTimestamp=LEAVING)
    offer = Offer.of([leaving, mandatory("1.10.0", channel="alpha"), mandatory("1.8.0", channel="regular")], [])
    (apply,) = plan(introduced(), offer, ())
    assert isinstance(apply, Apply)
    assert apply.manifest.spec.version == "1.10.0"
    assert is_to_be_held(leaving, offer, [builders.manifest("warden", "1.9.0", mandatory=True)])


def test_leaving_release_waits_for_all_manifests_of_its_module() -> None:
    leaving = builders.release("warden", mandatory="1.0.0", metadata={"deletionTimestamp": LEAVING})
    offer = Offer.of([builders.template("warden", "1.0.0", installs=True)], [leaving])
    there = builders.manifest("warden", "1.0.0", mandatory=True)
    assert is_to_be_held(leaving, offer, [there])
    assert not is_to_be_held(leaving, offer, [])
    assert plan(introduced(), offer, [there]) == (Delete("demo-warden"),)
    still_mandatory = Offer.of([mandatory()], [leaving])
    assert not is_to_be_held(leaving, still_mandatory, [there])
