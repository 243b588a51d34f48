"""`klm module update`: brings a project to the template of this SDK, and its CRD to the class of its Module CR.

The code of a team is never touched. Files of the template that nobody changed are replaced; one that somebody changed
is left as it is and named, unless it is to be overwritten. RECORD has what was generated, to tell the two apart.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path, PurePath

import msgspec

from kube_runtime.project import bounds_of
from kyma_module_manager.exceptions import DeclarationError
from kyma_module_manager.project.generated import CRD, RECORD, crd_text, digest_of, owned_by_template, record_text
from kyma_module_manager.project.generation import rendered_project
from kyma_module_manager.project.names import ModuleNames
from kyma_module_manager.project.reading import ModuleProject, kind_of, read_project
from kyma_module_manager.project.writing import check_target, replace_file

__all__ = ["FileUpdate", "apply_updates", "updates_of"]

REQUIREMENT = re.compile(r"""(["'])(kyma-module-manager(?:\[[\w,-]+\])?)[<>=!~][^"']*\1""")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileUpdate:
    """A file that is not as this SDK would generate it. One that somebody changed is `kept`."""

    path: str
    before: str
    after: str
    kept: bool = False


def updates_of(directory: Path, *, overwrite: Collection[str] = ()) -> tuple[FileUpdate, ...]:
    """Return what would change in a project. Raises DeclarationError."""
    return tuple(each for each in _all(directory, frozenset(overwrite)) if each.before != each.after)


def apply_updates(directory: Path, updates: Collection[FileUpdate]) -> None:
    """Write the files that are not kept, and the record. Raises DeclarationError before anything is written."""
    record, written = _record(directory), [each for each in updates if not each.kept]
    for path in (RECORD, *(each.path for each in written)):
        check_target(directory / path, [directory / each for each in PurePath(path).parents[:-1]])
    for each in written:
        replace_file(directory / each.path, each.after)
        if owned_by_template(each.path):
            record[each.path] = digest_of(each.after)
    replace_file(directory / RECORD, record_text(record))


def _all(directory: Path, overwrite: frozenset[str]) -> Iterator[FileUpdate]:
    project = read_project(directory)
    record = _record(directory)
    for path, after in rendered_project(_names_of(project)).items():
        if owned_by_template(path):
            before = _text(directory / path)
            is_own = bool(before) and record.get(path) != digest_of(before) and path not in overwrite
            yield FileUpdate(path=path, before=before, after=after, kept=is_own)
    requirements = _text(directory / "pyproject.toml")
    bounds = bounds_of(version("kyma-module-manager"))
    yield FileUpdate(
        path="pyproject.toml", before=requirements, after=REQUIREMENT.sub(rf"\1\2{bounds}\1", requirements)
    )
    kind = kind_of(project)
    if kind is not None:
        yield FileUpdate(path=CRD, before=_text(directory / CRD), after=crd_text(kind))


def _names_of(project: ModuleProject) -> ModuleNames:
    try:
        (template,), (crd,) = project.of_kind("ModuleTemplate"), project.of_kind("CustomResourceDefinition")
        module, spec = template["spec"]["moduleName"], crd["spec"]
        return ModuleNames.of(module, kind=spec["names"]["kind"], group=spec["group"])
    except (KeyError, TypeError, ValueError):
        raise DeclarationError(
            "the folder module needs one ModuleTemplate and one CRD; run kyma-module-manager module validate"
        ) from None


def _record(directory: Path) -> dict[str, str]:
    try:
        return msgspec.json.decode(_text(directory / RECORD) or "{}", type=dict[str, str])
    except msgspec.DecodeError as error:
        raise DeclarationError(f"{directory / RECORD}: {error}; remove it to have no file overwritten") from None


def _text(path: Path) -> str:
    return path.read_text() if path.is_file() else ""
