"""The generated files of the Go module."""

from collections.abc import Iterator, Mapping
from inspect import getsourcelines
from pathlib import Path

import msgspec
from msgspec import inspect

from libraries.api.generate_go.constants import constants_text
from libraries.api.generate_go.deep_copies import deep_copies_text
from libraries.api.generate_go.model import enum_name, enums_in, structs_in
from libraries.api.generate_go.types import (
    HEADER,
    Structs,
    comment_lines,
    file_text,
    group_version_text,
    package_text,
    types_text,
)
from lifecycle_manager_api import names
from lifecycle_manager_api.crds import KINDS
from lifecycle_manager_api.kinds import ApiObject

GO_MODULE = Path("libraries/api/go")


def generated_files() -> Mapping[Path, str]:
    """Return the text of every generated file by its path."""
    versions = sorted({kind.VERSION for kind in KINDS})
    files = {path: text for version in versions for path, text in _version(version)}
    about = comment_lines("Package names contains the labels, annotations, finalizers, conditions and namespaces.")
    constants = "\n".join([HEADER, *about, "package names", "", constants_text()])
    return files | {GO_MODULE / "names" / "names.go": constants}


def _version(version: str) -> Iterator[tuple[Path, str]]:
    """Return paths and texts of a package: one file for each kind, and one for what several kinds have."""
    folder = GO_MODULE / version
    kinds = [kind for kind in KINDS if version == kind.VERSION]
    structs = list(dict.fromkeys(each for kind in kinds for each in structs_in(inspect.type_info(kind))))
    enums = {enum_name(each): each for struct in structs for each in enums_in(struct)}
    modules = {kind.__module__ for kind in kinds}
    common = [each for each in structs if each.__module__ not in modules]
    yield folder / "doc.go", package_text(names.GROUP, version)
    yield folder / "groupversion_info.go", file_text(version, group_version_text(names.GROUP, version, kinds))
    yield folder / "common_types.go", file_text(version, types_text(common, enums.values()))
    for kind in kinds:
        own = sorted(_of_module(kind, structs), key=lambda struct: getsourcelines(struct)[1])
        yield folder / f"{kind.KIND.lower()}_types.go", file_text(version, types_text([kind, *own], ()))
    yield folder / "zz_generated.deepcopy.go", file_text(version, deep_copies_text(structs))


def _of_module(kind: type[ApiObject], structs: Structs) -> list[type[msgspec.Struct]]:
    return [each for each in structs if each.__module__ == kind.__module__ and each is not kind]
