"""Packages that import a module when the first of its names is used, so that a command is listed at once."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package that offers names of its modules; those of each are separated by spaces."""
    module_of = {name: module for module, names in modules.items() for name in names.split()}

    def attribute(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{module_of[name]}"), name)

    return attribute
