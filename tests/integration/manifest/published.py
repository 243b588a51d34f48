"""Operators of others, as their Go modules bring them along: a bundle, a chart, a folder of definitions.

Each version is fetched by name and has to have the checksum that is written here, as a go.sum has it.
"""

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from kyma_local.go_modules import find_go, run
from kyma_local.helm import find_helm
from kyma_local.progress import Listener
from lifecycle_manager_api import names


class OtherContent(Exception):
    """What came is not what was locked."""


@dataclass(frozen=True)
class Version:
    """A version of a Go module, and the checksum of its content."""

    module: str
    version: str
    checksum: str

    def fetch(self) -> Path:
        """Return the folder of its files. Raises SourceFailed where it can't be had, and OtherContent."""
        with tempfile.TemporaryDirectory() as scratch:
            go = find_go(Path(scratch), Listener())
            answer = run([go, "mod", "download", "-json", f"{self.module}@{self.version}"], Path(scratch))
        fetched = msgspec.json.decode(answer)
        if fetched["Sum"] != self.checksum:
            raise OtherContent(f"{self.module}@{self.version} has the checksum {fetched['Sum']}, not {self.checksum}")
        return Path(fetched["Dir"])


@dataclass(frozen=True)
class Operator:
    """Two versions of an operator, and one of its objects that is in both: group, kind, namespace and name."""

    name: str
    old: tuple[Version, Callable[[Path], str]]
    new: tuple[Version, Callable[[Path], str]]
    manager: tuple[str, str, str, str]
    objects: int

    def texts(self) -> tuple[str, str]:
        """Return the objects of both versions as YAML. Raises SourceFailed and OtherContent."""
        old, new = (read(version.fetch()) for version, read in (self.old, self.new))
        return old, new

    def __str__(self) -> str:
        return self.name


def _bundle(folder: Path) -> str:
    return (folder / "bundle.yaml").read_text()


def _examples(folder: Path) -> str:
    """Return what the bundle is made of, with its monitors and its admission webhook."""
    folders = ("prometheus-operator-crd", "rbac/prometheus-operator", "admission-webhook")
    files = [file for each in folders for file in sorted((folder / "example" / each).glob("*.yaml"))]
    return "\n---\n".join(file.read_text() for file in files)


def _standard_definitions(folder: Path) -> str:
    files = sorted((folder / "config/crd/standard").glob("gateway.networking.k8s.io_*.yaml"))
    return "\n---\n".join(file.read_text() for file in files)


def _chart(folder: Path) -> str:
    """Return what Helm makes of the chart, definitions and all."""
    with tempfile.TemporaryDirectory() as scratch:
        chart = shutil.copytree(folder / "deploy/charts/cert-manager", Path(scratch) / "chart")
        chart.chmod(0o755)
        if (template := chart / "Chart.template.yaml").exists():  # which a release fills in
            template.rename(chart / "Chart.yaml")
        options = ["--namespace", names.SKR_NAMESPACE, "--set", "crds.enabled=true,startupapicheck.enabled=false"]
        return run([str(find_helm()), "template", "cert-manager", str(chart), *options], Path(scratch))


_PROMETHEUS = Version(
    "github.com/prometheus-operator/prometheus-operator", "v0.85.0", "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s="
)
_CERT_MANAGER = "github.com/cert-manager/cert-manager"
_GATEWAY_API = "sigs.k8s.io/gateway-api"
OPERATORS = (
    Operator(
        "prometheus-operator",
        (_PROMETHEUS, _bundle),
        (_PROMETHEUS, _examples),
        ("", "ServiceAccount", "default", "prometheus-operator"),
        15,
    ),
    Operator(
        "cert-manager",
        (Version(_CERT_MANAGER, "v1.20.2", "h1:CimnY00nLqB2lmxhoSuEC4GDMFDK7JCXqyjwMM9ndIQ="), _chart),
        (Version(_CERT_MANAGER, "v1.21.2", "h1:UWgoYM+KLNtRlqmoWOKjKBOBUPVHeepQ6/ac3ERJW68="), _chart),
        ("", "ServiceAccount", names.SKR_NAMESPACE, "cert-manager"),
        40,
    ),
    Operator(
        "gateway-api",
        (Version(_GATEWAY_API, "v1.6.0", "h1:735YBRj5NXFrOGX0GoSjwzUIzbz8kiEOfADsqHFmHgE="), _standard_definitions),
        (Version(_GATEWAY_API, "v1.6.3", "h1:lKpJa5bGlraC/QeACvCpsHLdmO6y0iKfzVl6gzaFEYc="), _standard_definitions),
        ("apiextensions.k8s.io", "CustomResourceDefinition", "", "httproutes.gateway.networking.k8s.io"),
        10,
    ),
)
