"""A module with all that its `module-config.yaml` refers to: manifest, default Module CR, commit of its sources."""

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from kube_runtime import KubernetesObject
from kyma_module_manager.exceptions import DeclarationError
from kyma_module_manager.project.kinds import kind_violations
from kyma_module_manager.project.modulectl.config import FILE, ModulectlConfig, config_problems, is_url, read_config
from kyma_module_manager.project.reading import FOLDER, MAX_FILE_BYTES, objects_in, text_of
from kyma_oci import machine_trust

TIMEOUT_SECONDS = 60
SUFFIXES = (".yaml", ".yml", ".json")
CRD = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")


@dataclass(frozen=True)
class NamedText:
    """A file as it was read, and where it is on this machine; a downloaded one is nowhere."""

    name: str
    text: str
    path: Path | None


@dataclass(frozen=True)
class ModulectlModule:
    """A module of modulectl. Nothing of its manifest is changed."""

    config: ModulectlConfig
    manifest: NamedText
    objects: tuple[KubernetesObject, ...]
    default: NamedText | None = None
    default_cr: Mapping[str, Any] | None = None
    warnings: tuple[str, ...] = ()

    @property
    def crds(self) -> tuple[Mapping[str, Any], ...]:
        """All CRDs of the manifest."""
        return tuple(each.document for each in self.objects if (each.api_version, each.kind) == CRD)

    @property
    def module_crds(self) -> tuple[Mapping[str, Any], ...]:
        """The CRDs of the Module CR: of the default's kind or, without a default, all."""
        kind = _kind_of(self.default_cr) if self.default_cr is not None else None
        return tuple(
            each for each in self.crds if kind in {None, (each["spec"]["group"], each["spec"]["names"]["kind"])}
        )

    @property
    def is_cluster_scoped(self) -> bool:
        """Whether the default Module CR is of a kind without namespaces."""
        return self.default_cr is not None and any(it["spec"].get("scope") == "Cluster" for it in self.module_crds)


def config_file(path: Path) -> Path | None:
    """Return the `module-config.yaml` that a path means: itself or, in a folder that is no project, the one in it."""
    if path.is_file():
        return path
    return path / FILE if not (path / FOLDER).is_dir() and (path / FILE).exists() else None


def read_module(file: Path) -> ModulectlModule:
    """Read a module. Raises DeclarationError, with everything that is wrong in the config."""
    config = read_config(file)
    if problems := [*config_problems(config)]:
        raise DeclarationError("\n".join(f"{file}: {each}" for each in problems))
    manifest = _referred(config.manifest, file, f"{config.module}.yaml")
    objects, warnings = objects_in(manifest.text, manifest.name)
    if not objects:
        raise DeclarationError(f"{manifest.name} has no object")
    for each in objects:
        if (each.api_version, each.kind) == CRD and (
            problem := next(kind_violations(each.document, complete=True), "")
        ):
            raise DeclarationError(f"{manifest.name}: {each}: {problem}")
    if not config.default_cr:
        return ModulectlModule(config, manifest, objects, warnings=warnings)
    default = _referred(config.default_cr, file, "default-cr.yaml")
    default_crs, warned = objects_in(default.text, default.name)
    if len(default_crs) != 1:
        raise DeclarationError(f"{default.name} has {len(default_crs)} objects, expected the default Module CR alone")
    return ModulectlModule(config, manifest, objects, default, default_crs[0].document, (*warnings, *warned))


def commit_of(directory: Path) -> str:
    """Return the commit that a Git repository is at. Raises DeclarationError."""
    command = ["git", "-C", str(directory), "rev-parse", "--verify", "HEAD"]
    try:
        done = subprocess.run(  # noqa: S603 - with a path of whoever runs this
            command, capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DeclarationError(f"git can't be run, for the commit of the module's sources: {error}") from None
    if done.returncode:
        raise DeclarationError(
            f"{directory} is no Git repository with a commit, which the component names as its sources: "
            f"{done.stderr.strip()}; give it by --module-sources-git-directory"
        )
    return done.stdout.strip()


def _referred(reference: str, config: Path, name: str) -> NamedText:
    """Read a file that the config refers to. Raises DeclarationError."""
    if is_url(reference):
        base = urlsplit(reference).path.rpartition("/")[2]
        return NamedText(base if base.endswith(SUFFIXES) else name, _downloaded(reference), None)
    path = config.parent / reference
    if path.is_dir():
        raise DeclarationError(
            f"{path} is a folder: render it into one file, such as kubectl kustomize {path} > {name}"
        )
    return NamedText(path.name, text_of(path), path.absolute())


def _downloaded(link: str) -> str:
    request = Request(link, headers={"Accept-Encoding": "identity"})  # noqa: S310 - the config has https alone
    try:
        with urlopen(request, timeout=TIMEOUT_SECONDS, context=machine_trust()) as response:  # noqa: S310
            if not response.url.startswith("https://"):
                raise DeclarationError(f"{link} leads to {response.url}, which is not https")
            content: bytes = response.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise DeclarationError(f"{link} has more than {MAX_FILE_BYTES} bytes")
        return content.decode()
    except (OSError, HTTPException, ValueError) as error:
        raise DeclarationError(f"{link} can't be downloaded: {error}") from None


def _kind_of(document: Mapping[str, Any]) -> tuple[str, str]:
    return str(document.get("apiVersion")).partition("/")[0], str(document.get("kind"))
