"""Writes a new module project from the template folder, with the placeholders of every file replaced."""

from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

from kube_runtime.project import bounds_of, write_project
from kyma_module_manager.exceptions import DeclarationError
from kyma_module_manager.project.names import ModuleNames

__all__ = ["generate_project"]


def generate_project(names: ModuleNames, directory: Path, *, enable_module_config: bool = False) -> tuple[Path, ...]:
    """Write the project of a module into a folder and return its files.

    `enable_module_config` is the field of that name in its ModuleTemplate. Raises DeclarationError, before anything is
    written, if the folder is not empty.
    """
    values = names.as_mapping() | {
        "enable_module_config": str(enable_module_config).lower(),
        "sdk_bounds": bounds_of(version("kyma-module-manager")),
    }
    try:
        return write_project(files("kyma_module_manager.project") / "template", directory, values)
    except FileExistsError as error:
        raise DeclarationError(f"{error}; choose another folder with --dir") from None
