"""Our profile of RFC 9421, compared with an implementation of the whole standard."""

import base64
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import http_message_signatures as standard
import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from hypothesis import given
from hypothesis import strategies as st

from kyma_certs import Algorithm, KeyPair, LeafRequest, create_ca, describe, issue
from kyma_certs.message_signatures import (
    COMPONENTS,
    SignatureParameters,
    SignatureRejected,
    algorithm_of,
    content_digest,
    load_signing_key,
    read_parameters,
    sign,
    verify,
)

NOW = datetime.now(UTC)
URL = "https://kcp.example/v2/lifecycle-manager/event"
CA = create_ca("ca", lifetime=timedelta(days=1), now=NOW)
PAIRS = {
    algorithm: issue(CA, LeafRequest(common_name="runtime", algorithm=algorithm), now=NOW)
    for algorithm in (Algorithm.ECDSA_P256, Algorithm.ED25519)
}
ALGORITHMS = {
    Algorithm.ECDSA_P256: standard.algorithms.ECDSA_P256_SHA256,
    Algorithm.ED25519: standard.algorithms.ED25519,
}


def parameters(pair: KeyPair) -> SignatureParameters:
    now = int(time.time())
    alg = algorithm_of(load_signing_key(pair.key_pem))
    return SignatureParameters(now, now + 60, "a-nonce-of-length", describe(pair.certificate_pem).sha256, alg)


def signed(pair: KeyPair, body: bytes) -> dict[str, str]:
    return sign(URL, body, load_signing_key(pair.key_pem), parameters(pair))


def check(pair: KeyPair, body: bytes, fields: dict[str, str], url: str = URL) -> None:
    verify(
        url,
        body,
        digest=fields["Content-Digest"],
        signature=fields["Signature"],
        parameters=read_parameters(fields["Signature-Input"]),
        key=x509.load_pem_x509_certificate(pair.certificate_pem).public_key(),
    )


class Keys(standard.HTTPSignatureKeyResolver):
    def __init__(self, pair: KeyPair) -> None:
        self.pair = pair

    def resolve_private_key(self, key_id: str) -> Any:
        return load_pem_private_key(self.pair.key_pem, password=None)

    def resolve_public_key(self, key_id: str) -> Any:
        return x509.load_pem_x509_certificate(self.pair.certificate_pem).public_key()


@pytest.mark.parametrize("algorithm", PAIRS)
def test_reference_implementation_accepts_our_signature(algorithm: Algorithm) -> None:
    pair = PAIRS[algorithm]
    fields = signed(pair, b"{}")
    request = httpx.Request("POST", URL, headers=fields, content=b"{}")
    verifier = standard.HTTPMessageVerifier(
        signature_algorithm=ALGORITHMS[algorithm],
        key_resolver=Keys(pair),
        component_resolver_class=standard.HTTPSignatureComponentResolver,
    )
    (result,) = verifier.verify(request, expect_tag="kyma-watch-event")
    assert set(result.covered_components) >= {'"@method"', '"@target-uri"', '"content-digest"', '"content-type"'}


@pytest.mark.parametrize("algorithm", PAIRS)
def test_signature_of_the_reference_implementation_is_accepted(algorithm: Algorithm) -> None:
    pair = PAIRS[algorithm]
    body = b'{"watched": {}}'
    fields = {"Content-Type": "application/json", "Content-Digest": content_digest(body)}
    request = httpx.Request("POST", URL, headers=fields, content=body)
    signer = standard.HTTPMessageSigner(
        signature_algorithm=ALGORITHMS[algorithm],
        key_resolver=Keys(pair),
        component_resolver_class=standard.HTTPSignatureComponentResolver,
    )
    signer.sign(
        request,
        key_id=describe(pair.certificate_pem).sha256,
        created=NOW,
        expires=NOW + timedelta(seconds=60),
        nonce="a-nonce-of-length",
        tag="kyma-watch-event",
        label="kyma",
        include_alg=True,
        use_existing_digest=True,
        covered_component_ids=("@method", "@target-uri", "content-digest", "content-type"),
    )
    from_standard = {name.title(): value for name, value in request.headers.items()}
    check(pair, body, from_standard)


@pytest.mark.parametrize("algorithm", PAIRS)
@pytest.mark.parametrize("field", ["Content-Digest", "Signature", "Signature-Input"])
def test_changed_field_is_rejected(algorithm: Algorithm, field: str) -> None:
    pair = PAIRS[algorithm]
    fields = signed(pair, b"{}")
    other = sign(URL, b"[]", load_signing_key(pair.key_pem), parameters(pair))
    later = str(parameters(pair)).replace("expires=", "expires=9")
    changed = {"Signature-Input": f"kyma={later}"} if field == "Signature-Input" else {field: other[field]}
    with pytest.raises(SignatureRejected):
        check(pair, b"{}", fields | changed)


def test_changed_body_or_url_is_rejected() -> None:
    pair = PAIRS[Algorithm.ECDSA_P256]
    fields = signed(pair, b"{}")
    with pytest.raises(SignatureRejected):
        check(pair, b"{ }", fields)
    with pytest.raises(SignatureRejected):
        check(pair, b"{}", fields, url=URL.replace("v2", "v3"))


def test_signature_by_another_key_is_rejected() -> None:
    mine, other = PAIRS[Algorithm.ECDSA_P256], issue(CA, LeafRequest(common_name="runtime"), now=NOW)
    with pytest.raises(SignatureRejected):
        check(other, b"{}", signed(mine, b"{}"))


def test_algorithm_that_does_not_match_the_key_is_rejected() -> None:
    pair = PAIRS[Algorithm.ECDSA_P256]
    fields = signed(pair, b"{}")
    confused = {"Signature-Input": fields["Signature-Input"].replace("ecdsa-p256-sha256", "ed25519")}
    with pytest.raises(SignatureRejected):
        check(pair, b"{}", fields | confused)


def test_rsa_signing_key_is_refused() -> None:
    pair = issue(CA, LeafRequest(common_name="runtime", algorithm=Algorithm.RSA), now=NOW)
    with pytest.raises(ValueError, match="P-256"):
        load_signing_key(pair.key_pem)


@given(st.text(max_size=300))
def test_any_signature_input_is_read_or_rejected(text: str) -> None:
    try:
        read_parameters(text)
    except SignatureRejected:
        return
    assert text.startswith(f"kyma={COMPONENTS}")


@given(st.binary(max_size=200))
def test_random_signature_is_rejected(raw: bytes) -> None:
    pair = PAIRS[Algorithm.ECDSA_P256]
    fields = signed(pair, b"{}")
    with pytest.raises(SignatureRejected):
        check(pair, b"{}", fields | {"Signature": f"kyma=:{base64.b64encode(raw).decode()}:"})
