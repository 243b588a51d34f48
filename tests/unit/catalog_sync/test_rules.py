"""What an SKR has of the catalog, and what differs from it."""

from collections.abc import Mapping
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from kube_runtime import Revision
from lifecycle_manager.catalog_sync.rules import differences, is_as_wanted
from lifecycle_manager.catalog_sync.snapshot import CatalogRecord, fingerprint
from lifecycle_manager.catalog_sync.wanted import KINDS, Catalogs, WantedCatalog, wanted_catalog
from lifecycle_manager.module_catalog.offer import Offer
from lifecycle_manager_api import ModuleReleaseMeta, ModuleTemplate, names
from tests import builders

NO_LABELS: Mapping[str, str] = {}


def named(catalog: WantedCatalog) -> set[str]:
    return {name for _, name in catalog.items}


def live_of(catalog: WantedCatalog) -> dict[tuple[str, str], Any]:
    return {key: each.item for key, each in catalog.items.items()}


def test_catalog_has_the_modules_to_choose_and_no_mandatory_ones() -> None:
    offer = Offer.of(
        [
            builders.template("api", "1.0.0"),
            builders.template("api", "0.9.0"),
            builders.template("old", channel="regular"),
            builders.template("warden", "1.0.0", mandatory=True),
            builders.template("istio", "1.0.0"),
        ],
        [builders.release("api", regular="1.0.0"), builders.release("istio", mandatory="1.0.0")],
    )
    assert named(wanted_catalog(offer, NO_LABELS)) == {"api-1.0.0", "old-regular", "api"}


def test_mandatory_template_is_not_in_the_catalog_although_its_release_has_channels() -> None:
    offer = Offer.of(
        [builders.template("api", "1.0.0", mandatory=True), builders.template("api", "2.0.0")],
        [builders.release("api", regular="1.0.0", fast="2.0.0")],
    )
    catalog = wanted_catalog(offer, NO_LABELS)
    assert named(catalog) == {"api", "api-2.0.0"}
    release = catalog.items[ModuleReleaseMeta.KIND, "api"].item
    assert isinstance(release, ModuleReleaseMeta)
    assert [each.channel for each in release.spec.channels] == ["fast"]


def test_objects_in_the_cluster_stay_when_synchronization_is_off() -> None:
    off = {names.SYNC: "false"}

    def offer(labels: dict[str, str]) -> Offer:
        return Offer.of(
            [builders.template("api", "1.0.0", labels=labels), builders.template("nats", "1.0.0")],
            [builders.release("api", regular="1.0.0", metadata={"labels": labels})],
        )

    everything = wanted_catalog(offer({}), NO_LABELS)
    live = live_of(everything)
    for catalog in (wanted_catalog(offer({}), off), wanted_catalog(offer(off), NO_LABELS)):
        assert differences(catalog, live, KINDS) == ((), ())
    assert named(wanted_catalog(offer({}), off)) == set()
    assert named(wanted_catalog(offer(off), NO_LABELS)) == {"nats-1.0.0"}
    assert named(everything) == {"api", "api-1.0.0", "nats-1.0.0"}
    assert Catalogs().for_labels(offer({}), off).digest != everything.digest


def test_later_deletions_do_not_reach_a_cluster_whose_synchronization_is_off() -> None:
    off = {names.SYNC: "false"}
    before = Offer.of([builders.template("api", "1.0.0")], [builders.release("api", regular="1.0.0")])
    live = live_of(wanted_catalog(before, NO_LABELS))
    after = wanted_catalog(Offer.of([], []), off)
    assert differences(after, live, KINDS) == ((), ())
    assert after.digest == wanted_catalog(before, off).digest
    _, deleted = differences(wanted_catalog(Offer.of([], []), NO_LABELS), live, KINDS)
    assert len(deleted) == 2


def test_restricted_module_is_shown_to_kymas_with_its_label() -> None:
    offer = Offer.of(
        [
            builders.template("api", "1.0.0", labels={names.BETA: "true"}),
            builders.template("nats", "1.0.0"),
            builders.template("team", "1.0.0"),
        ],
        [
            builders.release("api", regular="1.0.0"),
            builders.release("nats", regular="1.0.0", spec={"internal": True}),
            builders.release("team", regular="1.0.0", spec={"kymaSelector": {"matchLabels": {"team": "a"}}}),
        ],
    )
    assert named(wanted_catalog(offer, NO_LABELS)) == set()
    assert named(wanted_catalog(offer, {names.BETA: "true"})) == {"api", "api-1.0.0"}
    assert named(wanted_catalog(offer, {names.INTERNAL: "true"})) == {"nats", "nats-1.0.0"}
    assert named(wanted_catalog(offer, {"team": "a"})) == {"team", "team-1.0.0"}


def test_release_shows_only_the_channels_that_this_cluster_can_have() -> None:
    offer = Offer.of(
        [builders.template("api", "1.0.0"), builders.template("api", "2.0.0", labels={names.BETA: "true"})],
        [builders.release("api", regular="1.0.0", fast="2.0.0", rapid="3.0.0")],
    )

    def channels(labels: Mapping[str, str]) -> list[str]:
        item = wanted_catalog(offer, labels).items[ModuleReleaseMeta.KIND, "api"].item
        assert isinstance(item, ModuleReleaseMeta)
        return [each.channel for each in item.spec.channels]

    assert channels(NO_LABELS) == ["regular"]
    assert channels({names.BETA: "true"}) == ["regular", "fast"]


def test_labels_and_annotations_of_kcp_are_not_copied() -> None:
    template = builders.template(labels={"internal.example/secret": "x", names.MODULE_NAME: "cloud-resources"})
    (item,) = wanted_catalog(Offer.of([template], []), NO_LABELS).items.values()
    metadata = item.document["metadata"]
    assert metadata["namespace"] == names.SKR_NAMESPACE
    assert metadata["labels"] == {
        names.MODULE_NAME: "cloud-resources",
        names.WATCHED_BY: "kyma",
        names.MANAGED_BY: names.LIFECYCLE_MANAGER,
    }
    assert metadata["annotations"] == {names.OWNED_BY: "kcp-system/cloud-resources-0.1.0"}


def test_clusters_with_the_same_audience_share_one_catalog() -> None:
    catalogs = Catalogs()
    offer = Offer.of([builders.template()], [builders.release(regular="0.1.0")])
    first = catalogs.for_labels(offer, {"a": "1"})
    assert catalogs.for_labels(offer, {"b": "2"}) is first
    assert catalogs.for_labels(offer, {names.BETA: "true"}) is not first
    assert catalogs.for_labels(Offer.of([builders.template()], []), NO_LABELS) is not first


def test_digest_changes_with_content_and_known_objects() -> None:
    bare = wanted_catalog(Offer.of([builders.template()], []), NO_LABELS)
    same = wanted_catalog(Offer.of([builders.template(resourceVersion="2")], []), NO_LABELS)
    other = wanted_catalog(Offer.of([builders.template(requires_downtime=True)], []), NO_LABELS)
    hidden = builders.template("api", "1.0.0", labels={names.BETA: "true"})
    more_known = wanted_catalog(Offer.of([builders.template(), hidden], []), NO_LABELS)
    assert bare.digest == same.digest
    assert len({bare.digest, other.digest, more_known.digest}) == 3


def test_only_differences_are_applied() -> None:
    catalog = wanted_catalog(
        Offer.of([builders.template(), builders.template("api", "1.0.0")], [builders.release(regular="0.1.0")]),
        NO_LABELS,
    )
    live = live_of(catalog)
    del live[ModuleTemplate.KIND, "api-1.0.0"]
    edited = live[ModuleReleaseMeta.KIND, "cloud-resources"]
    live[ModuleReleaseMeta.KIND, "cloud-resources"] = msgspec.structs.replace(
        edited, spec=msgspec.structs.replace(edited.spec, channels=())
    )
    applied, _ = differences(catalog, live, KINDS)
    assert {each.item.metadata.name for each in applied} == {"api-1.0.0", "cloud-resources"}
    only_templates, _ = differences(catalog, live, [ModuleTemplate.KIND])
    assert {each.item.metadata.name for each in only_templates} == {"api-1.0.0"}


def test_object_deleted_in_kcp_is_deleted_and_a_restricted_one_stays() -> None:
    hidden = builders.template("api", "1.0.0", labels={names.BETA: "true"})
    catalog = wanted_catalog(Offer.of([hidden], []), NO_LABELS)
    live: dict[tuple[str, str], Any] = {
        (ModuleTemplate.KIND, "api-1.0.0"): hidden,
        (ModuleTemplate.KIND, "gone-1.0.0"): builders.template("gone", "1.0.0"),
    }
    assert differences(catalog, live, KINDS) == ((), ((ModuleTemplate.KIND, "gone-1.0.0"),))


def test_module_no_longer_offered_leaves_the_catalog_except_beta_and_internal() -> None:
    selected = {"kymaSelector": {"matchLabels": {"team": "a"}}}
    offer = Offer.of(
        [
            builders.template("team", "1.0.0"),
            builders.template("team", "2.0.0", labels={names.SYNC: "false"}),
            builders.template("nats", "1.0.0"),
        ],
        [
            builders.release("team", regular="1.0.0", spec=selected),
            builders.release("nats", regular="1.0.0", spec={"internal": True}),
        ],
    )
    live = live_of(wanted_catalog(offer, {"team": "a", names.INTERNAL: "true"}))
    live[ModuleTemplate.KIND, "team-2.0.0"] = builders.template("team", "2.0.0")
    catalog = wanted_catalog(offer, NO_LABELS)
    expected = (
        (ModuleReleaseMeta.KIND, "team"),
        (ModuleTemplate.KIND, "team-1.0.0"),
        (ModuleTemplate.KIND, "team-2.0.0"),
    )
    assert differences(catalog, live, KINDS) == ((), expected)
    assert Catalogs().for_labels(offer, NO_LABELS).digest != Catalogs().for_labels(offer, {"team": "a"}).digest


def test_embedded_objects_are_compared_by_value() -> None:
    wanted = builders.template()
    spaced = msgspec.structs.replace(
        wanted.spec, descriptor=msgspec.Raw(bytes(wanted.spec.descriptor).replace(b":", b": "))
    )
    assert is_as_wanted(msgspec.structs.replace(wanted, spec=spaced), wanted)
    other = msgspec.structs.replace(wanted.spec, descriptor=msgspec.Raw(b"{}"))
    assert not is_as_wanted(msgspec.structs.replace(wanted, spec=other), wanted)


def test_record_is_parsed_as_it_was_written_and_an_invalid_one_is_empty() -> None:
    record = CatalogRecord("a", "b")
    assert CatalogRecord.of(builders.kyma(records={"catalog": str(record)})) == record
    for invalid in ("", "a"):
        assert CatalogRecord.of(builders.kyma(records={"catalog": invalid})) == CatalogRecord()


REVISIONS = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from("uv"), st.sampled_from("12")), unique_by=lambda each: each[0]
)


def revisions(of: list[tuple[str, str, str]]) -> list[Revision]:
    return [
        msgspec.convert({"metadata": {"name": name, "uid": uid, "resourceVersion": version}}, Revision)
        for name, uid, version in of
    ]


@given(first=REVISIONS, second=REVISIONS)
def test_fingerprint_is_equal_only_for_the_same_resource_versions(first: Any, second: Any) -> None:
    same = sorted(first) == sorted(second)
    assert (fingerprint(revisions(first)) == fingerprint(revisions(second))) is same
    assert fingerprint(revisions(first)) == fingerprint(revisions(first[::-1]))
