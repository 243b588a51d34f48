"""Builds the binaries from the Go modules of Kubernetes and etcd, for machines without access to the release servers.

The go.mod of Kubernetes requires v0.0.0 of its own libraries and replaces them by folders, although they are published.
So a generated module requires Kubernetes and replaces each library by its published version.
"""

from collections.abc import Sequence
from pathlib import Path

from kyma_local.go_modules import build_programs, download, find_go
from kyma_local.progress import Listener
from kyma_local.sources import Versions

VERSION_PACKAGE = "k8s.io/component-base/version"
ETCD_MODULE = "go.etcd.io/etcd/server/v3"
KUBERNETES_MODULE = "k8s.io/kubernetes"


def build_from_modules(target: Path, wanted: Versions, listener: Listener) -> None:
    """Build the binaries into a folder. Raises SourceFailed."""
    build_programs(target, f"etcd {wanted.etcd}", {ETCD_MODULE: wanted.etcd}, (ETCD_MODULE,), listener)
    (server,) = target.iterdir()
    server.rename(target / "etcd")
    build_kubernetes(target, ("kube-apiserver", "kube-controller-manager"), wanted.kubernetes, listener)


def build_kubernetes(target: Path, programs: Sequence[str], version: str, listener: Listener) -> None:
    """Build programs of Kubernetes into a folder. Raises SourceFailed."""
    go = find_go(target.parent, listener)
    build_programs(
        target,
        f"Kubernetes {version}",
        {KUBERNETES_MODULE: version},
        [f"{KUBERNETES_MODULE}/cmd/{name}" for name in programs],
        listener,
        ldflags=f"-s -w -X {VERSION_PACKAGE}.gitVersion={version}",  # kubectl needs the version
        replaced=staging_libraries(go, target.parent, version),
    )


def staging_libraries(go: str, scratch: Path, version: str) -> dict[str, str]:
    """Return the libraries published with Kubernetes and their versions: v0.N.P for v1.N.P."""
    text = (download(go, KUBERNETES_MODULE, version, scratch) / "go.mod").read_text()
    published = version.replace("v1.", "v0.", 1)
    return {
        line.split()[0]: published
        for line in text.splitlines()
        if line.strip().endswith(" v0.0.0") and "=>" not in line
    }
