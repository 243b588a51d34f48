"""The source that a Manifest names: a layer in an OCI registry, or a link."""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgspec

from kyma_oci import Layer, SourceInvalid, host_of, layer_in


@dataclass(frozen=True, slots=True)
class HttpsLink:
    """A file that is fetched over HTTPS, and refused with another digest."""

    url: str
    digest: str

    def __str__(self) -> str:
        return self.url


Source = Layer | HttpsLink
DIGEST = re.compile("sha256:[0-9a-f]{64}")
MAX_REMEMBERED = 1_000
"""How many sources are remembered: thousands of Manifests name the same one."""


def source_in(raw: msgspec.Raw) -> Source:
    """Return the source that a Manifest names. Raises SourceInvalid."""
    return _source_in(bytes(raw))


@lru_cache(MAX_REMEMBERED)
def _source_in(text: bytes) -> Source:
    try:
        fields: Any = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SourceInvalid(f"spec.install.source is not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise SourceInvalid("spec.install.source is not an object")
    if isinstance(fields.get("url"), str):
        return _link(fields["url"], fields.get("digest"))
    try:
        return _layer(msgspec.convert(fields, _Location))
    except msgspec.ValidationError as error:
        raise SourceInvalid(f"spec.install.source: {error}") from None


def _link(url: str, digest: object) -> HttpsLink:
    if not host_of(url, "https"):
        raise SourceInvalid(f"spec.install.source.url {url!r} is not an https URL")
    if not isinstance(digest, str) or not DIGEST.fullmatch(digest):
        raise SourceInvalid("spec.install.source.digest is not the digest of the file behind the url, sha256:...")
    return HttpsLink(url, digest)


class _Location(msgspec.Struct, frozen=True):
    repo: str = ""
    name: str = ""
    ref: str = ""
    type: str = ""


def _layer(image: _Location) -> Layer:
    if image.type not in {"oci-ref", "oci-dir"}:  # a layer says itself whether it is packed
        raise SourceInvalid(f"spec.install.source.type {image.type!r} is not supported; use oci-ref")
    return layer_in(image.repo, image.name, image.ref, "spec.install.source")
