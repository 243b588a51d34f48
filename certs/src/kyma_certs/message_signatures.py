"""Signed HTTP messages: one profile of RFC 9421 (HTTP Message Signatures) with RFC 9530 (Digest Fields).

The key of a certificate signs the method, target URI, content digest and content type of a POST, with a validity period
and a nonce. The profile is fixed: sender and receiver negotiate nothing.
"""

import base64
import hashlib
import re
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

LABEL = "kyma"
TAG = "kyma-watch-event"
COMPONENTS = '("@method" "@target-uri" "content-digest" "content-type")'
CONTENT_TYPE = "application/json"
ECDSA, ED25519 = "ecdsa-p256-sha256", "ed25519"
COORDINATE_BYTES = 32  # r and s of a P-256 signature, RFC 9421 section 3.3.4

SigningKey = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey


class SignatureRejected(Exception):
    """The HTTP message has no valid signature of this profile; the message says what is wrong."""


@dataclass(frozen=True, slots=True)
class SignatureParameters:
    """When a signature was created and when it expires (Unix seconds), its nonce, key and algorithm.

    `text` is the parameters as received: the signer chooses their order, which is part of the signed text.
    """

    created: int
    expires: int
    nonce: str
    keyid: str
    alg: str
    text: str = ""

    def __str__(self) -> str:
        return self.text or (
            f"{COMPONENTS};created={self.created};expires={self.expires};"
            f'nonce="{self.nonce}";keyid="{self.keyid}";alg="{self.alg}";tag="{TAG}"'
        )


_FORMS = {
    "created": r"\d{1,12}",
    "expires": r"\d{1,12}",
    "nonce": r'"[\x20\x21\x23-\x5b\x5d-\x7e]{8,128}"',
    "keyid": '"[0-9a-f]{64}"',
    "alg": '"[a-z0-9-]{1,32}"',
    "tag": f'"{TAG}"',
}
_PARAMETERS = "|".join(f";{name}=(?P<{name}>{form})" for name, form in _FORMS.items())
_INPUT = re.compile(rf"{LABEL}=(?P<text>{re.escape(COMPONENTS)}(?:{_PARAMETERS}){{{len(_FORMS)}}})")
_ECDSA = ec.ECDSA(hashes.SHA256())
_SIGNATURE = re.compile(rf"{LABEL}=:([A-Za-z0-9+/=]{{64,256}}):")


def content_digest(body: bytes) -> str:
    """Return the Content-Digest field of a body."""
    return f"sha-256=:{base64.b64encode(hashlib.sha256(body).digest()).decode()}:"


def load_signing_key(key_pem: bytes) -> SigningKey:
    """Read a private key. Raises ValueError if the profile has no algorithm for it."""
    key = serialization.load_pem_private_key(key_pem, password=None)
    if isinstance(key, ed25519.Ed25519PrivateKey) or (
        isinstance(key, ec.EllipticCurvePrivateKey) and isinstance(key.curve, ec.SECP256R1)
    ):
        return key
    raise ValueError("unsupported signing key: expected P-256 or Ed25519")


def algorithm_of(key: SigningKey) -> str:
    """Return the name of the algorithm in the registry of RFC 9421."""
    return ED25519 if isinstance(key, ed25519.Ed25519PrivateKey) else ECDSA


def sign(target_uri: str, body: bytes, key: SigningKey, parameters: SignatureParameters) -> dict[str, str]:
    """Return the header fields of a signed POST."""
    digest = content_digest(body)
    base = _signature_base(target_uri, digest, str(parameters))
    if isinstance(key, ed25519.Ed25519PrivateKey):
        signature = key.sign(base)
    else:
        r, s = decode_dss_signature(key.sign(base, _ECDSA))
        signature = r.to_bytes(COORDINATE_BYTES, "big") + s.to_bytes(COORDINATE_BYTES, "big")
    return {
        "Content-Type": CONTENT_TYPE,
        "Content-Digest": digest,
        "Signature-Input": f"{LABEL}={parameters}",
        "Signature": f"{LABEL}=:{base64.b64encode(signature).decode()}:",
    }


def read_parameters(signature_input: str) -> SignatureParameters:
    """Read a Signature-Input field. Raises SignatureRejected if it does not match the profile."""
    found = _INPUT.fullmatch(signature_input)
    if found is None or None in found.groups():  # one that occurs twice takes the place of another
        raise SignatureRejected("Signature-Input is missing or does not match the profile")
    return SignatureParameters(
        created=int(found["created"]),
        expires=int(found["expires"]),
        nonce=found["nonce"][1:-1],
        keyid=found["keyid"][1:-1],
        alg=found["alg"][1:-1],
        text=found["text"],
    )


def verify(
    target_uri: str,
    body: bytes,
    *,
    digest: str,
    signature: str,
    parameters: SignatureParameters,
    key: CertificatePublicKeyTypes,
) -> None:
    """Verify digest and signature of a POST with the key of a certificate. Raises SignatureRejected."""
    if digest != content_digest(body):
        raise SignatureRejected("Content-Digest does not match the body")
    found = _SIGNATURE.fullmatch(signature)
    if found is None:
        raise SignatureRejected("Signature is missing or does not match the profile")
    base = _signature_base(target_uri, digest, str(parameters))
    try:
        raw = base64.b64decode(found[1], validate=True)
        if parameters.alg == ECDSA and isinstance(key, ec.EllipticCurvePublicKey):
            key.verify(_dss(raw), base, _ECDSA)
        elif parameters.alg == ED25519 and isinstance(key, ed25519.Ed25519PublicKey):
            key.verify(raw, base)
        else:
            raise SignatureRejected("the algorithm does not match the certificate's key")
    except (InvalidSignature, ValueError):
        raise SignatureRejected("the signature does not match the message and the certificate's key") from None


def _dss(raw: bytes) -> bytes:
    if len(raw) != 2 * COORDINATE_BYTES:
        raise ValueError("wrong length")
    return encode_dss_signature(
        int.from_bytes(raw[:COORDINATE_BYTES], "big"), int.from_bytes(raw[COORDINATE_BYTES:], "big")
    )


def _signature_base(target_uri: str, digest: str, parameters: str) -> bytes:
    """Return the signature base, RFC 9421 section 2.5."""
    lines = (
        '"@method": POST',
        f'"@target-uri": {target_uri}',
        f'"content-digest": {digest}',
        f'"content-type": {CONTENT_TYPE}',
        f'"@signature-params": {parameters}',
    )
    return "\n".join(lines).encode()
