"""Builds the binaries from the Go modules of Kubernetes and etcd, for machines without access to the release servers.

The go.mod of Kubernetes requires v0.0.0 of its own libraries and replaces them by folders, although they are published.
So a generated module requires Kubernetes and replaces each library by its published version.
"""

from collections.abc import Sequence
from pathlib import Path

from kyma_local.go_modules import GoModule, download, find_go
from kyma_local.progress import Listener
from kyma_local.sources import Versions, install

VERSION_PACKAGE = "k8s.io/component-base/version"
ETCD_MODULE = "go.etcd.io/etcd/server/v3"
KUBERNETES_MODULE = "k8s.io/kubernetes"


def build_from_modules(target: Path, wanted: Versions, listener: Listener) -> None:
    """Build the binaries into a folder. Raises SourceFailed."""
    scratch = target.parent
    go = find_go(scratch, listener)
    etcd = GoModule(go, scratch / "etcd", {ETCD_MODULE: wanted.etcd}, (ETCD_MODULE,))
    listener.doing(f"etcd {wanted.etcd}: downloading its Go modules")
    etcd.prepare()
    listener.doing(f"etcd {wanted.etcd}: building, once")
    built = etcd.build("", listener.done)
    install(built[0].rename(built[0].with_name("etcd")), target)

    build_kubernetes(target, ("kube-apiserver", "kube-controller-manager"), wanted.kubernetes, listener)


def build_kubernetes(target: Path, programs: Sequence[str], version: str, listener: Listener) -> None:
    """Build programs of Kubernetes into a folder. Raises SourceFailed."""
    scratch = target.parent
    go = find_go(scratch, listener)
    packages = tuple(f"{KUBERNETES_MODULE}/cmd/{name}" for name in programs)
    module = GoModule(go, scratch / "kubernetes", {KUBERNETES_MODULE: version}, packages)
    listener.doing(f"Kubernetes {version}: downloading its Go modules")
    module.prepare(staging_libraries(go, scratch, version))
    listener.doing(f"Kubernetes {version}: building {', '.join(programs)}: some minutes, once")
    stamp = f"-s -w -X {VERSION_PACKAGE}.gitVersion={version}"  # kubectl needs the version
    for program in module.build(stamp, listener.done):
        install(program, target)


def staging_libraries(go: str, scratch: Path, version: str) -> dict[str, str]:
    """Return the libraries published with Kubernetes and their versions: v0.N.P for v1.N.P."""
    text = (download(go, KUBERNETES_MODULE, version, scratch) / "go.mod").read_text()
    published = version.replace("v1.", "v0.", 1)
    return {
        line.split()[0]: published
        for line in text.splitlines()
        if line.strip().endswith(" v0.0.0") and "=>" not in line
    }
