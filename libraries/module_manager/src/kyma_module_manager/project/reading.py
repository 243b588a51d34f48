"""Reads a module's project from disk: its YAML documents, and its manager."""

import os
import stat
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kube_crds import CustomResource
from kube_runtime import ManifestInvalid, parse_objects
from kyma_module_manager.declaration import ModuleManager
from kyma_module_manager.exceptions import DeclarationError
from kyma_module_manager.loading import load_manager

__all__ = ["ModuleProject", "kind_of", "read_project"]

Document = dict[str, Any]
FOLDER = "module"
MAX_FILE_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True)
class ModuleProject:
    """The YAML documents of the `module` folder, and the manager that pyproject.toml names."""

    directory: Path
    documents: tuple[Document, ...]
    manager: ModuleManager[Any] | None

    def of_kind(self, kind: str) -> tuple[Document, ...]:
        """Return every document of a kind."""
        return tuple(each for each in self.documents if each.get("kind") == kind)

    def module_crs(self) -> Iterator[tuple[str, Document]]:
        """Yield the Module CRs of the project, each with its place for messages."""
        for template in self.of_kind("ModuleTemplate"):
            if isinstance(data := template.get("spec", {}).get("data"), dict):
                yield "the ModuleTemplate's default", data
        kinds = {crd["spec"]["names"]["kind"] for crd in self.of_kind("CustomResourceDefinition")}
        for document in self.documents:
            if document.get("kind") in kinds:
                yield "the example", document


def read_project(directory: Path) -> ModuleProject:
    """Read a project. Raises DeclarationError if the folder is not a module project or cannot be read."""
    folder = directory / FOLDER
    if not folder.is_dir():
        raise DeclarationError(f"{directory} is not a module project: it has no folder {FOLDER}")
    documents = tuple(document for path in sorted(folder.glob("*.yaml")) for document in _documents(path))
    return ModuleProject(directory, documents, _manager(directory))


def kind_of(project: ModuleProject) -> type[CustomResource] | None:
    """Return the class of the Module CR where the CRD is generated from it: one of kube_crds."""
    declared: Any = project.manager.crd if project.manager is not None else None
    return declared if isinstance(declared, type) and issubclass(declared, CustomResource) else None


def _documents(path: Path) -> Iterator[Document]:
    try:
        for parsed in parse_objects(_text(path)):
            yield dict(parsed.document)
    except ManifestInvalid as error:
        raise DeclarationError(f"{path}: {error}") from error


def _text(path: Path) -> str:
    """Return the text of a file. Raises DeclarationError, at once also for what is no file, such as a FIFO."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise DeclarationError(f"{path} is not a regular file")
            content = file.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise DeclarationError(f"{path} has more than {MAX_FILE_BYTES} bytes")
        return content.decode()
    except OSError as error:
        raise DeclarationError(f"{path} can't be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise DeclarationError(f"{path} is not UTF-8: {error.reason} at byte {error.start}") from None


def _manager(directory: Path) -> ModuleManager[Any] | None:
    path = directory / "pyproject.toml"
    if not path.exists():
        return None
    try:
        settings = tomllib.loads(_text(path))
    except tomllib.TOMLDecodeError as error:
        raise DeclarationError(f"{path}: {error}") from error
    target = settings.get("tool", {}).get("kyma-module", {}).get("manager")
    return load_manager(target, directory) if target else None
