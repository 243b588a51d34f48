"""Builds the binaries from the Go modules of Kubernetes and etcd, for machines without access to the release servers.

The go.mod of Kubernetes requires v0.0.0 of its own libraries and replaces them by folders, although they are published.
So a generated module requires Kubernetes and replaces each library by its published version.
"""

from pathlib import Path

from kyma_local.go_modules import GoModule, download, find_go
from kyma_local.progress import Listener
from kyma_local.sources import Versions, install

VERSION_PACKAGE = "k8s.io/component-base/version"
ETCD_MODULE = "go.etcd.io/etcd/server/v3"
KUBERNETES_MODULE = "k8s.io/kubernetes"
KUBERNETES_PACKAGES = (f"{KUBERNETES_MODULE}/cmd/kube-apiserver", f"{KUBERNETES_MODULE}/cmd/kube-controller-manager")


def build_from_modules(target: Path, wanted: Versions, listener: Listener) -> None:
    """Build the binaries into a folder. Raises SourceFailed."""
    scratch = target.parent
    go = find_go(scratch, listener)
    etcd = GoModule(go, scratch / "etcd", ETCD_MODULE, wanted.etcd, (ETCD_MODULE,))
    listener.doing(f"etcd {wanted.etcd}: downloading its Go modules")
    etcd.prepare()
    listener.doing(f"etcd {wanted.etcd}: building, once")
    built = etcd.build("", listener.done)
    install(built[0].rename(built[0].with_name("etcd")), target)

    kubernetes = GoModule(go, scratch / "kubernetes", KUBERNETES_MODULE, wanted.kubernetes, KUBERNETES_PACKAGES)
    listener.doing(f"Kubernetes {wanted.kubernetes}: downloading its Go modules")
    kubernetes.prepare(staging_libraries(go, scratch, wanted.kubernetes))
    listener.doing(f"Kubernetes {wanted.kubernetes}: building, some minutes, once")
    stamp = f"-s -w -X {VERSION_PACKAGE}.gitVersion={wanted.kubernetes}"  # kubectl needs the version
    for program in kubernetes.build(stamp, listener.done):
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
