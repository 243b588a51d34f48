"""The trends of a soak: what counts as growth."""

import pytest

from benchmarks.soak import PROGRAMS, Sample, evaluate, slope


def samples(
    *,
    kb_an_edit: float = 0.0,
    files_a_sample: float = 0.0,
    p99_a_sample: float = 0.0,
    warm_up: int = 20,
    edits_a_sample: int = 100,
) -> list[Sample]:
    """Return five minutes. The memory grows by 20 MB in the first `warm_up` samples, by `kb_an_edit` in all."""
    found = []
    for number in range(60):
        edits = edits_a_sample * number
        memory = 100_000 + int(20_000 * min(number, warm_up) / warm_up + edits * kb_an_edit) + 300 * (number % 3)
        files = 50 + int(number * files_a_sample) + number % 2
        p99 = 100.0 + number * p99_a_sample + (500 if number == 40 else number % 7)
        found.append(Sample(5.0 * number, edits, p99, (memory,) * len(PROGRAMS), (files,) * len(PROGRAMS)))
    return found


def missed(found: list[Sample]) -> set[str]:
    return {figure.name for figure in evaluate(found) if not figure.met}


def test_warm_up_noise_and_one_burst_are_no_growth() -> None:
    assert missed(samples()) == set()


def test_memory_fills_for_some_thousand_edits_on_a_fast_machine() -> None:
    assert missed(samples(warm_up=38, edits_a_sample=205)) == set()
    assert missed(samples(warm_up=38)) == {f"soak_memory_{program}" for program in PROGRAMS}


def test_memory_that_grows_with_the_edits_fails() -> None:
    assert missed(samples(kb_an_edit=0.7)) == {f"soak_memory_{program}" for program in PROGRAMS}


def test_file_leaked_in_a_thousand_edits_fails() -> None:
    assert missed(samples(files_a_sample=0.1)) == {f"soak_files_{program}" for program in PROGRAMS}


def test_changes_that_take_ever_longer_fail() -> None:
    assert missed(samples(p99_a_sample=3.0)) == {"soak_p99_growth"}


def test_slope_is_that_of_the_majority() -> None:
    assert slope([0, 1, 2, 3, 4], [0, 2, 90, 6, 8]) == pytest.approx(2)
    assert slope([1], [1]) == 0
