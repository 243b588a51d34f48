"""Issuing, reading, renewing and verifying certificates; contexts that follow their files."""

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

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
    create_authority,
    describe,
    issue,
    key_of,
    renewal_due,
    verify_chain,
)

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
AUTHORITY = create_authority("authority", lifetime=timedelta(days=10), now=NOW)


def der(pair: KeyPair) -> bytes:
    certificate = x509.load_pem_x509_certificate(pair.certificate_pem)
    return certificate.public_bytes(serialization.Encoding.DER)


def leaf(authority: KeyPair = AUTHORITY, **request: object) -> KeyPair:
    given = {"common_name": "runtime", "dns_names": ("a.example",), "lifetime": timedelta(days=2)} | request
    return issue(authority, LeafRequest(**given), now=NOW)  # type: ignore[arg-type]  # a builder


@pytest.mark.parametrize("algorithm", Algorithm)
def test_certificate_says_what_was_asked_for(algorithm: Algorithm) -> None:
    info = describe(leaf(algorithm=algorithm, ip_addresses=("127.0.0.1",)).certificate_pem)
    assert (info.common_name, info.dns_names) == ("runtime", ("a.example",))
    assert info.not_after == NOW + timedelta(days=2)
    request = LeafRequest(common_name="runtime", algorithm=algorithm)
    assert key_of(leaf(algorithm=algorithm).certificate_pem) == request.key


@pytest.mark.parametrize("algorithm", [Algorithm.ECDSA_P256, Algorithm.RSA])
def test_authority_of_any_algorithm_is_followed(algorithm: Algorithm) -> None:
    authority = create_authority("other", lifetime=timedelta(days=10), algorithm=algorithm, now=NOW)
    verify_chain(der(leaf(authority)), authority.certificate_pem, usage=Usage.CLIENT, now=NOW)


def test_leaf_of_any_algorithm_is_accepted() -> None:
    for algorithm in Algorithm:
        pair = leaf(algorithm=algorithm)
        verify_chain(der(pair), AUTHORITY.certificate_pem, usage=Usage.CLIENT, now=NOW)


def test_authority_that_no_verifier_would_accept_is_not_made() -> None:
    with pytest.raises(ValueError, match="Ed25519"):
        create_authority("authority", lifetime=timedelta(days=1), algorithm=Algorithm.ED25519, now=NOW)


def test_key_never_shows_in_a_representation() -> None:
    assert "PRIVATE" not in repr(leaf())


def test_renewal_is_due_within_its_time_only() -> None:
    pair = leaf()
    assert not renewal_due(pair.certificate_pem, renew_before=timedelta(days=1), now=NOW)
    later = NOW + timedelta(days=1)
    assert renewal_due(pair.certificate_pem, renew_before=timedelta(days=1), now=later)


def test_clock_that_is_a_little_behind_accepts_a_fresh_certificate() -> None:
    behind = NOW - timedelta(minutes=4)
    verify_chain(der(leaf()), AUTHORITY.certificate_pem, usage=Usage.CLIENT, now=behind)


@pytest.mark.parametrize(
    ("pair", "now"),
    [
        pytest.param(leaf(), NOW + timedelta(days=3), id="expired"),
        pytest.param(leaf(), NOW - timedelta(days=1), id="not yet valid"),
        pytest.param(
            leaf(create_authority("authority", lifetime=timedelta(days=9), now=NOW)), NOW, id="other authority"
        ),
        pytest.param(leaf(usages=frozenset({Usage.SERVER})), NOW, id="server certificate"),
        pytest.param(leaf(leaf()), NOW, id="issued by a leaf"),
    ],
)
def test_chain_that_does_not_hold_is_rejected(pair: KeyPair, now: datetime) -> None:
    with pytest.raises(CertificateRejected):
        verify_chain(der(pair), AUTHORITY.certificate_pem, usage=Usage.CLIENT, now=now)


@pytest.mark.parametrize("content", [b"", b"\x30", b"no certificate"])
def test_bytes_that_are_no_certificate_are_rejected(content: bytes) -> None:
    with pytest.raises(CertificateRejected):
        verify_chain(content, AUTHORITY.certificate_pem, usage=Usage.CLIENT, now=NOW)


@pytest.mark.parametrize(
    "name",
    ["", " ", "a b", "a,CN=b", "a/CN=b", "a\0b", "a\nb", "ümlaut", "a+b", '"a"', "*", "a" * 65, "-a", "a."],
)
def test_common_name_that_somebody_could_read_in_two_ways_is_refused(name: str) -> None:
    with pytest.raises(NameRefused):
        leaf(common_name=name)


@pytest.mark.parametrize("name", ["", "a b", "ümlaut.example", "a..example", "*", "a.*.example", f"{'a' * 64}.b"])
def test_alternative_name_that_is_no_dns_name_is_refused(name: str) -> None:
    with pytest.raises(NameRefused):
        leaf(dns_names=(name,))


def test_certificate_begins_no_sooner_than_asked() -> None:
    later = NOW + timedelta(minutes=1)
    assert describe(leaf(not_before=later).certificate_pem).not_before == later
    assert describe(leaf(not_before=NOW - timedelta(days=1)).certificate_pem).not_before == NOW - timedelta(minutes=5)


def test_bundle_trusts_old_and_new_authority_and_holds_each_once() -> None:
    newer = create_authority("authority", lifetime=timedelta(days=20), now=NOW)
    both = bundle([AUTHORITY.certificate_pem, newer.certificate_pem, AUTHORITY.certificate_pem])
    assert both.count(b"BEGIN CERTIFICATE") == 2
    for authority in (AUTHORITY, newer):
        verify_chain(der(leaf(authority)), both, usage=Usage.CLIENT, now=NOW)


def write(folder: Path, pair: KeyPair, authority: KeyPair) -> tuple[Path, Path, Path]:
    files = (folder / "tls.crt", folder / "tls.key", folder / "ca.crt")
    for path, content in zip(files, (pair.certificate_pem, pair.key_pem, authority.certificate_pem), strict=True):
        fresh = path.with_suffix(".new")
        fresh.write_bytes(content)
        fresh.replace(path)
    return files


def handshake(server: ssl.SSLContext, client: ssl.SSLContext) -> ssl.SSLObject:
    """Shake hands in memory and return the client's side."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = client.wrap_bio(to_client, to_server, server_hostname="a.example")
    other = server.wrap_bio(to_server, to_client, server_side=True)
    for side in (one, other, one, other):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    return one


def fresh_pair(authority: KeyPair) -> KeyPair:
    return issue(authority, LeafRequest(common_name="runtime", dns_names=("a.example",)), now=datetime.now(UTC))


def test_new_files_are_served_from_the_next_connection_on(tmp_path: Path) -> None:
    authority = create_authority("authority", lifetime=timedelta(days=10), now=datetime.now(UTC))
    first, second = fresh_pair(authority), fresh_pair(authority)
    context = ReloadingServerContext(*write(tmp_path, first, authority), require_client_certificate=False)
    client = ssl.create_default_context(cadata=authority.certificate_pem.decode())
    assert handshake(context.ssl_context, client).getpeercert(True) == der(first)
    write(tmp_path, second, authority)
    assert context.check()
    assert handshake(context.ssl_context, client).getpeercert(True) == der(second)


def test_authority_that_left_the_files_is_no_longer_trusted(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    old, new = (create_authority("authority", lifetime=timedelta(days=10), now=now) for _ in range(2))
    pair = fresh_pair(new)
    context = ReloadingServerContext(*write(tmp_path, pair, old), require_client_certificate=True)
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


def test_files_that_are_no_good_leave_the_former_ones_in_force(tmp_path: Path) -> None:
    authority = create_authority("authority", lifetime=timedelta(days=10), now=datetime.now(UTC))
    pair = fresh_pair(authority)
    files = write(tmp_path, pair, authority)
    server = ReloadingServerContext(*files, require_client_certificate=False)
    client = ReloadingClientContext(*files)
    files[0].write_text("no certificate at all")
    assert not server.check()
    assert not client.check()
    trusting = ssl.create_default_context(cadata=authority.certificate_pem.decode())
    assert handshake(server.ssl_context, trusting).getpeercert(True) == der(pair)
