"""The fields of `module-config.yaml`, and what modulectl requires of them."""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from kube_runtime import ManifestInvalid, load_yaml
from kyma_module_manager.exceptions import DeclarationError
from kyma_module_manager.project.names import MAX_LABEL_LENGTH
from kyma_module_manager.project.reading import text_of
from lifecycle_manager_api import InvalidVersion, Version

FILE = "module-config.yaml"
_COMPONENT = re.compile(r"[a-z][-a-z0-9]*(\.[a-z][-a-z0-9]*)*\.[a-z]{2,}(/[a-z][-a-z0-9_]*(\.[a-z][-a-z0-9_]*)*)+")
_NAMESPACE = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_MAX_NAME_LENGTH = 255


class ModulectlLink(msgspec.Struct, frozen=True):
    """A name and where it leads."""

    name: str = ""
    link: str = ""


Links = dict[str, str] | list[ModulectlLink]


class ModulectlKind(msgspec.Struct, frozen=True):
    """A kind that the module has."""

    group: str = ""
    version: str = ""
    kind: str = ""


class ModulectlManager(ModulectlKind, frozen=True):
    """The object that says whether the module is installed."""

    name: str = ""
    namespace: str = ""


class ModulectlConfig(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A `module-config.yaml`. `ignored` are its fields that modulectl does not read."""

    name: str = ""
    version: str = ""
    manifest: str = ""
    repository: str = ""
    team: str = ""
    documentation: str = ""
    icons: Links = {}
    default_cr: str = msgspec.field(default="", name="defaultCR")
    security: str = ""
    security_scan_enabled: bool = True
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    manager: ModulectlManager | None = None
    associated_resources: list[ModulectlKind] = []
    resources: Links = {}
    requires_downtime: bool = False
    internal: bool = False
    beta: bool = False
    ignored: tuple[str, ...] = ()
    mandatory: bool = False

    @property
    def module(self) -> str:
        """The name of the module: the end of its component's."""
        return self.name.rpartition("/")[2]


def read_config(path: Path) -> ModulectlConfig:
    """Read a `module-config.yaml`. Raises DeclarationError."""
    try:
        document = load_yaml(text_of(path))
    except ManifestInvalid as error:
        raise DeclarationError(f"{path}: {error}") from None
    if not isinstance(document, dict):
        raise DeclarationError(f"{path} is no mapping; expected the fields of modulectl's {FILE}")
    given = {str(key): value for key, value in document.items() if value is not None}
    known = {field.encode_name for field in msgspec.structs.fields(ModulectlConfig)} - {"ignored", "mandatory"}
    try:
        return msgspec.convert({**given, "ignored": [key for key in given if key not in known]}, ModulectlConfig)
    except msgspec.ValidationError as error:
        raise DeclarationError(f"{path}: {error}") from None


def by_name(links: Links) -> dict[str, str]:
    """Return links by their names, in order of these."""
    pairs = links.items() if isinstance(links, Mapping) else ((each.name, each.link) for each in links)
    return dict(sorted(pairs))


def is_url(reference: str) -> bool:
    """Tell whether a reference leads to another machine."""
    return bool(urlsplit(reference).scheme)


def _name_problems(config: ModulectlConfig) -> Iterator[str]:
    if not _COMPONENT.fullmatch(config.name) or len(config.name) > _MAX_NAME_LENGTH:
        yield f"name {config.name!r} is no component: expected such as kyma-project.io/module/keda"
    if len(config.module) > MAX_LABEL_LENGTH:
        yield f"name: {config.module!r} has {len(config.module)} characters: at most {MAX_LABEL_LENGTH} fit a label"


def config_problems(config: ModulectlConfig) -> Iterator[str]:
    """Yield what modulectl refuses in the fields."""
    yield from _name_problems(config)
    try:
        Version.parse(config.version)
    except InvalidVersion:
        yield f"version {config.version!r} is no semantic version such as 1.2.3"
    yield from _reference("manifest", config.manifest, required=True)
    yield from _reference("defaultCR", config.default_cr)
    for name, link in (("repository", config.repository), ("documentation", config.documentation)):
        yield from _link(name, link)
    if config.security_scan_enabled and not config.team:
        yield "team is missing; without one set securityScanEnabled: false"
    if not config.icons:
        yield "icons has no icon"
    for name, links in (("icons", config.icons), ("resources", config.resources)):
        if isinstance(links, list) and len(by_name(links)) < len(links):
            yield f"{name} has a name twice"
        for each, link in by_name(links).items():
            yield from _link(f"{name}: {each or 'a link without a name'}", link if each else "")
    yield from _incomplete("associatedResources", config.associated_resources)
    if config.manager is not None:
        yield from _manager(config.manager)


def _manager(manager: ModulectlManager) -> Iterator[str]:
    yield from _incomplete("manager", [manager])
    if not manager.name:
        yield "manager has no name"
    if manager.namespace and not _NAMESPACE.fullmatch(manager.namespace):
        yield f"manager.namespace {manager.namespace!r} is invalid"


def _reference(name: str, reference: str, *, required: bool = False) -> Iterator[str]:
    if not reference:
        if required:
            yield f"{name} is missing"
    elif is_url(reference):
        yield from _link(name, reference)
    elif reference.startswith("/"):
        yield f"{name} {reference!r} is absolute: expected https, or a path relative to the config"


def _link(name: str, link: str) -> Iterator[str]:
    parts = urlsplit(link)
    if parts.scheme != "https" or not parts.netloc:
        yield f"{name} is {link!r}: expected a link with https" if link else f"{name} is missing"


def _incomplete(name: str, kinds: Iterable[ModulectlKind]) -> Iterator[str]:
    for each in kinds:
        if lacking := [part for part in ("group", "version", "kind") if not getattr(each, part)]:
            yield f"{name} has an entry without {', '.join(lacking)}"


def as_group_version_kind(kind: ModulectlKind) -> dict[str, Any]:
    """Return a kind as ModuleTemplates have it."""
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}
