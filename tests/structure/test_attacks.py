"""The table of attacks in docs/trust.md: each row names tests that exist."""

import ast
import re
from pathlib import Path

import pytest

TRUST = Path("docs/trust.md")
NAME = re.compile(r"`(test_\w+|benchmarks\.\w+)`")


def rows() -> list[list[str]]:
    table = TRUST.read_text().partition("## Attacks\n")[2].partition("\n## ")[0]
    lines = [line for line in table.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def functions() -> frozenset[str]:
    return frozenset(
        each.name
        for file in Path("tests").rglob("test_*.py")
        for each in ast.walk(ast.parse(file.read_text(), str(file)))
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
    )


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0][:60])
def test_each_attack_has_four_cells_and_names_a_test(row: list[str]) -> None:
    assert len(row) == 4
    assert all(row)
    assert any(name.startswith("test_") for name in NAME.findall(row[3]))


def test_tests_and_benchmarks_of_attacks_exist() -> None:
    named = {name for row in rows() for name in NAME.findall(row[3])}
    files = {f"benchmarks.{file.stem}" for file in Path("benchmarks").glob("*.py")}
    assert len(named) > 50
    assert not named - functions() - files
