"""Names: those of tests are facts that fit on a line of a report, and no two classes have the same name."""

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

from tests.structure.definitions import definitions

MAX_NAME_LENGTH = 80

NAMED_BY_KUBERNETES = {"GroupVersionKind", "WatchEvent"}
"""Kubernetes' or upstream's names, in distributions that do not import each other."""


def sources() -> list[Path]:
    return sorted(file for where in ("*", "*/*") for file in Path().glob(f"{where}/src/**/*.py"))


@cache
def classes() -> dict[str, list[str]]:
    """Return where each public class is defined, by its name."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for file in sources():
        for each in ast.walk(ast.parse(file.read_text(), str(file))):
            if isinstance(each, ast.ClassDef) and not each.name.startswith("_"):
                found[each.name].append(f"{file}:{each.lineno}")
    return found


def test_no_two_classes_have_the_same_name() -> None:
    known = classes()
    assert len(known) > len(NAMED_BY_KUBERNETES)
    several = {name: places for name, places in known.items() if len(places) > 1}
    assert {name: several[name] for name in several.keys() - NAMED_BY_KUBERNETES} == {}


def test_each_exception_is_used() -> None:
    several = {name for name, places in classes().items() if len(places) > 1}
    assert several >= NAMED_BY_KUBERNETES


def test_names_of_tests_have_at_most_eighty_characters() -> None:
    tests = [each for each in definitions() if each.name.startswith("test_")]
    assert [each for each in tests if len(each.name) > MAX_NAME_LENGTH] == []


def test_there_is_one_world() -> None:
    """What drives a single controller, or real clusters, is named for that."""
    assert [each.file for each in definitions() if each.is_class and each.name.endswith("World")] == ["tests/world.py"]
