"""Durations are read as Kubernetes writes them."""

import pytest

from lifecycle_manager.contract.durations import parse_duration
from tests.cpu_time import takes_at_most


@pytest.mark.parametrize("text", ["1" * 20_000, "1." * 10_000])
def test_text_of_any_length_that_is_no_duration_is_refused_in_no_time(text: str) -> None:
    def parse() -> None:
        with pytest.raises(ValueError, match="invalid duration") as refused:
            parse_duration(text)
        assert len(str(refused.value)) < 200

    assert takes_at_most(1.0, parse)
