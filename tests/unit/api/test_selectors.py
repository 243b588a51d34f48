"""Label selectors match as in an API server."""

import pytest

from lifecycle_manager_api import KymaSelector, LabelSelector, LabelSelectorRequirement, ModuleReleaseMeta, decode

LABELS = {"region": "eu", "plan": "aws", "empty": ""}


@pytest.mark.parametrize(
    ("operator", "key", "values", "matches"),
    [
        ("In", "region", ("eu", "us"), True),
        ("In", "region", ("us",), False),
        ("In", "zone", ("eu",), False),
        ("In", "empty", ("",), True),
        ("NotIn", "region", ("us",), True),
        ("NotIn", "region", ("eu",), False),
        ("NotIn", "zone", ("eu",), True),
        ("Exists", "region", (), True),
        ("Exists", "empty", (), True),
        ("Exists", "zone", (), False),
        ("DoesNotExist", "zone", (), True),
        ("DoesNotExist", "region", (), False),
    ],
)
def test_requirement(operator: str, key: str, values: tuple[str, ...], matches: bool) -> None:
    requirement = LabelSelectorRequirement(key=key, operator=operator, values=values)  # type: ignore[arg-type]

    assert requirement.matches(LABELS) is matches


def test_empty_label_selector_matches_all_objects() -> None:
    assert LabelSelector().matches({})
    assert LabelSelector().matches(LABELS)


def test_every_requirement_must_be_met() -> None:
    exists = LabelSelectorRequirement(key="plan", operator="Exists")
    selector = LabelSelector(match_labels={"region": "eu"}, match_expressions=(exists,))

    assert selector.matches(LABELS)
    assert not selector.matches({"region": "eu"})
    assert not selector.matches({"region": "us", "plan": "aws"})
    assert not LabelSelector(match_labels={"zone": ""}).matches({})


def test_empty_kyma_selector_matches_no_kyma() -> None:
    assert not KymaSelector().matches({})
    assert not KymaSelector().matches(LABELS)


def test_kyma_selector_with_requirements_matches_as_a_label_selector() -> None:
    exists = LabelSelectorRequirement(key="plan", operator="Exists")

    assert KymaSelector(match_labels={"region": "eu"}).matches(LABELS)
    assert KymaSelector(match_expressions=(exists,)).matches(LABELS)
    assert not KymaSelector(match_labels={"region": "us"}).matches(LABELS)


@pytest.mark.parametrize("selector", [b"{}", b'{"matchLabels": {}}', b'{"matchExpressions": []}'])
def test_empty_selector_of_a_release_matches_no_kyma(selector: bytes) -> None:
    text = b'{"metadata": {"name": "mixer"}, "spec": {"moduleName": "mixer", "kymaSelector": %s}}' % selector

    release = decode(ModuleReleaseMeta, text)

    assert release.spec.kyma_selector is not None
    assert not release.spec.kyma_selector.matches(LABELS)


def test_selector_asks_the_server_what_it_means() -> None:
    demands = [("a", "In", ("x", "y")), ("b", "NotIn", ("z",)), ("c", "Exists", ()), ("d", "DoesNotExist", ())]
    expressions = tuple(
        LabelSelectorRequirement(key=key, operator=operator, values=values)  # type: ignore[arg-type]
        for key, operator, values in demands
    )
    selector = LabelSelector(match_labels={"z": "1"}, match_expressions=expressions)
    assert str(selector) == "z=1,a in (x,y),b notin (z),c,!d"
