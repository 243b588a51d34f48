"""The content that a signed descriptor vouches for: by the digests of its resources, not by where they are.

Where a resource is (`access`) is not signed, since it changes from registry to registry. So what is fetched has to have
the digest that is signed: layers are named by it already, and images by name and tag get it added.
"""

from typing import Any

import msgspec

from kyma_oci.descriptor import CONFIG, RAW_MANIFEST, Json
from kyma_oci.problems import UNREADABLE
from kyma_oci.references import is_digest
from kyma_oci.signatures.normal_form import NONE_ACCESS
from kyma_oci.signatures.problems import Unverified

INSTALLED = frozenset({RAW_MANIFEST, CONFIG})
BLOB, ARTIFACT = "genericBlobDigest/v1", "ociArtifactDigest/v1"


def pinned(descriptor: msgspec.Raw) -> msgspec.Raw:
    """Return a descriptor of the schema v2 with every image named by its signed digest.

    Raises Unverified where something that is installed has no digest, or another one than it is fetched by.
    """
    try:
        document = msgspec.json.decode(descriptor, type=Json)
        component = document["component"]
        resources = [_pinned(each) for each in component.get("resources") or ()]
    except (*UNREADABLE, KeyError, AttributeError, TypeError) as error:
        raise Unverified(f"the descriptor is unreadable; it needs the schema v2: {error}") from None
    return msgspec.Raw(msgspec.json.encode({**document, "component": {**component, "resources": resources}}))


def _pinned(resource: Json) -> Json:
    access: Json = resource.get("access") or {}
    image, name = access.get("imageReference"), resource.get("name")
    if name not in INSTALLED and not image:
        return resource
    if access.get("type") in NONE_ACCESS:
        raise Unverified(f"resource {name!r} has the access type none, so its digest is not signed")
    if name in INSTALLED:
        fetched = access.get("localReference") or access.get("digest")
        if _digest(resource, BLOB) != fetched:
            raise Unverified(f"resource {name!r} has another digest than its layer {str(fetched)[:80]!r}")
    if not image:
        return resource
    return resource | {"access": access | {"imageReference": _named(image, _digest(resource, ARTIFACT), name)}}


def _digest(resource: Json, kind: str) -> str:
    found: Any = resource.get("digest") or {}
    digest = f"sha256:{found.get('value')}"
    if (found.get("hashAlgorithm"), found.get("normalisationAlgorithm")) != ("SHA-256", kind) or not is_digest(digest):
        raise Unverified(f"resource {resource.get('name')!r} has no digest; expected SHA-256 of {kind}")
    return digest


def _named(image: str, digest: str, name: object) -> str:
    reference, _, present = image.partition("@")
    if present and present != digest:
        raise Unverified(f"resource {name!r} has another digest than its image {image[:200]!r}")
    return f"{reference}@{digest}"
