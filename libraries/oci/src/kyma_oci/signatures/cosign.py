"""Signatures of an artifact by cosign: who vouches for the digest of a manifest, or of an image index.

They are beside the artifact. Since cosign 3 each is in a bundle, the layer of an artifact that refers to the signed
one, and signs a statement of in-toto in an envelope of DSSE. Before, all are in one artifact with a tag that is made
of the digest: each of its layers is a text that names the digest, the signature its annotation.
"""

from base64 import b64decode
from collections.abc import Collection
from contextlib import suppress
from datetime import datetime
from typing import NamedTuple

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA256, SHA384, SHA512

from kyma_oci.packing import ArtifactManifest
from kyma_oci.problems import UNREADABLE
from kyma_oci.references import is_digest
from kyma_oci.signatures.keys import TrustedKey
from kyma_oci.signatures.normal_form import Unverified

PAYLOAD_TYPE = "application/vnd.dev.cosign.simplesigning.v1+json"
SIGNATURE = "dev.cosignproject.cosign/signature"
CLAIM_TYPE = "cosign container image signature"
BUNDLE_TYPE = "application/vnd.dev.sigstore.bundle."
_BUNDLE_TYPES = (BUNDLE_TYPE, "application/vnd.oci.empty.v1+json")
"""In an index that cosign 3.0 itself keeps by a tag, the type of a bundle is that of its empty config."""
STATEMENT_TYPE = b"application/vnd.in-toto+json"
SIGNED_PREDICATE = "https://sigstore.dev/cosign/sign/v1"
"""Of a statement that is a signature; others, such as those of scanners, vouch for nothing."""
PREDICATE = "dev.sigstore.bundle.predicateType"
MAX_SIGNATURES = 16
_HASHES = {384: (SHA384(), SHA256()), 521: (SHA512(), SHA256())}
"""By the size of an ECDSA key: those of cosign since 3 and before. Any other key signs SHA-256."""
_DSSE = b"DSSEv1 "
_ODD = (*UNREADABLE, LookupError, TypeError, ValueError)
"""What reading JSON of another shape raises."""


class Cosigned(NamedTuple):
    """A text that was signed, and its signature. That of a bundle begins with the header of DSSE."""

    payload: bytes
    signature: bytes


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


def layers_in(manifest: ArtifactManifest) -> tuple[tuple[str, bytes], ...]:
    """Return the digests of the signed texts in an artifact with signatures, each with its signature.

    Raises Unverified.
    """
    signed = [each for each in manifest.layers if each.media_type == PAYLOAD_TYPE and is_digest(each.digest)]
    try:
        found = tuple((it.digest, b64decode((it.annotations or {}).get(SIGNATURE, ""), validate=True)) for it in signed)
    except ValueError as error:
        raise Unverified(f"the manifest of cosign's signatures is unreadable: {error}") from None
    if len(found) > MAX_SIGNATURES:
        raise Unverified(f"there are more than {MAX_SIGNATURES} signatures by cosign")
    return found


def bundles_in(index: ArtifactManifest) -> list[str]:
    """Return the digests of the last artifacts with bundles among what refers to an artifact."""
    named = [it for it in index.manifests or () if it.artifact_type.startswith(_BUNDLE_TYPES) and is_digest(it.digest)]
    signed = [it.digest for it in named if (it.annotations or {}).get(PREDICATE, SIGNED_PREDICATE) == SIGNED_PREDICATE]
    return signed[-MAX_SIGNATURES:]


def signed_in(bundle: bytes) -> tuple[Cosigned, ...]:
    """Return the statement in a bundle with its signature; none where it is something else, such as a blob's."""
    try:
        envelope = msgspec.json.decode(bundle)["dsseEnvelope"]
        payload, signature = b64decode(envelope["payload"]), b64decode(envelope["signatures"][0]["sig"])
    except _ODD:
        return ()
    return (Cosigned(_enveloped(payload), signature),)


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
    public = key.public
    for algorithm in _HASHES.get(public.key_size, (SHA256(),)):
        with suppress(InvalidSignature):
            if isinstance(public, RSAPublicKey):
                public.verify(signed.signature, signed.payload, PKCS1v15(), algorithm)
            else:
                public.verify(signed.signature, signed.payload, ECDSA(algorithm))
            return True
    return False


def _check_claim(payload: bytes, digest: str) -> None:
    try:
        signed = _digests_in(payload)
    except _ODD as error:
        raise Unverified(f"what cosign signed is unreadable: {error}") from None
    if digest not in signed:
        raise Unverified(f"cosign signed {', '.join(signed)[:80]!r}, not {digest}")


def _digests_in(payload: bytes) -> list[str]:
    """Return the digests that a text vouches for."""
    if not payload.startswith(_DSSE):
        claim = msgspec.json.decode(payload, type=_Claim).critical
        return [claim.image.docker_manifest_digest] if claim.type == CLAIM_TYPE else []
    content = payload[payload.index(b"{") :]
    statement = msgspec.json.decode(content)
    if payload != _enveloped(content) or statement["predicateType"] != SIGNED_PREDICATE:
        return []
    return [f"sha256:{each['digest']['sha256']}" for each in statement["subject"]]


def _enveloped(statement: bytes) -> bytes:
    """Return a statement of in-toto as DSSE signs it."""
    return b"%b%d %b %d %b" % (_DSSE, len(STATEMENT_TYPE), STATEMENT_TYPE, len(statement), statement)
