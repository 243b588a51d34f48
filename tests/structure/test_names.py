"""Names of tests: a fact that fits on a line of a report."""

import ast
from pathlib import Path

MAX_NAME_LENGTH = 80


def test_names_of_tests_have_at_most_eighty_characters() -> None:
    names = {
        each.name: str(file)
        for file in Path("tests").rglob("test_*.py")
        for each in ast.walk(ast.parse(file.read_text(), str(file)))
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and each.name.startswith("test_")
    }
    assert {name: file for name, file in names.items() if len(name) > MAX_NAME_LENGTH} == {}
