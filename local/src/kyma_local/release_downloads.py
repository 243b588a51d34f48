"""Downloads the official releases of the binaries over HTTPS, and verifies their checksums."""

import hashlib
import platform
import sys
import tarfile
from pathlib import Path

import httpx

from kyma_local.progress import Listener
from kyma_local.sources import SourceFailed, Versions, install

KUBERNETES_RELEASES = "https://dl.k8s.io/release"
ETCD_RELEASES = "https://github.com/etcd-io/etcd/releases/download"
MACHINES = {"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
CONNECT_SECONDS = 4.0
READ_SECONDS = 60.0


def download_releases(
    target: Path,
    wanted: Versions,
    listener: Listener,
    *,
    kubernetes_releases: str = KUBERNETES_RELEASES,
    etcd_releases: str = ETCD_RELEASES,
) -> None:
    """Download the binaries into a folder. Raises SourceFailed."""
    machine = MACHINES.get(platform.machine())
    if sys.platform != "linux" or machine is None:
        raise SourceFailed(f"no official server binaries for {sys.platform} on {platform.machine()}")
    limits = httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS)
    with httpx.Client(timeout=limits, follow_redirects=True) as client:
        downloads = _Downloads(client, target.parent, listener)
        for name in ("kube-apiserver", "kube-controller-manager"):
            url = f"{kubernetes_releases}/{wanted.kubernetes}/bin/linux/{machine}/{name}"
            install(downloads.verified(url, downloads.text(f"{url}.sha256").split()[0]), target)
        folder = f"etcd-{wanted.etcd}-linux-{machine}"
        sums = _checksums(downloads.text(f"{etcd_releases}/{wanted.etcd}/SHA256SUMS"))
        archive = f"{folder}.tar.gz"
        packed = downloads.verified(f"{etcd_releases}/{wanted.etcd}/{archive}", sums.get(archive, ""))
        install(_unpacked(packed, f"{folder}/etcd"), target)


class _Downloads:
    """Downloads into a scratch folder."""

    def __init__(self, client: httpx.Client, scratch: Path, listener: Listener) -> None:
        self._client = client
        self._scratch = scratch
        self._listener = listener

    def text(self, url: str) -> str:
        """Return a small text. Raises SourceFailed."""
        try:
            answer = self._client.get(url).raise_for_status()
        except httpx.HTTPError as error:
            raise SourceFailed(f"{url}: {error or type(error).__name__}") from None
        if not answer.text.strip():
            raise SourceFailed(f"{url} is empty")
        return answer.text

    def verified(self, url: str, expected: str) -> Path:
        """Download a file and check its SHA-256. Raises SourceFailed."""
        name = url.rpartition("/")[2]
        self._listener.doing(f"downloading {name}")
        digest = hashlib.sha256()
        path = self._scratch / name
        try:
            with self._client.stream("GET", url) as answer, path.open("wb") as file:
                total = int(answer.raise_for_status().headers.get("Content-Length", 0))
                for chunk in answer.iter_bytes():
                    digest.update(chunk)
                    file.write(chunk)
                    self._listener.done(file.tell(), total)
        except httpx.HTTPError as error:
            raise SourceFailed(f"{url}: {error or type(error).__name__}") from None
        if digest.hexdigest() != expected:
            raise SourceFailed(f"{url}: SHA-256 is {digest.hexdigest()}, expected {expected or 'none'}")
        return path


def _checksums(text: str) -> dict[str, str]:
    """Return digests by file name, from the output of sha256sum."""
    return {
        name.lstrip("*"): digest for digest, _, name in (line.strip().partition("  ") for line in text.splitlines())
    }


def _unpacked(archive: Path, member: str) -> Path:
    """Extract one file of an archive next to it. Raises SourceFailed."""
    path = archive.with_name(member.rpartition("/")[2])
    try:
        with tarfile.open(archive) as tar:
            content = tar.extractfile(member)
            if content is None:
                raise SourceFailed(f"{member} in {archive.name} is not a regular file")
            path.write_bytes(content.read())
    except (KeyError, tarfile.TarError) as error:
        raise SourceFailed(f"{archive.name}: {error}") from None
    return path
