"""Semantic versions (semver.org): syntax and order."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lifecycle_manager_api import InvalidVersion, Version
from lifecycle_manager_api.versions import SEMANTIC_VERSION

# The order that semver.org, 11, gives as its example, and some more.
ORDERED = [
    "0.0.9",
    "0.1.0",
    "1.0.0-0",
    "1.0.0-9",
    "1.0.0-10",
    "1.0.0-alpha",
    "1.0.0-alpha.1",
    "1.0.0-alpha.beta",
    "1.0.0-beta",
    "1.0.0-beta.2",
    "1.0.0-beta.11",
    "1.0.0-rc.1",
    "1.0.0",
    "1.2.0",
    "1.10.0",
    "10.0.0",
]

VERSIONS = st.from_regex(f"(?a){SEMANTIC_VERSION}", fullmatch=True).filter(lambda text: len(text) <= 60)


def test_versions_are_ordered_by_semver() -> None:
    parsed = [Version.parse(text) for text in ORDERED]

    assert sorted(parsed, reverse=True) == parsed[::-1]
    assert all(earlier < later and later > earlier for earlier, later in pairwise(parsed))


def test_build_metadata_is_kept_and_not_compared() -> None:
    one, other = Version.parse("1.0.0+1"), Version.parse("1.0.0+2")

    assert one == other
    assert hash(one) == hash(other)
    assert not one < other
    assert (str(one), str(other)) == ("1.0.0+1", "1.0.0+2")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "1.2",
        "v1.2.3",
        "1.2.3.4",
        "01.2.3",
        "1.2.3-",
        "1.2.3-01",
        "1.2.3-a..b",
        "1.2.3+",
        "1.2.3\n",
        "\u0661.2.3",
    ],
)
def test_invalid_version_is_rejected(text: str) -> None:
    with pytest.raises(InvalidVersion, match="is not a semantic version: expected a form such as"):
        Version.parse(text)


def test_long_text_is_rejected_without_matching_it() -> None:
    with pytest.raises(InvalidVersion) as refused:
        Version.parse("1" * 1_000_000)

    assert len(str(refused.value)) < 400


@given(VERSIONS)
def test_version_is_formatted_as_it_was_parsed(text: str) -> None:
    assert str(Version.parse(text)) == text


@given(VERSIONS, VERSIONS, VERSIONS)
def test_order_is_total_and_transitive(a: str, b: str, c: str) -> None:
    one, two, three = Version.parse(a), Version.parse(b), Version.parse(c)

    assert (one < two) + (one == two) + (one > two) == 1
    if one <= two <= three:
        assert one <= three


def test_pattern_is_anchored() -> None:
    assert re.search(SEMANTIC_VERSION, "x1.2.3") is None
