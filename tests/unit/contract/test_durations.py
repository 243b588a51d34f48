"""Durations are read as Kubernetes writes them."""

import time

import pytest

from lifecycle_manager.contract.durations import parse_duration


@pytest.mark.parametrize("text", ["1" * 20_000, "1." * 10_000])
def test_text_of_any_length_that_is_no_duration_is_refused_in_no_time(text: str) -> None:
    start = time.process_time()
    with pytest.raises(ValueError, match="invalid duration") as refused:
        parse_duration(text)
    assert time.process_time() - start < 1.0
    assert len(str(refused.value)) < 200
