"""New projects: the files of a template folder, with their placeholders replaced.

The files there end in `.template`, so that no tool takes them for code of the distribution. `template` is an operator.
"""

import re
from collections.abc import Iterator, Mapping
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath

__all__ = ["bounds_of", "write_project"]

PLACEHOLDER = re.compile(r"@@(\w+)@@")


def bounds_of(release: str) -> str:
    """Return the bounds of a requirement: the release that made a project, and what is compatible with it."""
    major, minor = release.split(".")[:2]
    return f">={release},<{major}.{int(minor) + 1}"


def write_project(template: Traversable, directory: Path, values: Mapping[str, str]) -> tuple[Path, ...]:
    """Write the files of a template, and return them; in paths `__name__` stands for a value, too.

    Raises FileExistsError, before anything is written, if the folder is not empty.
    """
    if directory.exists() and any(directory.iterdir()):
        raise FileExistsError(f"{directory} is not empty")
    written: list[Path] = []
    for path, text in _files(template, PurePosixPath()):
        place = re.sub(r"__(\w+?)__", lambda match: values.get(match[1], match[0]), str(path))
        target = directory / place.removesuffix(".template")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(PLACEHOLDER.sub(lambda match: values[match[1]], text))
        written.append(target)
    return tuple(written)


def _files(folder: Traversable, path: PurePosixPath) -> Iterator[tuple[PurePosixPath, str]]:
    for entry in sorted(folder.iterdir(), key=lambda each: each.name):
        if entry.is_dir():
            if entry.name != "__pycache__":
                yield from _files(entry, path / entry.name)
        else:
            yield path / entry.name, entry.read_text()
