"""The table of attacks in docs/attacks.md: each row names tests that exist."""

import ast
import re
from pathlib import Path

import pytest

ATTACKS = Path("docs/attacks.md")
HEADING = re.compile(r"\| attack \||\|---")
NAME = re.compile(r"`(test_\w+|benchmarks\.\w+)`")


def rows() -> list[list[str]]:
    lines = [line for line in ATTACKS.read_text().splitlines() if line.startswith("|") and not HEADING.match(line)]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def functions() -> frozenset[str]:
    return frozenset(
        each.name
        for file in Path("tests").rglob("test_*.py")
        for each in ast.walk(ast.parse(file.read_text(), str(file)))
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
    )


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0][:60])
def test_each_attack_has_three_cells_and_names_a_test(row: list[str]) -> None:
    assert len(row) == 3
    assert all(row)
    assert any(name.startswith("test_") for name in NAME.findall(row[2]))


def test_tests_and_benchmarks_of_attacks_exist() -> None:
    named = {name for row in rows() for name in NAME.findall(row[2])}
    files = {f"benchmarks.{file.stem}" for file in Path("benchmarks").glob("*.py")}
    assert len(named) > 50
    assert not named - functions() - files
