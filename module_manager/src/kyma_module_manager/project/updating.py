"""`klm module update`: brings the CRD of a project to the class of its Module CR."""

from dataclasses import dataclass
from pathlib import Path

from kyma_module_manager.exceptions import DeclarationError
from kyma_module_manager.project.generation import CRD, crd_text
from kyma_module_manager.project.reading import kind_of, read_project
from kyma_module_manager.project.writing import check_target, replace_file

__all__ = ["CrdUpdate", "crd_update_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CrdUpdate:
    """The file with the CRD as it is, and as it would be generated."""

    file: Path
    before: str
    after: str

    def write(self) -> None:
        """Write the file. Raises DeclarationError where that would be through a link."""
        check_target(self.file, [self.file.parent])
        replace_file(self.file, self.after)


def crd_update_of(directory: Path) -> CrdUpdate | None:
    """Return what changes in a project; None where nothing does. Raises DeclarationError."""
    kind = kind_of(read_project(directory))
    if kind is None:
        raise DeclarationError(f"{directory}: the manager's Module CR is no class of kube_crds, which has a CRD")
    file = directory / CRD
    before, after = file.read_text() if file.is_file() else "", crd_text(kind)
    return CrdUpdate(file=file, before=before, after=after) if before != after else None
