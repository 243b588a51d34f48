"""The signatures in a component descriptor, by RSA, as OCM's own tools make and verify them.

A signature names the hash of the descriptor's normal form, and signs that hash. It comes as hex digits, verified by a
trusted key, or as PEM together with certificates, the first of which a trusted certificate has issued. One signature by
one trusted key is enough.
"""

import binascii
import hashlib
import re
from base64 import b64decode
from collections.abc import Callable, Collection
from datetime import datetime
from typing import Any

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.padding import MGF1, PSS, AsymmetricPadding, PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed
from cryptography.x509.verification import ExtensionPolicy, PolicyBuilder, Store, VerificationError

from kyma_oci.problems import UNREADABLE
from kyma_oci.signatures.keys import BROKEN, KeyUnreadable, TrustedKey, check_validity, public_key_of
from kyma_oci.signatures.normal_form import Digest, Unverified, normal_form

V4 = "jsonNormalisation/v4alpha1"
NORMALISATIONS = frozenset({V4, "jsonNormalisation/v3"})
"""OCM's tools write the older name for the same normal form too."""
MAX_SIGNATURES = 16
MAX_CERTIFICATES = 8
MAX_PEM_LENGTH = 64 * 1024
PSS_ALGORITHM, PKCS1_ALGORITHM = "RSASSA-PSS", "RSASSA-PKCS1-V1_5"
PSS_TYPE = "application/vnd.ocm.signature.rsa.pss"
PKCS1_TYPE = "application/vnd.ocm.signature.rsa"
PEM_TYPE = "application/x-pem-file"
DEFAULT_NAME = "default"

_HASHES: dict[str, hashes.HashAlgorithm] = {"SHA-256": hashes.SHA256(), "SHA-512": hashes.SHA512()}
_PADDINGS: dict[str, Callable[[hashes.HashAlgorithm], AsymmetricPadding]] = {
    PSS_ALGORITHM: lambda algorithm: PSS(mgf=MGF1(algorithm), salt_length=PSS.AUTO),
    PKCS1_ALGORITHM: lambda _: PKCS1v15(),
}
_PLAIN = {PSS_TYPE: PSS_ALGORITHM, PKCS1_TYPE: PKCS1_ALGORITHM}
_PEM = re.compile(
    r"-----BEGIN SIGNATURE-----\r?\nSignature Algorithm: ([!-~]+)\r?\n\r?\n([A-Za-z0-9+/=\r\n]+)-----END SIGNATURE-----"
)


class _Value(msgspec.Struct, frozen=True, rename="camel"):
    algorithm: str = ""
    media_type: str = ""
    value: str = ""


class _Signature(msgspec.Struct, frozen=True):
    name: str = ""
    digest: Digest = Digest()
    signature: _Value = _Value()


class _Signed(msgspec.Struct, frozen=True):
    signatures: list[_Signature] | None = None


def verify(descriptor: bytes, keys: Collection[TrustedKey], now: datetime) -> None:
    """Return where one of the signatures in a descriptor, given as JSON, is by a trusted key. Raises Unverified."""
    try:
        signatures = msgspec.json.decode(descriptor, type=_Signed).signatures or []
    except UNREADABLE as error:
        raise Unverified(f"the signatures of the descriptor are unreadable: {error}") from None
    if not signatures:
        raise Unverified("the descriptor has no signature")
    if len(signatures) > MAX_SIGNATURES:
        raise Unverified(f"the descriptor has more than {MAX_SIGNATURES} signatures")
    contents = [normal_form(descriptor, label_versions=each) for each in (True, False)]
    problems: list[str] = []
    for each in signatures:
        try:
            return _verify(each, contents, keys, now)
        except Unverified as problem:
            problems.append(f"signature {each.name[:64]!r}: {problem}")
    raise Unverified("; ".join(problems[:3]))


def sign(descriptor: dict[str, Any], key: RSAPrivateKey, name: str = DEFAULT_NAME) -> dict[str, Any]:
    """Return a descriptor with a signature of this name, in place of an earlier one. Raises Unverified.

    By PKCS#1 v1.5, which is deterministic: a component that is packed twice keeps its digest in the registry.
    """
    algorithm = _HASHES["SHA-256"]
    digest = hashlib.sha256(normal_form(msgspec.json.encode(descriptor))).digest()
    made = {
        "name": name,
        "digest": {"hashAlgorithm": "SHA-256", "normalisationAlgorithm": V4, "value": digest.hex()},
        "signature": {
            "algorithm": PKCS1_ALGORITHM,
            "mediaType": PKCS1_TYPE,
            "value": key.sign(digest, PKCS1v15(), Prehashed(algorithm)).hex(),
        },
    }
    others = [each for each in descriptor.get("signatures") or () if each.get("name") != name]
    return {**descriptor, "signatures": [*others, made]}


def _verify(signature: _Signature, contents: Collection[bytes], keys: Collection[TrustedKey], now: datetime) -> None:
    algorithm = _HASHES.get(signature.digest.hash_algorithm)
    if algorithm is None or signature.digest.normalisation_algorithm not in NORMALISATIONS:
        used = f"{signature.digest.hash_algorithm[:64]!r} of {signature.digest.normalisation_algorithm[:64]!r}"
        raise Unverified(f"unsupported digest {used}; use SHA-256 of {V4}")
    digest = _unhexed(signature.digest.value)
    if digest not in [hashlib.new(algorithm.name, each).digest() for each in contents]:
        raise Unverified("the descriptor was changed after it was signed: its digest is another one")
    media_type = signature.signature.media_type
    if media_type in _PLAIN:
        value = _unhexed(signature.signature.value)
        _verify_by_any(keys, _PLAIN[media_type], value, digest=digest, algorithm=algorithm, now=now)
    elif media_type == PEM_TYPE:
        name, value, leaf = _of_pem(signature.signature.value, keys, now)
        _verify_by_any([leaf], name, value, digest=digest, algorithm=algorithm, now=now)
    else:
        raise Unverified(f"unsupported media type {media_type[:64]!r} of a signature; use {PSS_TYPE}")


def _verify_by_any(
    keys: Collection[TrustedKey],
    name: str,
    value: bytes,
    *,
    digest: bytes,
    algorithm: hashes.HashAlgorithm,
    now: datetime,
) -> None:
    if name not in _PADDINGS:
        raise Unverified(f"unsupported algorithm {name[:64]!r}; use {PSS_ALGORITHM}")
    problem = Unverified("it is not by any of the trusted keys")
    for key in keys:
        if not isinstance(key.public, RSAPublicKey):
            continue
        try:
            key.public.verify(value, digest, _PADDINGS[name](algorithm), Prehashed(algorithm))
            return key.check(now)
        except InvalidSignature:
            continue
        except Unverified as expired:
            problem = expired  # a renewed certificate may have the same key
    raise problem


def _of_pem(text: str, trusted: Collection[TrustedKey], now: datetime) -> tuple[str, bytes, TrustedKey]:
    """Return the algorithm, the signature, and the key that made it, by a signature in PEM. Raises Unverified."""
    found = _PEM.match(text) if len(text) <= MAX_PEM_LENGTH else None
    if found is None:
        raise Unverified("it is not PEM with the algorithm and the signature, of 64 KiB at most")
    try:
        return found[1], b64decode(found[2]), _issued(text[found.end() :].encode(), trusted, now)
    except VerificationError as error:
        raise Unverified(f"its certificate is not by a trusted certificate: {error}") from None
    except (*BROKEN, KeyUnreadable) as error:
        raise Unverified(f"its certificates are unreadable: {error}") from None


def _issued(chain: bytes, trusted: Collection[TrustedKey], now: datetime) -> TrustedKey:
    """Return the key of the first certificate, which is trusted, or which a trusted one issued.

    Raises Unverified, KeyUnreadable, VerificationError, and what BROKEN lists.
    """
    certificates = x509.load_pem_x509_certificates(chain)
    if len(certificates) > MAX_CERTIFICATES:
        raise Unverified(f"it has more than {MAX_CERTIFICATES} certificates")
    roots = [each.certificate for each in trusted if each.certificate is not None]
    if not roots:
        raise Unverified("it comes with certificates, and none is trusted")
    leaf, name = certificates[0], f"its certificate {certificates[0].subject.rfc4514_string()[:128]!r}"
    check_validity(leaf, name, now)
    if leaf not in roots:
        _verify_chain(leaf, certificates[1:], roots, now)
    return TrustedKey(name, public_key_of(leaf, name), leaf)


def _verify_chain(
    leaf: x509.Certificate, others: list[x509.Certificate], roots: list[x509.Certificate], now: datetime
) -> None:
    """Raise VerificationError where none of the roots issued the leaf."""
    policies = PolicyBuilder().store(Store(roots)).time(now)
    policies = policies.extension_policies(
        ca_policy=ExtensionPolicy.webpki_defaults_ca(), ee_policy=ExtensionPolicy.permit_all()
    )
    policies.build_client_verifier().verify(leaf, others)


def _unhexed(text: str) -> bytes:
    try:
        return binascii.unhexlify(text)
    except ValueError:
        raise Unverified("it is not hex digits") from None
