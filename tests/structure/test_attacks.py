"""The attacks that the reference lists are tried: each names tests that exist."""

from pathlib import Path

import pytest

from tests.structure.definitions import definitions
from tools.documentation.reference.attacks import Attack, attacks

ALL = [each for those in attacks().values() for each in those]


@pytest.mark.parametrize("attack", ALL, ids=lambda attack: attack.attack[:60])
def test_each_attack_is_stopped_and_names_a_test(attack: Attack) -> None:
    assert attack.attack
    assert attack.stopped_by
    assert any(name.startswith("test_") for name in attack.tests)


def test_tests_and_benchmarks_of_attacks_exist() -> None:
    named = {name for each in ALL for name in each.tests}
    files = {f"benchmarks.{file.stem}" for file in Path("benchmarks").glob("*.py")}
    assert len(named) > 50
    functions = {each.name for each in definitions() if not each.is_class and "/test_" in each.file}
    assert not named - functions - files
