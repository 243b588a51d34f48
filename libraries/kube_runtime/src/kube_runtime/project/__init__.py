"""New projects: the files of a template folder, with their placeholders replaced.

The files there end in `.template`, so that no tool takes them for code of the distribution. `template` is an operator.
"""

import importlib.util
import re
import sys
from collections.abc import Iterator, Mapping
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath
from types import ModuleType

__all__ = ["bounds_of", "load_file", "render_project", "write_files"]

PLACEHOLDER = re.compile(r"@@(\w+)@@")


def bounds_of(release: str) -> str:
    """Return the bounds of a requirement: the release that made a project, and what is compatible with it."""
    major, minor = release.split(".")[:2]
    return f">={release},<{major}.{int(minor) + 1}"


def load_file(file: Path) -> ModuleType:
    """Import a Python file, which may import what is beside it. Raises ImportError, and what the file raises."""
    name = f"file_{file.stem}"  # not the name alone: operator.py would hide a module of Python
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is no Python file")
    if (folder := str(file.resolve().parent)) not in sys.path:
        sys.path.insert(0, folder)  # as Python does for a script
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where msgspec and the descriptions find the classes
    spec.loader.exec_module(module)
    return module


def render_project(template: Traversable, values: Mapping[str, str]) -> dict[str, str]:
    """Return the files of a template by their paths, in which `__name__` stands for a value, too."""
    rendered = dict[str, str]()
    for path, text in _files(template, PurePosixPath()):
        place = re.sub(r"__(\w+?)__", lambda match: values.get(match[1], match[0]), str(path))
        rendered[place.removesuffix(".template")] = PLACEHOLDER.sub(lambda match: values[match[1]], text)
    return rendered


def write_files(directory: Path, texts: Mapping[str, str]) -> tuple[Path, ...]:
    """Write files into a folder, and return them.

    Raises FileExistsError, before anything is written, if the folder is not empty.
    """
    if directory.exists() and any(directory.iterdir()):
        raise FileExistsError(f"{directory} is not empty")
    for path, text in texts.items():
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_text(text)
    return tuple(directory / path for path in texts)


def _files(folder: Traversable, path: PurePosixPath) -> Iterator[tuple[PurePosixPath, str]]:
    for entry in sorted(folder.iterdir(), key=lambda each: each.name):
        if entry.is_dir():
            if entry.name != "__pycache__":
                yield from _files(entry, path / entry.name)
        else:
            yield path / entry.name, entry.read_text()
