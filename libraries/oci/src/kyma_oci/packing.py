"""Writes component versions of the Open Component Model, in its layout for OCI registries.

Repository `<path>/component-descriptors/<component>`, the version as tag; layer 0 is a tar with
`component-descriptor.yaml`, and each local blob a further layer, to which the descriptor refers by its digest.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from kyma_oci.archives import archive_of
from kyma_oci.descriptor import TAR, Json
from kyma_oci.references import COMPONENT_DESCRIPTORS, content_digest

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
CONFIG = "application/vnd.ocm.software.component.config.v1+json"
DESCRIPTOR = "application/vnd.ocm.software.component-descriptor.v2+yaml+tar"
BLOB_DIGEST, ARTIFACT_DIGEST = "genericBlobDigest/v1", "ociArtifactDigest/v1"
DESCRIPTOR_FILE = "component-descriptor.yaml"


@dataclass(frozen=True)
class Blob:
    """Content with its media type, addressed by its digest."""

    content: bytes
    media_type: str

    @property
    def digest(self) -> str:
        """SHA-256 of the content, in the notation of registries."""
        return content_digest(self.content)

    def descriptor(self) -> dict[str, Any]:
        """Return the reference to this blob for a manifest."""
        return {"mediaType": self.media_type, "digest": self.digest, "size": len(self.content)}


class ArtifactPart(msgspec.Struct, rename="camel"):
    """What a manifest or an index refers to."""

    media_type: str = ""
    artifact_type: str = ""
    digest: str = ""
    annotations: dict[str, str] | None = None


class ArtifactManifest(msgspec.Struct):
    """A manifest, or an index of manifests."""

    layers: list[ArtifactPart] = []
    manifests: list[ArtifactPart] | None = None


def repository_of(component: str, path: str = "") -> str:
    """Return the repository of a component below a path of its registry."""
    return "/".join(filter(None, (path, COMPONENT_DESCRIPTORS, component)))


def tag_of(version: str) -> str:
    """Return the tag of a version: `.build-` replaces the `+` that no tag may have."""
    return version.replace("+", ".build-")


def context_of(base_url: str) -> Json:
    """Return the repository context of components below a registry's address."""
    return {"type": "OCIRegistry", "baseUrl": base_url, "componentNameMapping": "urlPath"}


def provider_text(provider: str | Json) -> str:
    """Return a provider as the schema v2 has it: its name, or JSON with name and labels."""
    return provider if isinstance(provider, str) else msgspec.json.encode(provider).decode()


def resource_of(name: str, version: str, blob: Blob, *, kind: str = "directoryTree") -> Json:
    """Return the resource of a descriptor whose content is a layer of the same artifact."""
    return {
        "name": name,
        "version": version,
        "type": kind,
        "relation": "local",
        "access": {"type": "localBlob", "localReference": blob.digest, "mediaType": blob.media_type},
        "digest": digest_of(BLOB_DIGEST, blob.digest.removeprefix("sha256:")),
    }


def digest_of(algorithm: str, value: str) -> Json:
    """Return the digest of a resource: of a blob or of an artifact."""
    return {"hashAlgorithm": "SHA-256", "normalisationAlgorithm": algorithm, "value": value}


def file_layer(name: str, text: str) -> Blob:
    """Return a layer with one file."""
    return Blob(archive_of(name, text), TAR)


def descriptor_layer(text: str) -> Blob:
    """Return the layer that holds a descriptor, given as YAML."""
    return Blob(archive_of(DESCRIPTOR_FILE, text), DESCRIPTOR)


def config_of(descriptor: Blob) -> Blob:
    """Return the config of a component version, which names the layer with the descriptor."""
    return Blob(msgspec.json.encode({"componentDescriptorLayer": descriptor.descriptor()}), CONFIG)


def manifest_of(config: Blob, layers: Iterable[Blob]) -> Blob:
    """Return the manifest of an artifact."""
    document = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": config.descriptor(),
        "layers": [layer.descriptor() for layer in layers],
    }
    return Blob(msgspec.json.encode(document), MANIFEST)
