"""Label selectors match as in an API server."""

import pytest

from lifecycle_manager_api import LabelSelector, LabelSelectorRequirement

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


def test_empty_selector_means_all() -> None:
    assert LabelSelector().matches({})
    assert LabelSelector().matches(LABELS)


def test_every_demand_has_to_be_met() -> None:
    exists = LabelSelectorRequirement(key="plan", operator="Exists")
    selector = LabelSelector(match_labels={"region": "eu"}, match_expressions=(exists,))

    assert selector.matches(LABELS)
    assert not selector.matches({"region": "eu"})
    assert not selector.matches({"region": "us", "plan": "aws"})
    assert not LabelSelector(match_labels={"zone": ""}).matches({})
