"""The component that a signed descriptor vouches for: what is installed, from its normal form and nothing else.

Where a resource is (`access`) is not signed, since it changes from registry to registry. So layers and images are
fetched by the digests that are signed, wherever the descriptor says that they are. An image takes the place of the one
in the objects with the same name and tag: these are the name and the version of its resource, as modulectl writes them,
since those are signed and a reference is not.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from kyma_oci.descriptor import (
    CONFIG,
    OCI_REGISTRY_CRED,
    RAW_MANIFEST,
    Component,
    DescriptorUnreadable,
    Json,
    credentials_of,
    location_of,
)
from kyma_oci.packing import ARTIFACT_DIGEST, BLOB_DIGEST
from kyma_oci.references import is_digest
from kyma_oci.signatures.normal_form import NONE_ACCESS, Unverified, normal_form

INSTALLED = frozenset({RAW_MANIFEST, CONFIG})
TREES = frozenset({"directoryTree", "dirTree"})
"""Types of resources whose layer is a tar."""
_NO_SEMANTIC_VERSION = "0.0.0-"
"""What precedes a tag in the version of a resource where the tag is no semantic version."""


class _Resource(NamedTuple):
    """A resource: what is signed of it, and the document with the rest."""

    signed: Json
    document: Json

    @property
    def name(self) -> str:
        return str(self.signed["name"])

    @property
    def kind_of_digest(self) -> str:
        return str(self.signed.get("digest", {}).get("normalisationAlgorithm", ""))

    @property
    def access(self) -> Json:
        found = self.document.get("access")
        return found if isinstance(found, dict) else {}


def signed_component(descriptor: bytes) -> Component:
    """Return the component of a descriptor of the schema v2, given as JSON.

    Raises Unverified where something that is installed has no digest, or another one than it is fetched by.
    """
    signed: Json = msgspec.json.decode(normal_form(descriptor))["component"]
    document: Json = msgspec.json.decode(descriptor)["component"]
    resources = [_Resource(*each) for each in zip(signed["resources"], document.get("resources") or (), strict=True)]
    layers = [each for each in resources if each.name in INSTALLED]
    try:
        repository, path = location_of(document, signed["name"])
        return Component(
            signed["name"],
            signed["version"],
            repository,
            path,
            layers=_by_name(layers),
            credentials={each.name: labels for each in layers if (labels := _credentials(each)) is not None},
            images=tuple(dict.fromkeys(_images(each for each in resources if each.name not in INSTALLED))),
            archives=frozenset(each.name for each in layers if each.signed["type"] in TREES),
        )
    except DescriptorUnreadable as error:
        raise Unverified(str(error)) from None


def _by_name(layers: Iterable[_Resource]) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in layers:
        if each.name in found:
            raise Unverified(f"there are two resources {each.name!r}")
        fetched = each.access.get("localReference") or each.access.get("digest")
        found[each.name] = _digest(each, BLOB_DIGEST)
        if found[each.name] != fetched:
            raise Unverified(f"resource {each.name!r} has another digest than its layer {str(fetched)[:80]!r}")
    return found


def _credentials(resource: _Resource) -> Any:
    present = resource.document.get("labels") or ()
    if any(each.get("name") == OCI_REGISTRY_CRED and not each.get("signing") for each in present):
        raise Unverified(f"the label {OCI_REGISTRY_CRED} on resource {resource.name!r} is not signed: set its signing")
    return credentials_of(resource.signed)


def _images(resources: Iterable[_Resource]) -> Iterator[str]:
    for each in resources:
        reference = each.access.get("imageReference")
        if not reference and each.kind_of_digest != ARTIFACT_DIGEST:
            continue
        digest = _digest(each, ARTIFACT_DIGEST)
        if not isinstance(reference, str) or not reference:
            raise Unverified(f"resource {each.name!r} is an image, and its access has no imageReference")
        yield _named(each, reference, digest)


def _digest(resource: _Resource, kind: str) -> str:
    if resource.access.get("type") in NONE_ACCESS:
        raise Unverified(f"resource {resource.name!r} has the access type none, so its digest is not signed")
    found: Json = resource.signed.get("digest") or {}
    digest = f"sha256:{found.get('value')}"
    if (found.get("hashAlgorithm"), found.get("normalisationAlgorithm")) != ("SHA-256", kind) or not is_digest(digest):
        raise Unverified(f"resource {resource.name!r} has no digest; expected SHA-256 of {kind}")
    return digest


def _named(resource: _Resource, image: str, digest: str) -> str:
    """Return an image by its signed digest, in the repository of its reference."""
    reference, _, present = image.partition("@")
    if present and present != digest:
        raise Unverified(f"resource {resource.name!r} has another digest than its image {image[:200]!r}")
    name, tag = _name_and_tag(resource, digest)
    last, signed = reference.rpartition("/")[2], f"{name}:{tag}" if tag else name
    if last not in {name, signed} or not (present or tag):
        raise Unverified(
            f"resource {resource.name!r} is the image {image[:200]!r}, and its name and version, which are signed, say "
            f"{signed!r}: give it the name and the tag of the image"
        )
    return f"{reference.removesuffix(last)}{signed}@{digest}"


def _name_and_tag(resource: _Resource, digest: str) -> tuple[str, str]:
    """Return name and tag of an image by the name and version of its resource, as modulectl makes these of it."""
    name, version, value = resource.name, str(resource.signed["version"]), digest.removeprefix("sha256:")
    with_digest = f"-{value[:8]}", f"+sha256.{value[:12]}"
    if name.endswith(with_digest[0]) and version.endswith(with_digest[1]):
        name, version = name.removesuffix(with_digest[0]), version.removesuffix(with_digest[1])
        version = "" if version == "0.0.0" else version
    return name, version.removeprefix(_NO_SEMANTIC_VERSION)
