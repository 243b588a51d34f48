"""Making an authority, and certificates that it vouches for."""

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
# A clock that is a little behind must not take a fresh certificate for one of the future.
CLOCK_SKEW = timedelta(minutes=5)
LONGEST_DNS_NAME = 253

_COMMON_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,62}[A-Za-z0-9])?")
_DNS_LABEL = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_DNS_NAME = re.compile(rf"(\*\.)?{_DNS_LABEL}(\.{_DNS_LABEL})*")


class NameRefused(ValueError):
    """A certificate is not issued for such a name; the message says which."""


class Algorithm(Enum):
    """The kind of key."""

    ECDSA_P256 = "ECDSA_P256"
    RSA = "RSA"
    ED25519 = "ED25519"


class Usage(Enum):
    """What a certificate may be shown for."""

    SERVER = "server"
    CLIENT = "client"


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key, in PEM."""

    certificate_pem: bytes
    key_pem: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafRequest:
    """What a certificate is to say. It never begins before `not_before`, whatever clocks there may be.

    Raises NameRefused for a common name that is empty, longer than X.509 allows (64) or not of plain letters, and for
    an alternative name that is no DNS name.
    """

    common_name: str
    dns_names: tuple[str, ...] = ()
    ip_addresses: tuple[str, ...] = ()
    lifetime: timedelta = timedelta(days=90)
    not_before: datetime | None = None
    algorithm: Algorithm = Algorithm.ECDSA_P256
    rsa_key_size: int = 4096
    usages: frozenset[Usage] = frozenset({Usage.SERVER, Usage.CLIENT})

    @property
    def key(self) -> tuple[str, int]:
        """The kind and the bits of the key, as `key_of` tells them of a certificate."""
        match self.algorithm:
            case Algorithm.ECDSA_P256:
                return "ECDSA", 256
            case Algorithm.ED25519:
                return "ED25519", 256
            case Algorithm.RSA:
                return "RSA", self.rsa_key_size

    def __post_init__(self) -> None:
        if not is_common_name(self.common_name):
            raise NameRefused(f"{self.common_name[:80]!r} can't be the common name of a certificate")
        for name in self.dns_names:
            if len(name) > LONGEST_DNS_NAME or not _DNS_NAME.fullmatch(name):
                raise NameRefused(f"{name[:80]!r} is no DNS name")


def is_common_name(text: str) -> bool:
    """Tell whether a text may be the common name of a certificate: 1 to 64 letters that mean nothing to any parser."""
    return _COMMON_NAME.fullmatch(text) is not None


def create_authority(
    common_name: str, *, lifetime: timedelta, algorithm: Algorithm = Algorithm.ECDSA_P256, now: datetime
) -> KeyPair:
    """Make an authority that signs itself.

    Raises ValueError for Ed25519: verifiers that keep to the algorithms of the web's authorities refuse it there.
    """
    if algorithm is Algorithm.ED25519:
        raise ValueError("an authority with an Ed25519 key is refused by verifiers; use ECDSA_P256 or RSA")
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


def issue(authority: KeyPair, request: LeafRequest, *, now: datetime) -> KeyPair:
    """Issue a certificate with a key of its own."""
    issuer = x509.load_pem_x509_certificate(authority.certificate_pem)
    issuer_key = serialization.load_pem_private_key(authority.key_pem, password=None)
    if not isinstance(issuer_key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey):
        raise TypeError(f"an authority with a key of type {type(issuer_key).__name__} is not supported")
    key = _new_key(request.algorithm, request.rsa_key_size)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, request.common_name)])
    names: list[x509.GeneralName] = [x509.DNSName(dns_name) for dns_name in request.dns_names]
    names += [x509.IPAddress(ip_address(address)) for address in request.ip_addresses]
    purposes = {Usage.SERVER: ExtendedKeyUsageOID.SERVER_AUTH, Usage.CLIENT: ExtendedKeyUsageOID.CLIENT_AUTH}
    builder = (
        _builder(name, issuer.subject, key, request.lifetime, now, request.not_before)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(
            x509.ExtendedKeyUsage([purposes[usage] for usage in Usage if usage in request.usages]), critical=False
        )
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
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
