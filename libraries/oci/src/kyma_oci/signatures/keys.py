"""Public keys and certificates that are trusted, and the private key that signs, all as PEM.

A certificate is trusted itself, and as the CA of the certificates that a signature brings. A certificate that has
expired, or is not valid yet, proves nothing.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

from kyma_oci.signatures.normal_form import Unverified

MIN_RSA_BITS = 2048
_BLOCK = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----.+?-----END \1-----", re.DOTALL)
_PUBLIC_KEYS = frozenset({b"PUBLIC KEY", b"RSA PUBLIC KEY"})
BROKEN = (
    ValueError,
    TypeError,
    UnsupportedAlgorithm,
    x509.DuplicateExtension,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
)
"""What keys and certificates of unknown content raise; certificates when a field is used, not when they are loaded."""

PublicKey = RSAPublicKey | EllipticCurvePublicKey


class KeyUnreadable(Exception):
    """A key or certificate that can't be used; the message says which and why."""


@dataclass(frozen=True, slots=True)
class TrustedKey:
    """A public key, with its certificate where it came with one. `name` is for messages."""

    name: str
    public: PublicKey
    certificate: x509.Certificate | None = None

    def check(self, now: datetime) -> None:
        """Raise Unverified where the certificate of the key is not in force."""
        if self.certificate is not None:
            check_validity(self.certificate, self.name, now)


def check_validity(certificate: x509.Certificate, name: str, now: datetime) -> None:
    """Raise Unverified where a certificate is not in force."""
    if now < certificate.not_valid_before_utc:
        raise Unverified(f"{name} is not valid before {certificate.not_valid_before_utc.isoformat()}")
    if now > certificate.not_valid_after_utc:
        raise Unverified(f"{name} expired at {certificate.not_valid_after_utc.isoformat()}")


def keys_in(texts: Mapping[str, bytes]) -> tuple[TrustedKey, ...]:
    """Return all public keys and certificates of some texts in PEM, by their names. Raises KeyUnreadable."""
    found = [_trusted(name, kind, pem) for name in sorted(texts) for kind, pem in _blocks(name, texts[name])]
    if not found:
        raise KeyUnreadable("there is no public key and no certificate")
    return tuple(found)


def private_key_in(text: bytes, name: str) -> RSAPrivateKey:
    """Return a private key for RSA signatures, in PEM without a password. Raises KeyUnreadable."""
    try:
        key = load_pem_private_key(text, password=None)
    except TypeError:
        raise KeyUnreadable(f"{name} is encrypted; expected a private RSA key in PEM without a password") from None
    except BROKEN as error:
        raise KeyUnreadable(f"{name} is not a private key in PEM: {error}") from None
    if not isinstance(key, RSAPrivateKey) or key.key_size < MIN_RSA_BITS:
        raise KeyUnreadable(f"{name} is not an RSA key of at least {MIN_RSA_BITS} bits, which OCM signatures need")
    return key


def public_key_of(certificate: x509.Certificate, name: str) -> PublicKey:
    """Return the public key of a certificate. Raises KeyUnreadable."""
    return _usable(certificate.public_key(), name)


def _blocks(name: str, text: bytes) -> list[tuple[bytes, bytes]]:
    blocks = [(match[1], match[0]) for match in _BLOCK.finditer(text)]
    if not blocks:
        raise KeyUnreadable(f"{name} is not PEM: expected a public key or certificates")
    return blocks


def _trusted(name: str, kind: bytes, pem: bytes) -> TrustedKey:
    try:
        if kind == b"CERTIFICATE":
            certificate = x509.load_pem_x509_certificate(pem)
            return TrustedKey(name, public_key_of(certificate, name), certificate)
        if kind in _PUBLIC_KEYS:
            return TrustedKey(name, _usable(load_pem_public_key(pem), name))
    except BROKEN as error:
        raise KeyUnreadable(f"{name} is unreadable: {error}") from None
    raise KeyUnreadable(f"{name} holds a {kind.decode().lower()}; expected a public key or certificates")


def _usable(key: object, name: str) -> PublicKey:
    if isinstance(key, EllipticCurvePublicKey):
        return key
    if isinstance(key, RSAPublicKey) and key.key_size >= MIN_RSA_BITS:
        return key
    raise KeyUnreadable(f"{name} is neither an RSA key of at least {MIN_RSA_BITS} bits nor an ECDSA key")
