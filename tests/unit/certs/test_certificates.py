"""Issuing, reading, renewing and verifying certificates; contexts that reload their files."""

import errno
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kyma_certs import (
    Algorithm,
    CertificateRejected,
    KeyPair,
    LeafRequest,
    NameRefused,
    ReloadingClientContext,
    ReloadingServerContext,
    Usage,
    bundle,
    create_ca,
    describe,
    is_ca,
    issue,
    key_of,
    renewal_due,
    verify_chain,
)

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
CA = create_ca("ca", lifetime=timedelta(days=10), now=NOW)


def der(pair: KeyPair) -> bytes:
    certificate = x509.load_pem_x509_certificate(pair.certificate_pem)
    return certificate.public_bytes(serialization.Encoding.DER)


def leaf(ca: KeyPair = CA, **request: object) -> KeyPair:
    given = {"common_name": "runtime", "dns_names": ("a.example",), "lifetime": timedelta(days=2)} | request
    return issue(ca, LeafRequest(**given), now=NOW)  # type: ignore[arg-type]  # a builder


@pytest.mark.parametrize("algorithm", Algorithm)
def test_certificate_has_the_requested_contents(algorithm: Algorithm) -> None:
    info = describe(leaf(algorithm=algorithm, ip_addresses=("127.0.0.1",)).certificate_pem)
    assert (info.common_name, info.dns_names) == ("runtime", ("a.example",))
    assert info.not_after == NOW + timedelta(days=2)
    request = LeafRequest(common_name="runtime", algorithm=algorithm)
    assert key_of(leaf(algorithm=algorithm).certificate_pem) == request.key


@pytest.mark.parametrize("algorithm", [Algorithm.ECDSA_P256, Algorithm.RSA])
def test_leaf_of_a_ca_of_each_algorithm_is_verified(algorithm: Algorithm) -> None:
    ca = create_ca("other", lifetime=timedelta(days=10), algorithm=algorithm, now=NOW)
    verify_chain(der(leaf(ca)), ca.certificate_pem, now=NOW)


def test_leaf_of_each_algorithm_is_verified() -> None:
    for algorithm in Algorithm:
        pair = leaf(algorithm=algorithm)
        verify_chain(der(pair), CA.certificate_pem, now=NOW)


def test_ca_with_an_ed25519_key_is_refused() -> None:
    with pytest.raises(ValueError, match="Ed25519"):
        create_ca("ca", lifetime=timedelta(days=1), algorithm=Algorithm.ED25519, now=NOW)


def test_key_never_shows_in_a_representation() -> None:
    assert "PRIVATE" not in repr(leaf())


def test_renewal_is_due_only_within_renew_before() -> None:
    pair = leaf()
    assert not renewal_due(pair.certificate_pem, renew_before=timedelta(days=1), now=NOW)
    later = NOW + timedelta(days=1)
    assert renewal_due(pair.certificate_pem, renew_before=timedelta(days=1), now=later)


def test_clock_slightly_behind_accepts_a_new_certificate() -> None:
    behind = NOW - timedelta(minutes=4)
    verify_chain(der(leaf()), CA.certificate_pem, now=behind)


@pytest.mark.parametrize(
    ("pair", "now"),
    [
        pytest.param(leaf(), NOW + timedelta(days=3), id="expired"),
        pytest.param(leaf(), NOW - timedelta(days=1), id="not yet valid"),
        pytest.param(leaf(create_ca("ca", lifetime=timedelta(days=9), now=NOW)), NOW, id="other CA"),
        pytest.param(leaf(usages=frozenset({Usage.SERVER})), NOW, id="server certificate"),
        pytest.param(leaf(leaf()), NOW, id="issued by a leaf"),
    ],
)
def test_invalid_chain_is_rejected(pair: KeyPair, now: datetime) -> None:
    with pytest.raises(CertificateRejected):
        verify_chain(der(pair), CA.certificate_pem, now=now)


@pytest.mark.parametrize("content", [b"", b"\x30", b"no certificate"])
def test_invalid_certificate_is_rejected(content: bytes) -> None:
    with pytest.raises(CertificateRejected):
        verify_chain(content, CA.certificate_pem, now=NOW)


@pytest.mark.parametrize(
    "name",
    ["", " ", "a b", "a,CN=b", "a/CN=b", "a\0b", "a\nb", "ümlaut", "a+b", '"a"', "*", "a" * 65, "-a", "a."],
)
def test_ambiguous_common_name_is_refused(name: str) -> None:
    with pytest.raises(NameRefused):
        leaf(common_name=name)


def test_organizations_are_in_the_subject() -> None:
    pair = leaf(organizations=("system:masters", "kyma"))

    subject = x509.load_pem_x509_certificate(pair.certificate_pem).subject
    assert [name.value for name in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)] == [
        "system:masters",
        "kyma",
    ]


@pytest.mark.parametrize("name", ["", "a,CN=b", "a+b", "a\0b", "a" * 65])
def test_ambiguous_organization_is_refused(name: str) -> None:
    with pytest.raises(NameRefused, match="invalid organization"):
        leaf(organizations=(name,))


@pytest.mark.parametrize("name", ["", "a b", "ümlaut.example", "a..example", "*", "a.*.example", f"{'a' * 64}.b"])
def test_invalid_dns_name_is_refused(name: str) -> None:
    with pytest.raises(NameRefused):
        leaf(dns_names=(name,))


def test_certificate_is_not_valid_before_the_requested_time() -> None:
    later = NOW + timedelta(minutes=1)
    assert describe(leaf(not_before=later).certificate_pem).not_before == later
    assert describe(leaf(not_before=NOW - timedelta(days=1)).certificate_pem).not_before == NOW - timedelta(minutes=5)


def test_bundle_trusts_old_and_new_ca_without_duplicates() -> None:
    newer = create_ca("ca", lifetime=timedelta(days=20), now=NOW)
    both = bundle([CA.certificate_pem, newer.certificate_pem, CA.certificate_pem])
    assert both.count(b"BEGIN CERTIFICATE") == 2
    for ca in (CA, newer):
        verify_chain(der(leaf(ca)), both, now=NOW)


def write(folder: Path, pair: KeyPair, ca: KeyPair) -> tuple[Path, Path, Path]:
    files = (folder / "tls.crt", folder / "tls.key", folder / "ca.crt")
    for path, content in zip(files, (pair.certificate_pem, pair.key_pem, ca.certificate_pem), strict=True):
        fresh = path.with_suffix(".new")
        fresh.write_bytes(content)
        fresh.replace(path)
    return files


def handshake(server: ssl.SSLContext, client: ssl.SSLContext) -> ssl.SSLObject:
    """Do a TLS handshake in memory; return the client's side."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = client.wrap_bio(to_client, to_server, server_hostname="a.example")
    other = server.wrap_bio(to_server, to_client, server_side=True)
    for side in (one, other, one, other):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    return one


@pytest.mark.parametrize(("has_root", "identifier"), [(False, b"by another digest"), (True, b"")])
def test_own_ca_is_trusted_however_it_was_issued(tmp_path: Path, has_root: bool, identifier: bytes) -> None:
    """Go programs, cert-manager among them, identify a key by SHA-256; the CA of a company is seldom the root."""
    ca, root = (create_ca(name, lifetime=timedelta(days=10), now=datetime.now(UTC)) for name in ("ca", "root"))
    own = issued_again(ca, root if has_root else ca, identifier)
    assert is_ca(own.certificate_pem)
    files = write(tmp_path, fresh_pair(own), own)
    server = ReloadingServerContext(*files, clients=ssl.CERT_REQUIRED)
    assert handshake(server.ssl_context, ReloadingClientContext(*files).ssl_context).getpeercert()


def issued_again(ca: KeyPair, issuer: KeyPair, identifier: bytes) -> KeyPair:
    """Return a CA as an issuer issues it, with an identifier unless that is empty."""
    known, above = (x509.load_pem_x509_certificate(each.certificate_pem) for each in (ca, issuer))
    signing = serialization.load_pem_private_key(issuer.key_pem, None)
    assert isinstance(signing, ec.EllipticCurvePrivateKey)
    builder = x509.CertificateBuilder(above.subject, known.subject, known.public_key(), 1)
    builder = builder.not_valid_before(known.not_valid_before_utc).not_valid_after(known.not_valid_after_utc)
    for each in known.extensions:
        given = identifier and isinstance(each.value, x509.SubjectKeyIdentifier)
        builder = builder.add_extension(x509.SubjectKeyIdentifier(identifier) if given else each.value, each.critical)
    return KeyPair(builder.sign(signing, hashes.SHA256()).public_bytes(serialization.Encoding.PEM), ca.key_pem)


def fresh_pair(ca: KeyPair) -> KeyPair:
    return issue(ca, LeafRequest(common_name="runtime", dns_names=("a.example",)), now=datetime.now(UTC))


def test_next_connection_uses_the_new_files(tmp_path: Path) -> None:
    ca = create_ca("ca", lifetime=timedelta(days=10), now=datetime.now(UTC))
    first, second = fresh_pair(ca), fresh_pair(ca)
    context = ReloadingServerContext(*write(tmp_path, first, ca), clients=ssl.CERT_NONE)
    client = ssl.create_default_context(cadata=ca.certificate_pem.decode())
    assert handshake(context.ssl_context, client).getpeercert(True) == der(first)
    write(tmp_path, second, ca)
    assert context.check()
    assert handshake(context.ssl_context, client).getpeercert(True) == der(second)


def test_ca_removed_from_the_files_is_not_trusted(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    old, new = (create_ca("ca", lifetime=timedelta(days=10), now=now) for _ in range(2))
    pair = fresh_pair(new)
    context = ReloadingServerContext(*write(tmp_path, pair, old), clients=ssl.CERT_REQUIRED)
    client = ssl.create_default_context(cadata=new.certificate_pem.decode())
    folder = tmp_path / "client"
    folder.mkdir()
    certificate, key, _ = write(folder, fresh_pair(old), old)
    client.load_cert_chain(certificate, key)
    handshake(context.ssl_context, client)
    write(tmp_path, pair, new)
    context.check()
    with pytest.raises(ssl.SSLError):
        handshake(context.ssl_context, client)


def test_unusable_files_are_not_loaded(tmp_path: Path) -> None:
    ca = create_ca("ca", lifetime=timedelta(days=10), now=datetime.now(UTC))
    pair = fresh_pair(ca)
    files = write(tmp_path, pair, ca)
    server = ReloadingServerContext(*files, clients=ssl.CERT_NONE)
    client = ReloadingClientContext(*files)
    files[0].write_text("no certificate at all")
    assert not server.check()
    assert not client.check()
    trusting = ssl.create_default_context(cadata=ca.certificate_pem.decode())
    assert handshake(server.ssl_context, trusting).getpeercert(True) == der(pair)


def test_reload_that_failed_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ca = create_ca("ca", lifetime=timedelta(days=10), now=datetime.now(UTC))
    files = write(tmp_path, fresh_pair(ca), ca)
    server = ReloadingServerContext(*files, clients=ssl.CERT_NONE)
    client = ReloadingClientContext(*files)
    renewed = fresh_pair(ca)
    write(tmp_path, renewed, ca)

    def fail(*_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(ssl.SSLContext, "load_cert_chain", fail)
        assert [each.check() for each in (server, client, server, client)] == [False] * 4
    assert caplog.text.count("Too many open files") == 2, "each is reported once"

    assert [each.check() for each in (server, client, server, client)] == [True, True, False, False]
    trusting = ssl.create_default_context(cadata=ca.certificate_pem.decode())
    assert handshake(server.ssl_context, trusting).getpeercert(True) == der(renewed)
