"""Which mandatory modules a Kyma has, and how long a ModuleTemplate or ModuleReleaseMeta keeps its finalizer."""

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from lifecycle_manager.mandatory_modules.rules import Changes, changes_of, has_wrong_finalizer
from lifecycle_manager.mandatory_modules.rules import is_held as held_in
from lifecycle_manager.mandatory_modules.snapshot import InstallationSnapshot, Release, RetirementSnapshot
from lifecycle_manager.module_catalog.offer import Offer
from lifecycle_manager_api import Kyma, Manifest, names
from tests import builders


def mandatory(version: str = "1.0.0", **given: Any) -> Any:
    return builders.template("warden", version, **({"installs": True, "mandatory": True} | given))


def introduced(reason: str = "Reachable", **metadata: Any) -> Kyma:
    """Return a Kyma whose SKR was read once."""
    condition = {"type": "SKRReachable", "status": "False", "reason": reason, "message": ""}
    return builders.kyma(status={"conditions": [condition]}, **metadata)


def changes(kyma: Kyma, offer: Offer, manifests: Iterable[Manifest]) -> Changes:
    return changes_of(InstallationSnapshot(kyma=kyma, offer=offer, manifests=tuple(manifests)))


def retirement(release: Release, offer: Offer, manifests: Iterable[Manifest]) -> RetirementSnapshot:
    return RetirementSnapshot(release=release, offer=offer, manifests=tuple(manifests))


def is_held(release: Release, offer: Offer, manifests: Iterable[Manifest]) -> bool:
    return held_in(retirement(release, offer, manifests))


OFFER = Offer.of([mandatory()], [])
LEAVING = "2026-11-01T12:00:00Z"


def test_highest_version_wins() -> None:
    offer = Offer.of([mandatory("1.9.0"), mandatory("1.10.0"), mandatory("1.10.0-rc")], [])
    (manifest,) = changes(introduced(), offer, ()).apply
    assert manifest.spec.version == "1.10.0"
    assert manifest.metadata.labels[names.MANDATORY_MODULE] == "true"


def test_release_names_the_version_whatever_else_there_is() -> None:
    offer = Offer.of([mandatory("1.0.0"), mandatory("2.0.0")], [builders.release("warden", mandatory="1.0.0")])
    (manifest,) = changes(introduced(), offer, ()).apply
    assert manifest.spec.version == "1.0.0"


def test_mandatory_version_without_template_deletes_nothing() -> None:
    """The release comes first, the template after it: no cluster loses the module in between."""
    there = builders.manifest("warden", "1.0.0", mandatory=True)
    offer = Offer.of(
        [builders.template("warden", "1.0.0", installs=True)], [builders.release("warden", mandatory="2.0.0")]
    )
    step = changes(introduced(), offer, [there])
    assert [each.release.KIND for each in step.cannot] == ["ModuleReleaseMeta"]
    assert step == Changes(cannot=step.cannot)
    leaving = builders.template("warden", "1.0.0", installs=True, deletionTimestamp=LEAVING)
    waiting = Offer.of([leaving], [builders.release("warden", mandatory="2.0.0")])
    assert is_held(leaving, waiting, [there])


def test_deletion_of_the_template_removes_the_module_although_its_release_stays() -> None:
    there = builders.manifest("warden", "1.0.0", mandatory=True)
    leaving = builders.template("warden", "1.0.0", installs=True, deletionTimestamp=LEAVING)
    offer = Offer.of([leaving], [builders.release("warden", mandatory="1.0.0")])
    assert changes(introduced(), offer, [there]) == Changes(delete=("demo-warden",))
    assert is_held(leaving, offer, [there])
    assert not is_held(leaving, offer, [])


def test_existing_manifest_is_changed_under_its_own_name_and_only_if_it_differs() -> None:
    old = builders.manifest("warden", "0.9.0", mandatory=True, name="named-by-another-version")
    (manifest,) = changes(introduced(), OFFER, [old]).apply
    assert manifest.metadata.name == "named-by-another-version"
    assert changes(introduced(), OFFER, [manifest]) == Changes()


@pytest.mark.parametrize("metadata", [{"deletionTimestamp": LEAVING}, {"finalizers": []}])
def test_kyma_that_is_being_deleted_or_has_no_finalizer_gets_nothing(metadata: dict[str, Any]) -> None:
    assert changes(introduced(**metadata), OFFER, ()) == Changes()


SKIPPED = introduced(labels={names.SKIP_RECONCILIATION: "true"})


@pytest.mark.parametrize("kyma", [builders.kyma(), introduced("SKRClaimed"), SKIPPED])
def test_cluster_that_was_not_read_is_claimed_or_skipped_gets_deletions_alone(kyma: Kyma) -> None:
    assert changes(kyma, OFFER, ()) == Changes()
    there = builders.manifest("warden", mandatory=True)
    assert changes(kyma, Offer.of([], []), [there]) == Changes(delete=("demo-warden",))


def test_cluster_that_is_unreachable_gets_its_manifests() -> None:
    assert len(changes(introduced("ClusterUnreachable"), OFFER, ()).apply) == 1


def test_manifests_of_chosen_modules_stay() -> None:
    assert changes(introduced(), Offer.of([], []), [builders.manifest()]) == Changes()


def test_template_without_anything_to_install_is_reported_and_blocks_no_other() -> None:
    broken = mandatory("1.0.0")
    unreadable = msgspec.structs.replace(
        broken, spec=msgspec.structs.replace(broken.spec, descriptor=msgspec.Raw(b"[]")), metadata=broken.metadata
    )
    offer = Offer.of([unreadable, builders.template("istio", installs=True, mandatory=True)], [])
    step = changes(introduced(), offer, ())
    assert (len(step.apply), len(step.cannot)) == (1, 1)
    nothing = Offer.of([mandatory(installs=False)], [])
    assert len(changes(introduced(), nothing, ()).cannot) == 1


def test_manifest_that_is_being_deleted_is_neither_deleted_nor_applied_again() -> None:
    going = builders.manifest("warden", "0.9.0", mandatory=True, deletionTimestamp=LEAVING)
    assert changes(introduced(), Offer.of([], []), [going]) == Changes()
    assert changes(introduced(), OFFER, [going]) == Changes()


def test_release_has_the_finalizer_while_it_makes_a_module_mandatory() -> None:
    assert is_held(mandatory(), OFFER, ())
    both = Offer.of([mandatory("1.0.0"), mandatory("0.9.0")], [])
    assert is_held(mandatory("0.9.0"), both, ())
    chosen = builders.template("warden", "1.0.0", installs=True)
    release = builders.release("warden", mandatory="1.0.0")
    offer = Offer.of([chosen], [release])
    assert is_held(chosen, offer, ())
    assert is_held(release, offer, ())
    assert not is_held(chosen, Offer.of([chosen], []), ())


def test_template_that_is_being_deleted_waits_for_the_manifests_of_its_version() -> None:
    leaving = mandatory("1.0.0", deletionTimestamp=LEAVING)
    offer = Offer.of([leaving, mandatory("0.9.0")], [])
    assert is_held(leaving, offer, [builders.manifest("warden", "1.0.0", mandatory=True)])
    assert not is_held(leaving, offer, [builders.manifest("warden", "0.9.0", mandatory=True)])
    (manifest,) = changes(introduced(), offer, [builders.manifest("warden", "1.0.0", mandatory=True)]).apply
    assert manifest.spec.version == "0.9.0"


def test_template_that_is_named_after_a_channel_has_the_version_of_its_descriptor() -> None:
    leaving = mandatory("1.9.0", channel="fast", deletionTimestamp=LEAVING)
    offer = Offer.of([leaving, mandatory("1.10.0", channel="alpha"), mandatory("1.8.0", channel="regular")], [])
    (manifest,) = changes(introduced(), offer, ()).apply
    assert manifest.spec.version == "1.10.0"
    assert is_held(leaving, offer, [builders.manifest("warden", "1.9.0", mandatory=True)])


def test_release_that_is_being_deleted_waits_for_all_manifests_of_its_module() -> None:
    leaving = builders.release("warden", mandatory="1.0.0", metadata={"deletionTimestamp": LEAVING})
    offer = Offer.of([builders.template("warden", "1.0.0", installs=True)], [leaving])
    there = builders.manifest("warden", "1.0.0", mandatory=True)
    assert is_held(leaving, offer, [there])
    assert not is_held(leaving, offer, [])
    assert changes(introduced(), offer, [there]) == Changes(delete=("demo-warden",))
    still_mandatory = Offer.of([mandatory()], [leaving])
    assert not is_held(leaving, still_mandatory, [there])


def test_finalizer_is_written_only_where_it_is_wrong() -> None:
    held = mandatory(finalizers=[names.MANDATORY_FINALIZER])
    assert not has_wrong_finalizer(retirement(held, OFFER, ()))
    assert has_wrong_finalizer(retirement(mandatory(), OFFER, ()))
    nothing_mandatory = Offer.of([], [])
    chosen = builders.template("warden", "1.0.0", finalizers=[names.MANDATORY_FINALIZER])
    assert has_wrong_finalizer(retirement(chosen, nothing_mandatory, ()))


def test_release_that_is_being_deleted_waits_as_long_as_manifests_exist() -> None:
    leaving = mandatory("1.0.0", deletionTimestamp=LEAVING, finalizers=[names.MANDATORY_FINALIZER])
    offer = Offer.of([leaving], [])
    manifest = builders.manifest("warden", "1.0.0", mandatory=True)
    assert not has_wrong_finalizer(retirement(leaving, offer, (manifest,)))
    assert has_wrong_finalizer(retirement(leaving, offer, ()))
