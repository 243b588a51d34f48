"""Creating a CA, and issuing certificates."""

import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey
# To a clock that is slightly behind, a new certificate must already be valid.
CLOCK_SKEW = timedelta(minutes=5)
MAX_DNS_NAME_LENGTH = 253

_COMMON_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,62}[A-Za-z0-9])?")
_ORGANIZATION = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.:_-]{0,62}[A-Za-z0-9])?")
_DNS_LABEL = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_DNS_NAME = re.compile(rf"(\*\.)?{_DNS_LABEL}(\.{_DNS_LABEL})*")


class NameRefused(ValueError):
    """No certificate is issued for this name; the message has the name and the rule."""


class Algorithm(Enum):
    """The algorithm of a key."""

    ECDSA_P256 = "ECDSA_P256"
    RSA = "RSA"
    ED25519 = "ED25519"


class Usage(Enum):
    """The purpose of a certificate (extended key usage)."""

    SERVER = "server"
    CLIENT = "client"


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key, in PEM."""

    certificate_pem: bytes
    key_pem: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafRequest:
    """The contents of a leaf certificate. It is never valid before `not_before`.

    Kubernetes takes the common name for the user and the organizations for the groups. Raises NameRefused for a common
    name that is empty, longer than 64 characters or not of plain letters, for an organization with a character other
    than letters, digits and `.:_-`, and for an invalid DNS name.
    """

    common_name: str
    organizations: tuple[str, ...] = ()
    dns_names: tuple[str, ...] = ()
    ip_addresses: tuple[str, ...] = ()
    lifetime: timedelta = timedelta(days=90)
    not_before: datetime | None = None
    algorithm: Algorithm = Algorithm.ECDSA_P256
    rsa_key_size: int = 4096
    usages: frozenset[Usage] = frozenset({Usage.SERVER, Usage.CLIENT})

    @property
    def key(self) -> tuple[str, int]:
        """The algorithm and the bits of the key, as `key_of` returns them for a certificate."""
        match self.algorithm:
            case Algorithm.ECDSA_P256:
                return "ECDSA", 256
            case Algorithm.ED25519:
                return "ED25519", 256
            case Algorithm.RSA:
                return "RSA", self.rsa_key_size

    def __post_init__(self) -> None:
        if not is_common_name(self.common_name):
            raise NameRefused(f"invalid common name {self.common_name[:80]!r}: expected {_COMMON_NAME.pattern}")
        for organization in self.organizations:
            if not _ORGANIZATION.fullmatch(organization):
                raise NameRefused(f"invalid organization {organization[:80]!r}: expected {_ORGANIZATION.pattern}")
        for name in self.dns_names:
            if not is_dns_name(name):
                raise NameRefused(f"invalid DNS name {name[:80]!r}")


def is_common_name(text: str) -> bool:
    """Return whether a text is a valid common name: 1 to 64 characters without a meaning to any parser."""
    return _COMMON_NAME.fullmatch(text) is not None


def is_dns_name(text: str) -> bool:
    """Return whether a certificate can have a DNS name: plain labels, the first of which may be `*`."""
    return len(text) <= MAX_DNS_NAME_LENGTH and _DNS_NAME.fullmatch(text) is not None


def create_ca(
    common_name: str, *, lifetime: timedelta, algorithm: Algorithm = Algorithm.ECDSA_P256, now: datetime
) -> KeyPair:
    """Create a self-signed CA.

    Raises ValueError for Ed25519: verifiers that accept only the algorithms of public CAs refuse it in a CA.
    """
    if algorithm is Algorithm.ED25519:
        raise ValueError("verifiers refuse a CA with an Ed25519 key; use ECDSA_P256 or RSA")
    key = _new_key(algorithm)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    builder = (
        _builder(name, name, key, lifetime, now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return _pair(builder.sign(key, _digest(key)), key)


def issue(ca: KeyPair, request: LeafRequest, *, now: datetime) -> KeyPair:
    """Issue a certificate with a new key. The CA has what `is_ca` asks for."""
    issuer = x509.load_pem_x509_certificate(ca.certificate_pem)
    issuer_key = serialization.load_pem_private_key(ca.key_pem, password=None)
    if not isinstance(issuer_key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey):
        raise TypeError(f"unsupported key type of the CA: {type(issuer_key).__name__}")
    key = _new_key(request.algorithm, request.rsa_key_size)
    organizations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in request.organizations]
    name = x509.Name([*organizations, x509.NameAttribute(NameOID.COMMON_NAME, request.common_name)])
    names: list[x509.GeneralName] = [x509.DNSName(dns_name) for dns_name in request.dns_names]
    names += [x509.IPAddress(ip_address(address)) for address in request.ip_addresses]
    purposes = {Usage.SERVER: ExtendedKeyUsageOID.SERVER_AUTH, Usage.CLIENT: ExtendedKeyUsageOID.CLIENT_AUTH}
    identifier = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value  # whatever it was made of
    builder = (
        _builder(name, issuer.subject, key, request.lifetime, now, request.not_before)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(
            x509.ExtendedKeyUsage([purposes[usage] for usage in Usage if usage in request.usages]), critical=False
        )
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return _pair(builder.sign(issuer_key, _digest(issuer_key)), key)


def _new_key(algorithm: Algorithm, rsa_key_size: int = 4096) -> PrivateKey:
    match algorithm:
        case Algorithm.ECDSA_P256:
            return ec.generate_private_key(ec.SECP256R1())
        case Algorithm.RSA:
            return rsa.generate_private_key(public_exponent=65537, key_size=rsa_key_size)
        case Algorithm.ED25519:
            return ed25519.Ed25519PrivateKey.generate()


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: PrivateKey,
    lifetime: timedelta,
    now: datetime,
    not_before: datetime | None = None,
) -> x509.CertificateBuilder:
    begins = now - CLOCK_SKEW
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(max(begins, not_before) if not_before is not None else begins)
        .not_valid_after(now + lifetime)
    )


def _digest(key: PrivateKey) -> hashes.SHA256 | None:
    return None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()


def _pair(certificate: x509.Certificate, key: PrivateKey) -> KeyPair:
    return KeyPair(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )
