"""Writes a new module project from the template folder, with the placeholders of every file replaced.

The files there end in `.template`, so that no tool takes them for code of this distribution.
"""

import re
from collections.abc import Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath

from kyma_module_manager.exceptions import DeclarationError
from kyma_module_manager.project.names import ModuleNames

__all__ = ["generate_project"]

PLACEHOLDER = re.compile(r"@@(\w+)@@")


def generate_project(names: ModuleNames, directory: Path, *, enable_module_config: bool = False) -> tuple[Path, ...]:
    """Write the project of a module into a folder and return its files.

    `enable_module_config` is the field of that name in its ModuleTemplate. Raises DeclarationError, before anything is
    written, if the folder is not empty.
    """
    if directory.exists() and any(directory.iterdir()):
        raise DeclarationError(f"{directory} is not empty; choose another folder with --dir")
    values = names.as_mapping() | {"enable_module_config": str(enable_module_config).lower()}
    written: list[Path] = []
    for path, text in _template_files(files("kyma_module_manager.project") / "template", PurePosixPath()):
        target = directory / str(path).replace("__package__", names.package).removesuffix(".template")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(_substituted(text, values))
        written.append(target)
    return tuple(written)


def _template_files(folder: Traversable, path: PurePosixPath) -> Iterator[tuple[PurePosixPath, str]]:
    for entry in sorted(folder.iterdir(), key=lambda each: each.name):
        if entry.is_dir():
            if entry.name != "__pycache__":
                yield from _template_files(entry, path / entry.name)
        else:
            yield path / entry.name, entry.read_text()


def _substituted(text: str, values: Mapping[str, str]) -> str:
    return PLACEHOLDER.sub(lambda match: values[match[1]], text)
