"""Reading certificates, and whether one has to be renewed."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import NameOID

from kyma_certs.issuing import KeyPair

MAX_REMEMBERED = 64
"""Of how many certificates the contents and the issuers are remembered: several rules ask for those of one in a row."""


@dataclass(frozen=True, slots=True)
class CertificateInfo:
    """The contents of a certificate. `sha256` is the hex digest of its DER form."""

    common_name: str
    dns_names: tuple[str, ...]
    not_before: datetime
    not_after: datetime
    sha256: str
    ip_addresses: tuple[str, ...] = ()


@lru_cache(maxsize=MAX_REMEMBERED)
def describe(certificate_pem: bytes) -> CertificateInfo:
    """Read a PEM certificate. Raises ValueError if it is invalid."""
    return describe_certificate(_certificate_in(certificate_pem))


def describe_certificate(certificate: x509.Certificate) -> CertificateInfo:
    """Read a certificate."""
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    try:
        alternatives = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        dns_names = tuple(alternatives.get_values_for_type(x509.DNSName))
        addresses = tuple(map(str, alternatives.get_values_for_type(x509.IPAddress)))
    except x509.ExtensionNotFound:
        dns_names = addresses = ()
    return CertificateInfo(
        str(names[0].value) if len(names) == 1 else "",
        dns_names,
        certificate.not_valid_before_utc,
        certificate.not_valid_after_utc,
        hashlib.sha256(certificate.public_bytes(serialization.Encoding.DER)).hexdigest(),
        addresses,
    )


def renewal_due(certificate_pem: bytes, *, renew_before: timedelta, now: datetime) -> bool:
    """Return whether a certificate expires within `renew_before`."""
    return describe(certificate_pem).not_after - now <= renew_before


def key_of(certificate_pem: bytes) -> tuple[str, int]:
    """Return the algorithm and the bits of a certificate's key: ("ECDSA", 256), ("ED25519", 256), ("RSA", 4096)."""
    key = _certificate_in(certificate_pem).public_key()
    if isinstance(key, rsa.RSAPublicKey):
        return "RSA", key.key_size
    if isinstance(key, ec.EllipticCurvePublicKey):
        return "ECDSA", key.key_size
    return ("ED25519", 256) if isinstance(key, ed25519.Ed25519PublicKey) else ("", 0)


def has_own_key(pair: KeyPair) -> bool:
    """Return whether the key of a pair is that of its certificate. Raises ValueError if either can't be read."""
    try:
        key = serialization.load_pem_private_key(pair.key_pem, password=None, unsafe_skip_rsa_key_validation=True)
        return key.public_key() == _certificate_in(pair.certificate_pem).public_key()
    except (TypeError, UnsupportedAlgorithm) as error:  # it is encrypted, or of an unknown kind
        raise ValueError(str(error)) from None


def is_ca(certificate_pem: bytes) -> bool:
    """Return whether a certificate has the fields of a CA (RFC 5280), without which verifiers trust nothing of it."""
    extensions = _certificate_in(certificate_pem).extensions
    try:
        extensions.get_extension_for_class(x509.SubjectKeyIdentifier)
        constraints = extensions.get_extension_for_class(x509.BasicConstraints)
        usage = extensions.get_extension_for_class(x509.KeyUsage).value
    except x509.ExtensionNotFound:
        return False
    return constraints.critical and constraints.value.ca and usage.key_cert_sign


@lru_cache(maxsize=MAX_REMEMBERED)
def issued_by(certificate_pem: bytes, ca_pem: bytes) -> bool:
    """Return whether a CA signed a certificate. This does not verify the chain: see `verify_chain`."""
    certificate = _certificate_in(certificate_pem)
    try:
        certificate.verify_directly_issued_by(_certificate_in(ca_pem))
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


@lru_cache(maxsize=MAX_REMEMBERED)
def _certificate_in(pem: bytes) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pem)


def bundle(certificates_pem: Iterable[bytes]) -> bytes:
    """Return the certificates as one bundle, without duplicates, in their order."""
    found: dict[bytes, bytes] = {}
    for text in certificates_pem:
        for certificate in x509.load_pem_x509_certificates(text):
            pem = certificate.public_bytes(serialization.Encoding.PEM)
            found.setdefault(pem, pem)
    return b"".join(found)
