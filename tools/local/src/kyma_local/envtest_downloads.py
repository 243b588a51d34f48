"""Downloads the API server and etcd for macOS, of which there are no official releases: the archives of envtest.

They have no kube-controller-manager; that is built from its Go module. And they are not made for every patch of
Kubernetes: the newest of the same minor version is taken.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from kube_runtime import ManifestInvalid, load_yaml
from kyma_local.downloads import VerifiedDownloads, unpacked
from kyma_local.go_build import build_kubernetes
from kyma_local.platforms import Platform
from kyma_local.progress import Listener
from kyma_local.sources import SourceFailed, Versions, install

INDEX = "https://raw.githubusercontent.com/kubernetes-sigs/controller-tools/HEAD/envtest-releases.yaml"
VERSION = re.compile(r"v\d+\.\d+\.\d+")


class _File(msgspec.Struct, rename="camel"):
    hash: str
    self_link: str


class _Index(msgspec.Struct):
    releases: dict[str, dict[str, _File]]


class Archive(NamedTuple):
    """An archive of envtest: its version of Kubernetes, its address and its SHA-512."""

    version: str
    url: str
    digest: str


def download_envtest(target: Path, wanted: Versions, listener: Listener, *, platform: Platform) -> None:
    """Download the API server and etcd into a folder, and build kube-controller-manager. Raises SourceFailed."""
    with VerifiedDownloads.into(target.parent, listener) as downloads:
        archive = archive_for(downloads.text(INDEX), wanted.kubernetes, platform)
        packed = downloads.verified(archive.url, archive.digest, algorithm="sha512")
    for name in ("etcd", "kube-apiserver"):
        install(unpacked(packed, name), target)
    build_kubernetes(target, ("kube-controller-manager",), wanted.kubernetes, listener)


def archive_for(index: str, kubernetes: str, platform: Platform) -> Archive:
    """Return the archive of a minor version with the newest patch. Raises SourceFailed."""
    try:
        releases = msgspec.convert(load_yaml(index), _Index).releases
    except (msgspec.ValidationError, ManifestInvalid) as error:
        raise SourceFailed(f"{INDEX} is not an index of envtest: {error}") from None
    minor, _, _ = kubernetes.rpartition(".")
    found = list(_archives(releases, minor, platform))
    if not found:
        raise SourceFailed(f"{INDEX} has no archive of {minor} for {platform}")
    return max(found, key=lambda each: _numbers(each.version))


def _archives(releases: Mapping[str, Mapping[str, _File]], minor: str, platform: Platform) -> Iterator[Archive]:
    for version, files in releases.items():
        file = files.get(f"envtest-{version}-{platform}.tar.gz")
        if file is not None and VERSION.fullmatch(version) and version.startswith(f"{minor}."):
            yield Archive(version, file.self_link, file.hash)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.removeprefix("v").split(".")))
