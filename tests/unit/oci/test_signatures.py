"""Signatures of component descriptors: those of OCM's own code and ours, and everything that must not be accepted."""

import hashlib
import json
import random
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1
from cryptography.hazmat.primitives.asymmetric.ec import generate_private_key as generate_ec_key
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from kyma_oci import DescriptorUnreadable, component_of
from kyma_oci.descriptor import OCI_REGISTRY_CRED
from kyma_oci.packing import BLOB_DIGEST, digest_of
from kyma_oci.signatures.content import signed_component
from kyma_oci.signatures.descriptors import MAX_PEM_LENGTH, PEM_TYPE, sign, verify
from kyma_oci.signatures.keys import MIN_RSA_BITS, KeyUnreadable, TrustedKey, keys_in, private_key_in
from kyma_oci.signatures.normal_form import MAX_BYTES, Unverified, normal_form
from tests.attack.descriptors import check_descriptor, hostile_descriptor, installable
from tests.cpu_time import is_linear

SIGNED = Path(__file__).parent / "signed_by_ocm"
FILES = sorted(path.name for path in SIGNED.glob("*.json"))
NOW = datetime(2026, 7, 1, tzinfo=UTC)
KEY = generate_private_key(65537, 2048)
PEM_KEY = KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def trusted(*names: str) -> tuple[TrustedKey, ...]:
    return keys_in({name: (SIGNED / name).read_bytes() for name in names})


def public(key: RSAPrivateKey = KEY) -> tuple[TrustedKey, ...]:
    return keys_in({"key.pem": key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)})


def certificate(*, until: datetime, key: RSAPrivateKey = KEY) -> bytes:
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "release")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(until - timedelta(days=30)).not_valid_after(until)
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)


def signed(name: str) -> bytes:
    return (SIGNED / name).read_bytes()


def document(name: str = "guestbook-pss.json") -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(signed(name))
    return found


def resource(text: Mapping[str, Any], name: str) -> dict[str, Any]:
    return next(each for each in text["component"]["resources"] if each["name"] == name)


def encoded(text: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode(text)


@pytest.mark.parametrize("name", FILES)
def test_what_ocm_signed_is_verified_and_has_its_normal_form(name: str) -> None:
    verify(signed(name), trusted("public.pem", "ca.pem", "certificate.pem"), NOW)
    expected = SIGNED / f"{name.partition('-')[0]}.normal"
    assert normal_form(signed(name)) == expected.read_bytes()


@pytest.mark.parametrize("name", FILES)
def test_another_key_verifies_nothing(name: str) -> None:
    with pytest.raises(Unverified, match="trusted"):
        verify(signed(name), public(), NOW)


def accepted_and_refused(name: str, mask: int) -> tuple[list[bytes], int]:
    """Return which descriptors with one byte flipped are accepted, and how many are refused."""
    keys, original, accepted = trusted("certificate.pem", "ca.pem"), signed(name), []
    for place in range(len(original)):
        flipped = original[:place] + bytes([original[place] ^ mask]) + original[place + 1 :]
        try:
            verify(flipped, keys, NOW)
        except Unverified:
            continue
        accepted.append(flipped)
    return accepted, len(original) - len(accepted)


@pytest.mark.parametrize("mask", [0x01, 0x20, 0x80])
@pytest.mark.parametrize("name", ["guestbook-pss.json", "guestbook-pkcs1.json", "guestbook-chain.json"])
def test_flipped_byte_is_refused_unless_the_normal_form_is_the_same(name: str, mask: int) -> None:
    accepted, refused = accepted_and_refused(name, mask)
    assert refused > len(signed(name)) / 2
    assert bool(accepted) is (mask != 0x80)
    for flipped in accepted:
        assert normal_form(flipped) == normal_form(signed(name))


ODD: tuple[Any, ...] = (None, [], {}, "", "\ud800", "none", 7, -1.5, True, [[]], {"a": None})


def places(value: Any) -> Iterable[tuple[Any, Any]]:
    """Yield each place within a document, as the object or list and the key or index there."""
    for key, part in value.items() if isinstance(value, dict) else enumerate(value if isinstance(value, list) else ()):
        yield value, key
        yield from places(part)


def test_any_value_in_any_place_is_refused_or_installs_the_same() -> None:
    text, accepted = sign(installable(), KEY), 0
    for parent, key in list(places(text)):
        before = parent[key]
        for odd in ODD:
            parent[key] = odd
            changed = json.dumps(text).encode()
            try:
                verify(changed, public(), NOW)
                accepted += check_descriptor(changed)
            except Unverified:
                continue
        parent[key] = before
    assert accepted > 100


def test_what_is_installed_is_a_function_of_the_normal_form() -> None:
    """Access, media types, labels, repository contexts, images, other schemas and doubled keys change nothing."""
    accepted = 0
    for seed in range(1_500):
        with suppress(Unverified):
            accepted += check_descriptor(hostile_descriptor(random.Random(seed)))  # noqa: S311 - repeatable
    assert accepted > 100


EVIL = {
    "resources": [{"name": "raw-manifest", "access": {"type": "localBlob", "localReference": f"sha256:{'6' * 64}"}}]
}
SECOND_SCHEMA = {"apiVersion": "ocm.software/v3alpha1", "metadata": {"name": "n", "version": "1"}, "spec": EVIL}


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        (SECOND_SCHEMA, "unknown field"),
        ({"apiVersion": "ocm.software/v3alpha1"}, "unknown field"),
        ({"spec": EVIL}, "unknown field"),
        ({"Component": EVIL}, "unknown field"),
        ({"repositoryContexts": []}, "unknown field"),
    ],
)
def test_signed_descriptor_with_another_schema_or_field_is_refused(more: dict[str, Any], problem: str) -> None:
    with pytest.raises(Unverified, match=problem):
        verify(encoded(document() | more), trusted("public.pem"), NOW)


@pytest.mark.parametrize(
    "key", ["resources", "localReference", "imageReference", "schemaVersion", "value", "signatures"]
)
def test_signed_descriptor_with_a_key_twice_is_refused(key: str) -> None:
    text = signed("guestbook-pss.json")
    place = text.index(f'"{key}":'.encode())
    twice = text[:place] + f'"{key}":null,'.encode() + text[place:]
    with pytest.raises(Unverified, match=f"key '{key}' twice"):
        verify(twice, trusted("public.pem"), NOW)


def test_key_that_is_there_twice_is_found_among_any_number_in_linear_time() -> None:
    def text(keys: int) -> bytes:
        meta = ",".join(f'"{number}":0' for number in (*range(keys), keys - 1))
        return encoded(document()).removesuffix(b"}") + b',"meta":{%s}}' % meta.encode()

    def read(text: bytes) -> None:
        with pytest.raises(Unverified, match=r"key '\d+' twice"):
            normal_form(text)

    assert is_linear(read, text, size=2_000)


def test_descriptor_with_two_schemas_is_unreadable_also_without_a_signature() -> None:
    with pytest.raises(DescriptorUnreadable, match="keep one of the schemas"):
        component_of(msgspec.Raw(encoded(document() | SECOND_SCHEMA)))


def test_signature_of_ours_is_verified_and_replaces_an_earlier_one_of_its_name() -> None:
    unsigned = {"component": document()["component"]}
    once = sign(unsigned, KEY, "release")
    assert once == sign(unsigned, KEY, "release")
    verify(encoded(once), public(), NOW)
    twice = sign(sign(once, KEY, "release"), KEY, "another")
    verify(encoded(twice), public(), NOW)
    assert [each["name"] for each in twice["signatures"]] == ["release", "another"]


def test_one_valid_signature_among_others_is_enough() -> None:
    verify(encoded(sign(document("guestbook-pkcs1.json"), KEY, "another")), public(), NOW)


def test_descriptor_without_signature_and_one_with_too_many_are_refused() -> None:
    text = document()
    with pytest.raises(Unverified, match="has no signature"):
        verify(encoded({"component": text["component"]}), public(), NOW)
    with pytest.raises(Unverified, match="more than 16 signatures"):
        verify(encoded(text | {"signatures": text["signatures"] * 17}), trusted("public.pem"), NOW)


@pytest.mark.parametrize(
    ("part", "change", "problem"),
    [
        ("digest", {"hashAlgorithm": "SHA-1"}, "unsupported digest 'SHA-1'"),
        ("digest", {"normalisationAlgorithm": "none"}, "unsupported digest"),
        ("digest", {"value": "not hex"}, "not hex digits"),
        ("digest", {"value": "00"}, "changed after it was signed"),
        ("signature", {"mediaType": "text/plain"}, "unsupported media type"),
        ("signature", {"value": "zz"}, "not hex digits"),
        ("signature", {"value": ""}, "not by any of the trusted keys"),
        ("signature", {"mediaType": "application/vnd.ocm.signature.rsa"}, "not by any of the trusted keys"),
        ("signature", {"mediaType": "application/x-pem-file"}, "not PEM"),
    ],
)
def test_signature_that_says_something_else_is_refused(part: str, change: Mapping[str, str], problem: str) -> None:
    text = document()
    text["signatures"][0][part] |= change
    with pytest.raises(Unverified, match=problem):
        verify(encoded(text), trusted("public.pem"), NOW)


@pytest.mark.parametrize(
    ("until", "problem"), [(NOW - timedelta(days=1), "expired at"), (NOW + timedelta(days=60), "is not valid before")]
)
def test_certificate_that_is_not_in_force_proves_nothing(until: datetime, problem: str) -> None:
    text = encoded(sign({"component": document()["component"]}, KEY))
    verify(text, keys_in({"tls.crt": certificate(until=NOW + timedelta(days=1))}), NOW)
    with pytest.raises(Unverified, match=f"tls.crt {problem}"):
        verify(text, keys_in({"tls.crt": certificate(until=until)}), NOW)
    verify(text, keys_in({"tls.crt": certificate(until=until) + certificate(until=NOW + timedelta(days=1))}), NOW)


def test_chain_that_has_expired_or_has_another_ca_is_refused() -> None:
    verify(signed("guestbook-chain.json"), trusted("ca.pem"), NOW)
    later = NOW.replace(year=2200)
    for name, now in (("certificate.pem", NOW), ("public.pem", NOW), ("ca.pem", later)):
        with pytest.raises(Unverified):
            verify(signed("guestbook-chain.json"), trusted(name), now)


def label(text: dict[str, Any], name: str) -> dict[str, Any]:
    return next(each for each in text["component"]["labels"] if each["name"] == name)


def test_only_labels_marked_as_signed_are_signed() -> None:
    keys, text = trusted("public.pem"), document()
    label(text, "example.org/unsigned")["value"] = "changed"
    label(text, "example.org/signed")["version"] = "v2"
    text["component"]["labels"].append({"name": "added", "value": 1, "signing": False})
    verify(encoded(text), keys, NOW)
    label(text, "added")["signing"] = True
    with pytest.raises(Unverified, match="changed after"):
        verify(encoded(text), keys, NOW)
    label(text, "added")["signing"] = False
    label(text, "example.org/signed")["signing"] = False
    with pytest.raises(Unverified, match="changed after"):
        verify(encoded(text), keys, NOW)


def test_version_of_a_signed_label_counts_as_for_the_program_of_ocm() -> None:
    component = {
        "name": "kyma-project.io/module/one",
        "version": "1.0.0+build.5",
        "provider": "kyma-project.io",
        "creationTime": "2026-11-30T01:38:41Z",
        "labels": [{"name": "a", "value": "x", "version": "v1", "signing": True}],
        "resources": [
            {
                "name": name,
                "version": "1.0.0",
                "type": kind,
                "relation": "local",
                "digest": digest_of(BLOB_DIGEST, value),
            }
            for name, kind, value in (
                ("raw-manifest", "directoryTree", "a4e8fcf91fb3497f0505a66539f960163bf71c2dc2ba4bc7b33904c0e68505f1"),
                ("moduletemplate", "PlainText", "204882c51ec06f6ab8e1828fd3aa5cc1b8275519a7eeba01d4bf8dab958aa937"),
            )
        ],
    }
    content = normal_form(encoded({"component": component}))
    signed_by_ocm = "36d1e694995b573cf3779569afac10b185d51a11f0e28f6362b3eb84e8e8203a"
    assert hashlib.sha256(content).hexdigest() == signed_by_ocm


def test_version_of_a_label_may_be_null_as_dataclasses_of_python_are_written() -> None:
    text = document()
    text["component"]["labels"] = [{"name": "a", "value": "x", "version": None, "signing": True}]
    without = document()
    without["component"]["labels"] = [{"name": "a", "value": "x", "signing": True}]
    assert normal_form(encoded(text)) == normal_form(encoded(without))


def test_what_changes_on_the_way_between_registries_is_not_signed() -> None:
    text = document()
    text["component"]["repositoryContexts"] = []
    resource(text, "raw-manifest")["access"] = {"type": "elsewhere"}
    resource(text, "raw-manifest")["srcRefs"] = []
    text["component"]["sources"][0]["access"] = {"type": "elsewhere"}
    text |= {"meta": {"schemaVersion": "v3"}, "nestedDigests": []}
    verify(encoded(text), trusted("public.pem"), NOW)


def changes() -> Iterable[tuple[str, dict[str, Any], str]]:
    evil = f"sha256:{'6' * 64}"
    yield "raw-manifest", {"access": {"type": "localBlob", "localReference": evil}}, "another digest than its layer"
    yield "raw-manifest", {"access": {"type": "ociBlob", "digest": evil}}, "another digest than its layer"
    yield "raw-manifest", {"access": {"type": "elsewhere"}}, "another digest than its layer"
    yield "raw-manifest", {"access": None}, "another digest than its layer"
    yield "raw-manifest", {"access": {"type": "none", "localReference": evil}}, "access type none"
    yield "raw-manifest", {"digest": None}, "has no digest"
    yield "raw-manifest", {"labels": [{"name": OCI_REGISTRY_CRED, "value": {"a": "b"}}]}, "is not signed"
    yield "raw-manifest", {"labels": [{"name": OCI_REGISTRY_CRED, "value": 1, "signing": True}]}, "must be an object"
    yield "guestbook", {"name": "raw-manifest"}, "two resources 'raw-manifest'"
    excluded = {"hashAlgorithm": "NO-DIGEST", "normalisationAlgorithm": "EXCLUDE-FROM-SIGNATURE", "value": "NO-DIGEST"}
    yield "guestbook", {"digest": excluded}, "has no digest"
    yield "guestbook", {"digest": document()["component"]["resources"][0]["digest"]}, "has no digest"
    yield "guestbook", {"access": "text"}, "no normal form"
    yield "guestbook", {"access": None}, "has no imageReference"
    yield "guestbook", {"access": {"type": "localBlob", "localReference": evil}}, "has no imageReference"
    images = {
        f"evil.example.org/guestbook:1.2.0@{evil}": "another digest",
        "registry.example.org/other:1.2.0": "name and version, which are signed, say 'guestbook:1.2.0'",
        "registry.example.org/guestbook:1.2.1": "name and version, which are signed",
        "registry.example.org/guestbook:v1.2.0": "name and version, which are signed",
        "registry.example.org/guestbook:1.2.0/": "name and version, which are signed",
    }
    for image, problem in images.items():
        yield "guestbook", {"access": {"type": "ociArtifact", "imageReference": image}}, problem
    yield "guestbook", {"access": {"type": "None", "imageReference": "evil.example.org/guestbook:1.2.0"}}, "type none"


@pytest.mark.parametrize(("name", "change", "problem"), [*changes()])
def test_content_without_its_signed_digest_and_name_is_refused(
    name: str, change: Mapping[str, Any], problem: str
) -> None:
    text = installable()
    resource(text, name).update(change)
    with pytest.raises(Unverified, match=problem):
        signed_component(encoded(text))


def test_images_are_named_by_what_is_signed_of_them() -> None:
    component = signed_component(encoded(installable()))
    image = f"sha256:{'2' * 64}"
    assert component.images == (
        f"registry.example.org/guestbook:1.2.0@{image}",
        f"registry.example.org/deep/sidecar:main@{image}",
    )
    assert component.layers == {"raw-manifest": f"sha256:{'1' * 64}"}
    assert component.archives == {"raw-manifest"}
    assert component.credentials == {"raw-manifest": {"registry": "guestbook"}}
    assert (component.repository, component.path) == ("registry.example.org/modules", "example.org/module/guestbook")


@pytest.mark.parametrize(
    ("name", "version", "reference", "image"),
    [
        ("a", "1.0.0", "r.org/a:1.0.0", "r.org/a:1.0.0@{}"),
        ("a", "v1.0.0", "r.org:5000/p/a:v1.0.0", "r.org:5000/p/a:v1.0.0@{}"),
        ("a", "0.0.0-main", "r.org/a:main", "r.org/a:main@{}"),
        ("a", "1.0.0", "a:1.0.0", "a:1.0.0@{}"),
        ("a", "1.0.0", "r.org/a@{}", "r.org/a:1.0.0@{}"),
        ("a-22222222", "1.0.0+sha256.222222222222", "r.org/a:1.0.0@{}", "r.org/a:1.0.0@{}"),
        ("a-22222222", "0.0.0-x+sha256.222222222222", "r.org/a:x@{}", "r.org/a:x@{}"),
        ("a-22222222", "0.0.0+sha256.222222222222", "r.org/a@{}", "r.org/a@{}"),
    ],
)
def test_image_resources_of_modulectl_are_understood(name: str, version: str, reference: str, image: str) -> None:
    text, digest = installable(), f"sha256:{'2' * 64}"
    change = {"name": name, "version": version, "access": {"imageReference": reference.format(digest)}}
    resource(text, "guestbook").update(change)
    assert image.format(digest) in signed_component(encoded(text)).images


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b'{"component":{"name":1,"version":"1","provider":"p"}}',
        b'{"component":{"name":"n","version":"1"}}',
        b'{"component":{"name":"n","version":"1","provider":""}}',
        b'{"component":{"name":"n","version":"1","provider":"{"}}',
        b'{"apiVersion":"ocm.software/v3alpha1","metadata":{}}',
        b'{"component":{"name":"n","version":"1","provider":"p","labels":[{"name":"l","signing":true,"value":1e999}]}}',
        b'{"component":{"name":"n","version":"1","provider":"p","labels":[{"signing":true,"value":' + b"[" * 9999,
        b'{"component":{"name":"n","version":"1","provider":"p","labels":[{"signing":true,"value":'
        + b"9" * 400
        + b"}]}}",
    ],
)
def test_descriptor_without_a_normal_form_is_refused(text: bytes) -> None:
    with pytest.raises(Unverified):
        verify(text, public(), NOW)


def test_sizes_are_bounded() -> None:
    text, large = document(), document()
    large["component"]["labels"].append({"name": "large", "value": "x" * MAX_BYTES})
    with pytest.raises(Unverified, match="more than 1048576 bytes"):
        verify(encoded(large), trusted("public.pem"), NOW)
    head = "-----BEGIN SIGNATURE-----\nSignature Algorithm: RSASSA-PSS\n\n"
    text["signatures"][0]["signature"] |= {"mediaType": PEM_TYPE, "value": head + "\n" * MAX_PEM_LENGTH}
    with pytest.raises(Unverified, match="of 64 KiB at most"):
        verify(encoded(text), trusted("public.pem"), NOW)


def test_keys_that_prove_nothing_are_named() -> None:
    ec = generate_ec_key(SECP256R1())
    weak = generate_private_key(65537, MIN_RSA_BITS // 2)
    for data in (
        {},
        {"key": b"text"},
        {"key": PEM_KEY},
        {"key": b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----"},
        {"key": weak.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)},
    ):
        with pytest.raises(KeyUnreadable):
            keys_in(data)
    of_ecdsa = ec.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    for text in (b"text", of_ecdsa, weak.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())):
        with pytest.raises(KeyUnreadable, match=r"key\.pem"):
            private_key_in(text, "key.pem")
    assert private_key_in(PEM_KEY, "key.pem").private_numbers() == KEY.private_numbers()
