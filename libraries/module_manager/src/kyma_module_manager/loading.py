"""Imports the manager that the command line names as `package.module:object`."""

import importlib
import sys
import traceback
from pathlib import Path
from typing import Any

from kyma_module_manager.declaration import ModuleManager
from kyma_module_manager.exceptions import DeclarationError


def load_manager(target: str, directory: Path | None = None) -> ModuleManager[Any]:
    """Import a manager, also from a project's folder, by default the current one. Raises DeclarationError."""
    module_name, separator, attribute = target.partition(":")
    if not separator or not module_name or not attribute:
        raise DeclarationError(f"invalid manager {target!r}: expected package.module:object")
    project = directory or Path.cwd()
    for folder in (project, project / "src"):
        if folder.is_dir() and str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
    try:
        module = importlib.import_module(module_name)
    except DeclarationError:
        raise
    except Exception as error:  # whatever the manager's own code raises
        raise DeclarationError(f"cannot import {module_name}: {_described(error, module_name)}") from error
    found = getattr(module, attribute, None)
    if not isinstance(found, ModuleManager):
        raise DeclarationError(f"{target} is not a module manager; decorate the function with @module_manager(...)")
    return found


def _described(error: Exception, module_name: str) -> str:
    """Return an error with the last place in the manager's code that led to it."""
    if isinstance(error, ImportError | SyntaxError):
        return str(error)
    package, place = module_name.partition(".")[0], ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        if str(frame.f_globals.get("__name__")).partition(".")[0] == package:
            place = f" ({frame.f_code.co_filename}, line {line})"
    return f"{type(error).__name__}: {error}{place}"
