"""Descriptions for `kubectl explain`: the docstrings of the types, and the strings below their fields.

They are read from the source, so that code, editors and kubectl show the same text. Without a source, as in a prompt,
there are none.
"""

import ast
import inspect
import textwrap
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise

import msgspec


class Undocumented(Exception):
    """A field has no description below it."""


@cache
def field_texts(kind: type[msgspec.Struct]) -> Mapping[str, str]:
    """Return the descriptions of all fields of a type, inherited ones included, by their names in Python."""
    texts: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        if issubclass(each, msgspec.Struct) and each.__module__ != msgspec.Struct.__module__:
            texts |= dict(_texts_in(each))
    return texts


def field_text(kind: type[msgspec.Struct], field: str) -> str:
    """Return the description of one field. Raises Undocumented."""
    try:
        return field_texts(kind)[field]
    except KeyError:
        raise Undocumented(f"{kind.__name__}.{field} has no description below it") from None


def class_text(kind: type[msgspec.Struct]) -> str:
    """Return the description of a type."""
    return _one_line(kind.__doc__ or "")  # its own, not that of a base class


def _texts_in(kind: type[msgspec.Struct]) -> Iterator[tuple[str, str]]:
    try:
        source = inspect.getsource(kind)
    except (OSError, TypeError):  # TypeError for a class of a module that has no file
        return
    body = _class_in(source).body
    for field, text in pairwise(body):
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str):
            yield field.target.id, _one_line(text.value.value)


def _class_in(source: str) -> ast.ClassDef:
    statement = ast.parse(textwrap.dedent(source)).body[0]
    if not isinstance(statement, ast.ClassDef):
        raise TypeError(f"the source of {source[:80]!r} does not start with a class")
    return statement


def _one_line(text: str) -> str:
    return " ".join(text.split())
