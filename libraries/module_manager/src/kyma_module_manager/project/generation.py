"""Writes a new module project from the template folder, with the placeholders of every file replaced."""

from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

from kube_crds import CustomResource, crd_of
from kube_runtime import dump_yaml
from kube_runtime.project import bounds_of, load_file, render_project, write_files
from kyma_module_manager.exceptions import DeclarationError
from kyma_module_manager.project.command_name import module_command
from kyma_module_manager.project.names import ModuleNames

CRD = "module/crd.yaml"
GENERATED = "# Generated from the class "
"""The first words of a CRD that `klm module update` may replace; without them it is somebody's own."""


def generate_project(names: ModuleNames, directory: Path, *, enable_module_config: bool = False) -> tuple[Path, ...]:
    """Write the project of a module into a folder and return its files.

    `enable_module_config` is the field of that name in its ModuleTemplate. Raises DeclarationError, before anything is
    written, if the folder is not empty.
    """
    texts = rendered_project(names, enable_module_config=enable_module_config)
    try:
        written = write_files(directory, texts)
    except OSError as error:
        raise DeclarationError(f"{error}; choose another folder with --dir") from None
    module_cr = load_file(directory / "src" / names.package / "module_cr.py")
    kind: type[CustomResource] = getattr(module_cr, names.kind)
    (directory / CRD).write_text(crd_text(kind))
    return (*written, directory / CRD)


def rendered_project(names: ModuleNames, *, enable_module_config: bool = False) -> dict[str, str]:
    """Return the files of a module's project as the template has them, but for the CRD."""
    values = names.as_mapping() | {
        "command": module_command(),
        "enable_module_config": str(enable_module_config).lower(),
        "sdk_bounds": bounds_of(version("kyma-module-manager")),
    }
    return render_project(files("kyma_module_manager.project") / "template", values)


def crd_text(kind: type[CustomResource]) -> str:
    """Return the file with the CRD of a Module CR."""
    return f"{GENERATED}{kind.__name__} by klm module update.\n{dump_yaml(crd_of(kind))}"
