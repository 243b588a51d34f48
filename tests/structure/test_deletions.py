"""What may be deleted is said where it is decided, and on a page of the reference."""

import pytest

from tools.documentation.reference.deletions import deleting_steps, plans, rule_of


@pytest.mark.parametrize("folder", sorted(plans()))
def test_each_plan_says_what_it_may_delete(folder: str) -> None:
    assert rule_of(plans()[folder])


def test_each_step_that_deletes_says_what() -> None:
    steps = list(deleting_steps())
    assert len(steps) > 10
    assert [name for _, name, text in steps if not text] == []
