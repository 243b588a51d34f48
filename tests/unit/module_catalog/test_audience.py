"""Which Kymas may have a module."""

from typing import Any

import pytest

from lifecycle_manager.catalog_sync.wanted import Catalogs
from lifecycle_manager.module_catalog.audience import excluded
from lifecycle_manager.module_catalog.offer import Offer
from tests import builders

LABELS: tuple[dict[str, str], ...] = ({}, {"team": "a"}, {"operator.kyma-project.io/beta": "true"})


def selecting(selector: Any) -> Any:
    return builders.release("api", regular="1.0.0", spec={"kymaSelector": selector})


@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("selector", [{}, {"matchLabels": {}}, {"matchLabels": {}, "matchExpressions": []}])
def test_empty_selector_matches_no_kyma(selector: dict[str, Any], labels: dict[str, str]) -> None:
    found = excluded(labels, builders.template("api", "1.0.0"), selecting(selector))
    assert found is not None
    assert found.reason == "ModuleNotForThisCluster"


@pytest.mark.parametrize("labels", LABELS)
def test_release_without_a_selector_is_for_every_kyma(labels: dict[str, str]) -> None:
    assert excluded(labels, builders.template("api", "1.0.0"), builders.release("api", regular="1.0.0")) is None


@pytest.mark.parametrize(
    "selector",
    [{"matchLabels": {"team": "a"}}, {"matchExpressions": [{"key": "team", "operator": "In", "values": ["a"]}]}],
)
def test_selector_matches_the_kymas_with_its_labels(selector: dict[str, Any]) -> None:
    template = builders.template("api", "1.0.0")
    assert excluded({"team": "a"}, template, selecting(selector)) is None
    assert excluded({"team": "b"}, template, selecting(selector)) is not None


def test_catalog_of_no_cluster_has_a_module_with_an_empty_selector() -> None:
    offer = Offer.of([builders.template("api", "1.0.0")], [selecting({})])
    for labels in LABELS:
        assert not Catalogs().for_labels(offer, labels).items


@pytest.mark.parametrize("labels", LABELS)
def test_restricted_module_is_for_selected_kymas_alone(labels: dict[str, str]) -> None:
    template, older = builders.template("api", "1.0.0"), builders.template("api", channel="regular")
    release = builders.release("api", regular="1.0.0")
    for releases in ((release,), ()):
        offer = Offer.of([template, older], releases, restricted=["api"])
        assert not Catalogs().for_labels(offer, labels).items
        assert not offer.by_channel or excluded(labels, older, offer.releases.get("api")) is not None
    selected = Offer.of([template], [selecting({"matchLabels": {"team": "a"}})], restricted=["api"])
    assert bool(Catalogs().for_labels(selected, labels).items) is (labels.get("team") == "a")
