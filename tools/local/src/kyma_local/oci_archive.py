"""OCI archives: images as files, which every container engine and containerd can load."""

import hashlib
import io
import platform
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerArchive:
    """A layer: an uncompressed tar archive."""

    path: Path
    digest: str
    size: int

    @classmethod
    def of(cls, path: Path) -> "LayerArchive":
        """Return the layer of an archive."""
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return cls(path=path, digest=f"sha256:{digest}", size=path.stat().st_size)


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """An image that was written."""

    path: Path
    digest: str
    size: int


def write_image(
    path: Path, *, name: str, layers: Sequence[LayerArchive], config: dict[str, Any], created: str
) -> Image:
    """Write an image with its name for loading; `config` is what a container is started with."""
    machine = {"architecture": architecture(), "os": "linux", "created": created, "config": config}
    root = {"type": "layers", "diff_ids": [layer.digest for layer in layers]}
    settings = _encoded({**machine, "rootfs": root})
    manifest = _encoded(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": _descriptor(CONFIG, settings),
            "layers": [{"mediaType": LAYER, "digest": layer.digest, "size": layer.size} for layer in layers],
        }
    )
    annotations = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name.rpartition(":")[2]}
    described = {**_descriptor(MANIFEST, manifest), "annotations": annotations}
    index = _encoded({"schemaVersion": 2, "mediaType": INDEX, "manifests": [described]})
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
        _add(tar, "oci-layout", _encoded({"imageLayoutVersion": "1.0.0"}))
        _add(tar, "index.json", index)
        for content in (settings, manifest):
            _add(tar, _blob(_digest(content)), content)
        for layer in layers:
            entry = _entry(_blob(layer.digest), layer.size)
            with layer.path.open("rb") as file:
                tar.addfile(entry, file)
    return Image(path=path, digest=_digest(manifest), size=sum(layer.size for layer in layers))


def architecture() -> str:
    """Return the architecture of this machine as images name it."""
    machine = platform.machine()
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)


def _encoded(document: dict[str, Any]) -> bytes:
    return msgspec.json.encode(document, order="sorted")


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _descriptor(media_type: str, content: bytes) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": _digest(content), "size": len(content)}


def _blob(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def _entry(name: str, size: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = size, 0o644
    return entry


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    tar.addfile(_entry(name, len(content)), io.BytesIO(content))
