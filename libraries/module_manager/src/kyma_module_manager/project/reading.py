"""Reads a module's project from disk: its YAML documents, and its manager.

All objects of the folder `module` are installed in the users' clusters, but for those that the control plane gets, the
rights of Lifecycle Manager, and examples of the Module CR. What is not read is named with a reason.
"""

import os
import stat
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kube_crds import CustomResource
from kube_runtime import KubernetesObject, ManifestInvalid, parse_manifest
from kyma_module_manager.declaration import ModuleManager
from kyma_module_manager.exceptions import DeclarationError
from kyma_module_manager.loading import load_manager
from kyma_oci.archives import holds_objects
from lifecycle_manager_api import ModuleTemplate, names

Document = dict[str, Any]
FOLDER = "module"
RIGHTS = "skr-role.yaml"
MAX_FILE_BYTES = 16 * 1024 * 1024
_OF_KCP = frozenset({"ModuleTemplate", "ModuleReleaseMeta", "ModulePolicy"})
_KUSTOMIZE = "kustomize.config.k8s.io/"
_RENDER = "render it into one file: kubectl kustomize FOLDER > module/manifest.yaml"


@dataclass(frozen=True)
class ModuleProject:
    """The YAML documents of the `module` folder, each with its file, and the manager that pyproject.toml names.

    `left_out` is what the folder holds and nobody can install, each with the reason.
    """

    directory: Path
    documents: tuple[Document, ...]
    files: tuple[str, ...]
    manager: ModuleManager[Any] | None
    left_out: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def of_kind(self, kind: str) -> tuple[Document, ...]:
        """Return every document of a kind."""
        return tuple(each for each in self.documents if each.get("kind") == kind)

    def objects(self) -> tuple[Document, ...]:
        """Return the objects that install the module."""
        return tuple(document for document, _, role in self._roles() if not role)

    def others(self) -> Iterator[str]:
        """Yield the documents that do not install the module, each with what it is for."""
        for document, file, role in self._roles():
            if role:
                yield f"{FOLDER}/{file}: {document['kind']} {document['metadata']['name']}: {role}"

    def rights(self) -> tuple[Document, ...]:
        """Return the roles that allow Lifecycle Manager to apply the module."""
        return tuple(each for each, file in zip(self.documents, self.files, strict=True) if file == RIGHTS)

    def module_crs(self) -> Iterator[tuple[str, Document]]:
        """Yield the Module CRs of the project, each with its place for messages."""
        for template in self.of_kind(ModuleTemplate.KIND):
            if isinstance(data := template.get("spec", {}).get("data"), dict):
                yield "the ModuleTemplate's default", data
        kinds = self._module_kinds()
        for document in self.documents:
            if _kind_in(document) in kinds:
                yield "the example", document

    def module_crds(self) -> tuple[Document, ...]:
        """Return the CRDs of the Module CR: of the default's kind or, without a default, all."""
        kinds = self._module_kinds()
        return tuple(each for each in self.of_kind("CustomResourceDefinition") if _kind_of_crd(each) in kinds)

    def _module_kinds(self) -> frozenset[tuple[str, str]]:
        defaults = [template.get("spec", {}).get("data") for template in self.of_kind(ModuleTemplate.KIND)]
        kinds = frozenset(_kind_in(each) for each in defaults if isinstance(each, dict))
        return kinds or frozenset(map(_kind_of_crd, self.of_kind("CustomResourceDefinition")))

    def _roles(self) -> Iterator[tuple[Document, str, str]]:
        """Yield each document with its file, and what it is for where it is not installed."""
        kinds = self._module_kinds()
        for document, file in zip(self.documents, self.files, strict=True):
            if _kind_in(document)[0] == ModuleTemplate.GROUP and document["kind"] in _OF_KCP:
                yield document, file, "for the control plane"
            elif file == RIGHTS:
                yield document, file, "the rights of Lifecycle Manager, which operators apply"
            elif _kind_in(document) in kinds:
                yield document, file, "an example of the Module CR, which belongs to the user"
            else:
                yield document, file, ""


def read_project(directory: Path) -> ModuleProject:
    """Read a project. Raises DeclarationError if the folder is not a module project or cannot be read."""
    folder = directory / FOLDER
    if not folder.is_dir():
        raise DeclarationError(
            f"{directory} is not a module project: it has neither a folder {FOLDER} nor a file module-config.yaml"
        )
    found: list[tuple[str, KubernetesObject]] = []
    left_out: list[str] = []
    warnings: list[str] = []
    for path in sorted(folder.iterdir()):
        if holds_objects(path):
            objects, warned = objects_in(text_of(path), path)
            found += [(path.name, each) for each in objects]
            warnings += warned
        elif path.is_dir():
            left_out.append(f"{FOLDER}/{path.name}: folders are not read; {_RENDER}")
        elif path.suffix != ".md" and not path.name.startswith("."):
            left_out.append(f"{FOLDER}/{path.name} is not read: expected .yaml, .yml or .json")
    kept = [each for each in found if not each[1].api_version.startswith(_KUSTOMIZE)]
    left_out += [
        f"{FOLDER}/{file}: {each.kind} is no object; {_RENDER}" for file, each in found if (file, each) not in kept
    ]
    left_out += twice([(f"{FOLDER}/{file}", each) for file, each in kept])
    return ModuleProject(
        directory,
        tuple(dict(each.document) for _, each in kept),
        tuple(file for file, _ in kept),
        _manager(directory),
        tuple(left_out),
        tuple(warnings),
    )


def objects_in(text: str, where: object) -> tuple[tuple[KubernetesObject, ...], tuple[str, ...]]:
    """Return the objects in a text, and warnings. Raises DeclarationError with the place of the text."""
    try:
        objects, warnings = parse_manifest(text)
    except ManifestInvalid as error:
        raise DeclarationError(f"{where}: {error}") from error
    return objects, tuple(f"{where}: {each}" for each in warnings)


def twice(objects: Iterable[tuple[str, KubernetesObject]]) -> Iterator[str]:
    """Yield the objects that stand there again, each with its place; the first one counts."""
    known: dict[tuple[str, ...], str] = {}
    for where, each in objects:
        key = (each.api_version.rpartition("/")[0], each.kind, each.namespace or names.SKR_NAMESPACE, each.name)
        if key in known:
            yield f"{where}: {each} stands in {known[key]} already"
        known.setdefault(key, where)


def kind_of(project: ModuleProject) -> type[CustomResource] | None:
    """Return the class of the Module CR where the CRD is generated from it: one of kube_crds."""
    declared: Any = project.manager.crd if project.manager is not None else None
    return declared if isinstance(declared, type) and issubclass(declared, CustomResource) else None


def _kind_in(document: Document) -> tuple[str, str]:
    return str(document.get("apiVersion")).rpartition("/")[0], str(document.get("kind"))


def _kind_of_crd(crd: Document) -> tuple[str, str]:
    return crd["spec"]["group"], crd["spec"]["names"]["kind"]


def text_of(path: Path) -> str:
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
        settings = tomllib.loads(text_of(path))
    except tomllib.TOMLDecodeError as error:
        raise DeclarationError(f"{path}: {error}") from error
    target: Any = settings
    for key in ("tool", "kyma-module", "manager"):
        target = target.get(key, {}) if isinstance(target, dict) else None
    if target and not isinstance(target, str):
        raise DeclarationError(f"{path}: tool.kyma-module.manager is no text such as package.module:object")
    return load_manager(target, directory) if target else None
