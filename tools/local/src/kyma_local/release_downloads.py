"""Downloads the binaries of Linux: the official releases of Kubernetes and etcd."""

from pathlib import Path

from kyma_local.downloads import VerifiedDownloads, unpacked
from kyma_local.platforms import Platform
from kyma_local.progress import Listener
from kyma_local.sources import Versions, install

KUBERNETES_RELEASES = "https://dl.k8s.io/release"
ETCD_RELEASES = "https://github.com/etcd-io/etcd/releases/download"
MACHINES = ("amd64", "arm64", "ppc64le", "s390x")
"""The machines for which both have releases."""


def download_releases(target: Path, wanted: Versions, listener: Listener, *, platform: Platform) -> None:
    """Download the binaries into a folder. Raises SourceFailed."""
    with VerifiedDownloads.into(target.parent, listener) as downloads:
        for name in ("kube-apiserver", "kube-controller-manager"):
            install(download_kubernetes_program(name, wanted.kubernetes, downloads, platform=platform), target)
        archive = f"etcd-{wanted.etcd}-{platform}.tar.gz"
        sums = _checksums(downloads.text(f"{ETCD_RELEASES}/{wanted.etcd}/SHA256SUMS"))
        packed = downloads.verified(f"{ETCD_RELEASES}/{wanted.etcd}/{archive}", sums.get(archive, ""))
        install(unpacked(packed, "etcd"), target)


def download_kubernetes_program(name: str, version: str, downloads: VerifiedDownloads, *, platform: Platform) -> Path:
    """Download a program of Kubernetes. Raises SourceFailed."""
    url = f"{KUBERNETES_RELEASES}/{version}/bin/{platform.system}/{platform.machine}/{name}"
    return downloads.verified(url, downloads.text(f"{url}.sha256").split()[0])


def _checksums(text: str) -> dict[str, str]:
    """Return digests by file name, from the output of sha256sum."""
    return {
        name.lstrip("*"): digest for digest, _, name in (line.strip().partition("  ") for line in text.splitlines())
    }
