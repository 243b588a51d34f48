"""What the tests define; they are parsed once for all rules about names."""

import ast
from functools import cache
from pathlib import Path
from typing import NamedTuple


class Definition(NamedTuple):
    file: str
    name: str
    is_class: bool


@cache
def definitions() -> tuple[Definition, ...]:
    """Return the classes and functions of the tests and of what they use."""
    return tuple(
        Definition(str(file), each.name, isinstance(each, ast.ClassDef))
        for file in sorted(Path("tests").rglob("*.py"))
        for each in ast.walk(ast.parse(file.read_text(), str(file)))
        if isinstance(each, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    )
