"""Signatures by cosign: which prove that somebody vouches for a digest."""

from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import nullcontext
from datetime import UTC, datetime
from itertools import product
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256, SHA384, SHA512
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from kyma_oci import (
    Artifact,
    Components,
    ComponentVersion,
    Login,
    LookupFailed,
    Registries,
    SourceError,
    SourceUnreachable,
)
from kyma_oci.limits import MAX_BYTES
from kyma_oci.packing import MANIFEST, ArtifactManifest
from kyma_oci.problems import LayerNotFound, RegistryBusy
from kyma_oci.references import Wanted
from kyma_oci.signatures.cosign import (
    MAX_SIGNATURES,
    PAYLOAD_TYPE,
    PREDICATE,
    SIGNATURE,
    Cosigned,
    layers_in,
    signature_tag,
    signed_in,
    verify_cosigned,
)
from kyma_oci.signatures.keys import TrustedKey, keys_in
from kyma_oci.signatures.normal_form import Unverified
from lifecycle_manager.module_sources.parsing import read_yaml
from tests.bundles import BUNDLE, bundle, statement
from tests.registries import BlobServer, blob_server

NOW = datetime(2026, 7, 1, tzinfo=UTC)
DIGEST, OTHER = f"sha256:{'1' * 64}", f"sha256:{'2' * 64}"
TAG, NEXT = DIGEST.replace(":", "-"), "2"
EMPTY = "application/vnd.oci.empty.v1+json"
ECDSA_KEY, RSA_KEY = ec.generate_private_key(ec.SECP256R1()), rsa.generate_private_key(65537, 2048)


async def no_login(_: str) -> None:
    return None


def key(private: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> tuple[TrustedKey, ...]:
    pem = private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return keys_in({"cosign.pub": pem})


def claim(digest: str = DIGEST, kind: str = "cosign container image signature") -> bytes:
    image = {"docker-manifest-digest": digest}
    critical = {"identity": {"docker-reference": ""}, "image": image, "type": kind}
    return msgspec.json.encode({"critical": critical, "optional": None})


def by_ecdsa(payload: bytes) -> Cosigned:
    return Cosigned(payload, ECDSA_KEY.sign(payload, ec.ECDSA(SHA256())))


def in_bundle(digest: str = DIGEST, **changed: str) -> Cosigned:
    (signed,) = signed_in(bundle(digest, ECDSA_KEY, **changed))
    return signed


def by_rsa(payload: bytes) -> Cosigned:
    return Cosigned(payload, RSA_KEY.sign(payload, PKCS1v15(), SHA256()))


def test_signature_by_a_trusted_key_is_verified_among_others() -> None:
    both = (by_ecdsa(claim()), by_rsa(claim()))
    verify_cosigned(DIGEST, both, key(ECDSA_KEY), NOW)
    verify_cosigned(DIGEST, both, key(RSA_KEY), NOW)
    verify_cosigned(DIGEST, (by_ecdsa(claim(OTHER)), by_ecdsa(claim())), key(ECDSA_KEY), NOW)
    verify_cosigned(DIGEST, (by_rsa(claim()), in_bundle(OTHER), in_bundle()), key(ECDSA_KEY), NOW)


@pytest.mark.parametrize("curve", [ec.SECP384R1(), ec.SECP521R1()])
@pytest.mark.parametrize("hashed", [SHA256, SHA384, SHA512])
def test_larger_key_signs_the_hash_of_its_size_or_as_before_cosign_3(
    curve: ec.EllipticCurve, hashed: type[SHA256 | SHA384 | SHA512]
) -> None:
    private = ec.generate_private_key(curve)
    signed = Cosigned(claim(), private.sign(claim(), ec.ECDSA(hashed())))
    is_used = hashed is SHA256 or hashed.digest_size == min(curve.key_size // 8, 64)
    with nullcontext() if is_used else pytest.raises(Unverified, match="no signature"):
        verify_cosigned(DIGEST, (signed,), key(private), NOW)


@pytest.mark.parametrize(
    ("signed", "problem"),
    [
        ((), "no signature of sha256:1"),
        ((by_rsa(claim()),), "no signature of sha256:1"),
        ((by_ecdsa(claim(OTHER)),), "cosign signed 'sha256:2"),
        ((by_ecdsa(claim(kind="another")),), "cosign signed"),
        ((by_ecdsa(b"text"),), "unreadable"),
        ((Cosigned(claim(), b""),), "no signature"),
        ((in_bundle(OTHER),), "cosign signed 'sha256:2"),
        ((in_bundle(predicate="https://slsa.dev/provenance/v1"),), "cosign signed"),
        ((in_bundle(kind="text/plain"),), "no signature"),
        ((by_ecdsa(b"DSSEv1 10 text/plain 9 " + statement(DIGEST)),), "cosign signed"),
        ((by_ecdsa(b"DSSEv1 "),), "unreadable"),
    ],
)
def test_signature_for_something_else_is_refused(signed: tuple[Cosigned, ...], problem: str) -> None:
    with pytest.raises(Unverified, match=problem):
        verify_cosigned(DIGEST, signed, key(ECDSA_KEY), NOW)


@pytest.mark.parametrize("mask", [0x01, 0x20, 0x80])
def test_no_byte_of_what_cosign_signed_can_be_flipped(mask: int) -> None:
    for signed, content in product((by_ecdsa(claim()), in_bundle()), ("payload", "signature")):
        original: bytes = getattr(signed, content)
        for place in range(len(original)):
            flipped = original[:place] + bytes([original[place] ^ mask]) + original[place + 1 :]
            with pytest.raises(Unverified):
                verify_cosigned(DIGEST, (signed._replace(**{content: flipped}),), key(ECDSA_KEY), NOW)


def test_signed_texts_are_named_in_the_manifest_of_the_signatures() -> None:
    assert signature_tag(DIGEST) == f"sha256-{'1' * 64}.sig"
    layer = {"mediaType": PAYLOAD_TYPE, "digest": OTHER, "annotations": {SIGNATURE: b64encode(b"signature").decode()}}
    image = {"mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": OTHER, "annotations": None}
    assert layers_in(msgspec.convert({"layers": [layer, image]}, ArtifactManifest)) == ((OTHER, b"signature"),)


def listed(*digests: str, **changed: Any) -> bytes:
    parts = [{"mediaType": MANIFEST, "digest": each, "artifactType": BUNDLE, **changed} for each in digests]
    return msgspec.json.encode({"manifests": parts})


@pytest.mark.parametrize(
    ("answers", "found"),
    [
        (lambda it: {DIGEST: listed(it)}, 1),
        (lambda it: {TAG: listed(OTHER, it)}, 1),  # the first is not there any more
        (lambda it: {DIGEST: b"<html>", TAG: listed(it)}, 1),
        (lambda it: {TAG: listed(it, artifactType=EMPTY)}, 1),  # by cosign 3.0
        (lambda it: {DIGEST: listed(), TAG: listed(it)}, 1),
        (lambda it: {DIGEST: listed(OTHER), NEXT: listed(it)}, 1),
        (lambda it: {DIGEST: listed(it, annotations={PREDICATE: "https://slsa.dev/provenance/v1"})}, 0),
        (lambda it: {TAG: listed(it, artifactType="")}, 0),  # the artifact itself, whose digest the tag is taken for
        (lambda _: {}, 0),
    ],
)
async def test_bundles_are_found_in_each_list_of_what_refers_to_an_artifact(
    answers: Callable[[str], dict[str, bytes]], found: int
) -> None:
    async with blob_server() as server:
        server.blobs |= answers(held(server, bundle(DIGEST, ECDSA_KEY)))
        server.following = {DIGEST: NEXT} if NEXT in server.blobs else {}
        assert await payloads(server) == [in_bundle().payload] * found


async def test_attestation_that_is_too_large_hides_no_signature() -> None:
    async with blob_server() as server:
        referring = [held(server, content) for content in (bytes(MAX_BYTES + 1), bundle(DIGEST, ECDSA_KEY))]
        server.blobs[TAG] = listed(*referring, artifactType=EMPTY)
        assert await payloads(server) == [in_bundle().payload]


def held(server: BlobServer, content: bytes) -> str:
    """Hold an artifact with one layer."""
    return server.hold(msgspec.json.encode({"layers": [{"mediaType": BUNDLE, "digest": server.hold(content)}]}))


async def payloads(server: BlobServer) -> list[bytes]:
    """Return what cosign signed for the digest, as a registry has it."""
    registries = Registries()
    components = Components(registries, no_login, read_yaml, f"http://{server.host}/modules")
    signed = await components.cosigned(ComponentVersion("kyma-project.io/one", "1.0.0"), DIGEST)
    await registries.close()
    return [each.payload for each in signed]


class BrokenList(Registries):
    def __init__(self, *known: bytes, error: SourceError) -> None:
        super().__init__()
        self.known, self.error = known, error

    async def pages(self, wanted: Artifact, login: Login | None = None) -> AsyncIterator[bytes]:
        for each in self.known:
            yield each
        raise self.error

    async def pull(self, wanted: Wanted, login: Login | None = None) -> bytes:
        raise LayerNotFound("404")


@pytest.mark.parametrize(
    "registries",
    [BrokenList(error=RegistryBusy("429", 7)), BrokenList(listed(), error=SourceUnreachable("answers 429 again"))],
)
async def test_list_that_a_registry_does_not_send_whole_is_not_taken_for_empty(registries: Registries) -> None:
    components = Components(registries, no_login, read_yaml, "registry.example.com/modules")
    with pytest.raises(LookupFailed, match="429"):
        await components.cosigned(ComponentVersion("kyma-project.io/one", "1.0.0"), DIGEST)


async def test_no_more_than_fifty_pages_of_a_list_are_read() -> None:
    async with blob_server() as server:
        server.blobs[DIGEST], server.following = listed(), {DIGEST: DIGEST}
        registries = Registries()
        components = Components(registries, no_login, read_yaml, f"http://{server.host}/modules")
        with pytest.raises(LookupFailed, match="more than 50 pages"):
            await components.cosigned(ComponentVersion("kyma-project.io/one", "1.0.0"), DIGEST)
        await registries.close()


@pytest.mark.parametrize(
    "layer",
    [
        {"mediaType": PAYLOAD_TYPE, "digest": OTHER, "annotations": {SIGNATURE: "!"}},
        {"mediaType": PAYLOAD_TYPE, "digest": OTHER, "annotations": {SIGNATURE: "ä"}},
    ],
)
def test_manifest_without_readable_signatures_is_refused(layer: Mapping[str, Any]) -> None:
    with pytest.raises(Unverified, match="unreadable"):
        layers_in(msgspec.convert({"layers": [layer]}, ArtifactManifest))


def test_number_of_signatures_is_bounded() -> None:
    layer = {"mediaType": PAYLOAD_TYPE, "digest": OTHER, "annotations": {SIGNATURE: "AAAA"}}
    with pytest.raises(Unverified, match="more than 16"):
        layers_in(msgspec.convert({"layers": [layer] * (MAX_SIGNATURES + 1)}, ArtifactManifest))
