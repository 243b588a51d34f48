"""The patterns of ModulePolicies, which operators write, on names and addresses that module teams write."""

from fnmatch import fnmatchcase

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lifecycle_manager_api.policy_checks import _matches
from tests.cpu_time import takes_at_most


@given(pattern=st.text("ab*.", max_size=8), text=st.text("ab.\n", max_size=10))
@example("a*a", "a")
@example("*", "")
def test_star_stands_for_any_text_and_everything_else_for_itself(pattern: str, text: str) -> None:
    assert _matches([pattern], text) is fnmatchcase(text, pattern)


@pytest.mark.parametrize("pattern", ["*a*a*a*a*a*a*a*a*b", "*" * 200 + "b", "a*" * 200 + "b"])
def test_pattern_with_many_stars_costs_no_more_than_one_reading_of_the_text(pattern: str) -> None:
    text = "a" * 100_000
    assert not _matches([pattern], text)
    assert takes_at_most(0.5, lambda: _matches([pattern], text))
