"""Writes labels, annotations, finalizers, conditions and namespaces as constants of Go."""

import ast
import inspect
from collections.abc import Iterator
from itertools import pairwise

from libraries.api.generate_go.model import go_name
from libraries.api.generate_go.types import comment_lines
from lifecycle_manager_api import names


def constants_text() -> str:
    """Return all names, in the order and with the descriptions of the module `names`."""
    runs: list[list[tuple[str, str, str]]] = []
    texts = dict(_texts())
    for name, value in vars(names).items():
        if name.isupper():
            constant = (go_name(name), f'"{value}"', texts.get(name, ""))
            if constant[2] or not runs or runs[-1][-1][2]:
                runs.append([])
            runs[-1].append(constant)
    return "const (\n" + "\n\n".join("\n".join(_run(run)) for run in runs) + "\n)\n"


def _run(run: list[tuple[str, str, str]]) -> Iterator[str]:
    """Return one constant with its description, or several that gofmt aligns."""
    yield from comment_lines(run[0][2], "\t")
    width = max(len(name) for name, _, _ in run)
    yield from (f"\t{name.ljust(width)} = {value}" for name, value, _ in run)


def _texts() -> Iterator[tuple[str, str]]:
    for statement, text in pairwise(ast.parse(inspect.getsource(names)).body):
        if (
            isinstance(statement, ast.Assign)
            and isinstance(statement.targets[0], ast.Name)
            and isinstance(text, ast.Expr)
            and isinstance(text.value, ast.Constant)
        ):
            yield statement.targets[0].id, " ".join(str(text.value.value).split())
