"""Packages that import a module when the first of its names is used, so that a command is listed at once.

What such a package offers is said in its stub, which type checkers read: `from MODULE import NAME as NAME`.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any


def lazy(package: str, file: str) -> tuple[Callable[[str], Any], list[str]]:
    """Return the `__getattr__` of the package with this `__init__.py`, and all names that it offers."""
    modules = _offered(f"{file}i")

    def attribute(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(modules[name]), name)

    return attribute, [*modules]


def _offered(stub: str) -> dict[str, str]:
    """Return the names in a stub, each with its module."""
    found, module = dict[str, str](), ""
    with open(stub, encoding="utf-8") as lines:  # noqa: PTH123 - to import pathlib takes longer than all else here
        for line in lines:
            words = line.split()
            if words[:1] == ["from"]:
                module, words = words[1], words[3:]
            if words[1:2] == ["as"]:
                found |= dict.fromkeys(words[::3], module)
    return found
