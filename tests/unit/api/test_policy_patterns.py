"""The patterns of ModulePolicies, which operators write, on names and addresses that module teams write."""

import time
from fnmatch import fnmatchcase

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lifecycle_manager_api.policy_checks import _matches


@given(pattern=st.text("ab*.", max_size=8), text=st.text("ab.\n", max_size=10))
@example("a*a", "a")
@example("*", "")
def test_star_stands_for_any_text_and_everything_else_for_itself(pattern: str, text: str) -> None:
    assert _matches([pattern], text) is fnmatchcase(text, pattern)


@pytest.mark.parametrize("pattern", ["*a*a*a*a*a*a*a*a*b", "*" * 200 + "b", "a*" * 200 + "b"])
def test_pattern_with_many_stars_costs_no_more_than_one_reading_of_the_text(pattern: str) -> None:
    began = time.process_time()
    assert not _matches([pattern], "a" * 100_000)
    assert time.process_time() - began < 0.5
