"""Signatures of an artifact by cosign: who vouches for the digest of a manifest, or of an image index.

They are beside the artifact, in an artifact of their own with a tag that is made of the digest. Each of its layers is a
text that names the digest, signed by ECDSA or RSA; the signature is an annotation of the layer.
"""

from base64 import b64decode
from collections.abc import Collection
from datetime import datetime
from typing import NamedTuple

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA256

from kyma_oci.problems import UNREADABLE
from kyma_oci.references import is_digest
from kyma_oci.signatures.keys import TrustedKey
from kyma_oci.signatures.normal_form import Unverified

PAYLOAD_TYPE = "application/vnd.dev.cosign.simplesigning.v1+json"
SIGNATURE = "dev.cosignproject.cosign/signature"
CLAIM_TYPE = "cosign container image signature"
MAX_SIGNATURES = 16


class Cosigned(NamedTuple):
    """A text that was signed, and its signature."""

    payload: bytes
    signature: bytes


class _Layer(msgspec.Struct, rename="camel"):
    media_type: str = ""
    digest: str = ""
    annotations: dict[str, str] = {}


class _Manifest(msgspec.Struct):
    layers: list[_Layer] = []


class _Image(msgspec.Struct, rename="kebab"):
    docker_manifest_digest: str = ""


class _Critical(msgspec.Struct):
    image: _Image
    type: str = ""


class _Claim(msgspec.Struct):
    critical: _Critical


def signature_tag(digest: str) -> str:
    """Return the tag of the artifact with the signatures of a digest."""
    return f"{digest.replace(':', '-')}.sig"


def layers_in(manifest: bytes) -> tuple[tuple[str, bytes], ...]:
    """Return the digests of the signed texts in an artifact with signatures, each with its signature.

    Raises Unverified.
    """
    try:
        layers = msgspec.json.decode(manifest, type=_Manifest).layers
        signed = [each for each in layers if each.media_type == PAYLOAD_TYPE and is_digest(each.digest)]
        found = tuple((each.digest, b64decode(each.annotations.get(SIGNATURE, ""), validate=True)) for each in signed)
    except (*UNREADABLE, ValueError) as error:
        raise Unverified(f"the manifest of cosign's signatures is unreadable: {error}") from None
    if len(found) > MAX_SIGNATURES:
        raise Unverified(f"there are more than {MAX_SIGNATURES} signatures by cosign")
    return found


def verify_cosigned(digest: str, signed: Collection[Cosigned], keys: Collection[TrustedKey], now: datetime) -> None:
    """Return where one of the signatures is by a trusted key, and for this digest. Raises Unverified."""
    problem = Unverified(f"no signature of {digest} by cosign is by any of the trusted keys")
    for each in signed:
        for key in keys:
            if not _is_by(key, each):
                continue
            try:
                key.check(now)
                return _check_claim(each.payload, digest)
            except Unverified as found:
                problem = found
    raise problem


def _is_by(key: TrustedKey, signed: Cosigned) -> bool:
    try:
        if isinstance(key.public, RSAPublicKey):
            key.public.verify(signed.signature, signed.payload, PKCS1v15(), SHA256())
        else:
            key.public.verify(signed.signature, signed.payload, ECDSA(SHA256()))
    except InvalidSignature:
        return False
    return True


def _check_claim(payload: bytes, digest: str) -> None:
    try:
        claim = msgspec.json.decode(payload, type=_Claim).critical
    except UNREADABLE as error:
        raise Unverified(f"what cosign signed is unreadable: {error}") from None
    if (claim.type, claim.image.docker_manifest_digest) != (CLAIM_TYPE, digest):
        raise Unverified(f"cosign signed {claim.image.docker_manifest_digest[:80]!r}, not {digest}")
