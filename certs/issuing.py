"""Making an authority, and certificates that it vouches for."""

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


class Algorithm(Enum):
    """The kind of key."""

    ECDSA_P256 = "ECDSA_P256"
    RSA_4096 = "RSA_4096"
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
    """What a certificate is to say."""

    common_name: str
    dns_names: tuple[str, ...] = ()
    ip_addresses: tuple[str, ...] = ()
    lifetime: timedelta = timedelta(days=90)
    algorithm: Algorithm = Algorithm.ECDSA_P256
    usages: frozenset[Usage] = frozenset({Usage.SERVER, Usage.CLIENT})


def create_authority(
    common_name: str, *, lifetime: timedelta, algorithm: Algorithm = Algorithm.ECDSA_P256, now: datetime
) -> KeyPair:
    """Make an authority that signs itself.

    Raises ValueError for Ed25519: verifiers that keep to the algorithms of the web's authorities refuse it there.
    """
    if algorithm is Algorithm.ED25519:
        raise ValueError("an authority with an Ed25519 key is refused by verifiers; use ECDSA_P256 or RSA_4096")
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
    key = _new_key(request.algorithm)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, request.common_name)])
    names: list[x509.GeneralName] = [x509.DNSName(dns_name) for dns_name in request.dns_names]
    names += [x509.IPAddress(ip_address(address)) for address in request.ip_addresses]
    purposes = {Usage.SERVER: ExtendedKeyUsageOID.SERVER_AUTH, Usage.CLIENT: ExtendedKeyUsageOID.CLIENT_AUTH}
    builder = (
        _builder(name, issuer.subject, key, request.lifetime, now)
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


def _new_key(algorithm: Algorithm) -> PrivateKey:
    match algorithm:
        case Algorithm.ECDSA_P256:
            return ec.generate_private_key(ec.SECP256R1())
        case Algorithm.RSA_4096:
            return rsa.generate_private_key(public_exponent=65537, key_size=4096)
        case Algorithm.ED25519:
            return ed25519.Ed25519PrivateKey.generate()


def _builder(
    subject: x509.Name, issuer: x509.Name, key: PrivateKey, lifetime: timedelta, now: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + lifetime)
    )


def _digest(key: PrivateKey) -> hashes.SHA256 | None:
    return None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()


def _pair(certificate: x509.Certificate, key: PrivateKey) -> KeyPair:
    return KeyPair(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )
