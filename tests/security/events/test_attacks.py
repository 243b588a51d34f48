"""What an attacker may try on the event endpoint. Nothing of it reaches a subscriber, and each gets its answer."""

import base64
import re
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import httpx
import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from prometheus_client import CollectorRegistry

from kube_runtime import Clock
from kube_runtime.leases.handover import NotHandedOver
from kyma_certs import Algorithm, KeyPair, LeafRequest, Usage, create_ca, describe, issue
from kyma_certs.message_signatures import SignatureParameters, algorithm_of, content_digest, load_signing_key, sign
from lifecycle_manager.events.endpoint import EndpointOptions, EventEndpoint, UnknownRuntime, VerifiedEvent
from lifecycle_manager.events.problems import Reason, refusal_counter

NOW = datetime.now(UTC).replace(microsecond=0)
CA = create_ca("ca", lifetime=timedelta(days=10), now=NOW)
STRANGER = create_ca("ca", lifetime=timedelta(days=10), now=NOW)
BODY = msgspec.json.encode(
    {
        "watched": {"Namespace": "kyma-system", "Name": "default"},
        "watchedGvk": {"group": "operator.kyma-project.io", "version": "v1beta2", "kind": "Kyma"},
    }
)
PATH = "/v2/lifecycle-manager/event"


def certificate(runtime: str = "mine", *, ca: KeyPair = CA, now: datetime = NOW, **request: Any) -> KeyPair:
    given: dict[str, Any] = {"common_name": runtime, "dns_names": ("a.example",), "lifetime": timedelta(days=1)}
    given |= request
    return issue(ca, LeafRequest(**given), now=now)


MINE = certificate()


def client_cert(pair: KeyPair) -> str:
    der = x509.load_pem_x509_certificate(pair.certificate_pem).public_bytes(serialization.Encoding.DER)
    return f":{base64.b64encode(der).decode()}:"


@dataclass(frozen=True)
class Message:
    """A good message; an attack replaces something of it."""

    body: bytes = BODY
    path: str = PATH
    signed_url: str = f"https://kcp{PATH}"
    pair: KeyPair = MINE
    shown: KeyPair = MINE
    now: int | None = None
    created: int = 0
    lasting: int = 60
    nonce: str = "nonce-of-the-first-message"
    keyid: str = ""
    alg: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    without: tuple[str, ...] = ()
    sent_body: bytes | None = None
    extra: tuple[tuple[str, str], ...] = ()

    def raw_fields(self) -> list[tuple[bytes, bytes]]:
        return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in self.fields()]

    def fields(self) -> list[tuple[str, str]]:
        key = load_signing_key(self.pair.key_pem)
        created = (int(time.time()) if self.now is None else self.now) + self.created
        parameters = SignatureParameters(
            created,
            created + self.lasting,
            self.nonce,
            self.keyid or describe(self.pair.certificate_pem).sha256,
            self.alg or algorithm_of(key),
        )
        signed = sign(self.signed_url, self.body, key, parameters) | {"Client-Cert": client_cert(self.shown)}
        kept = {name: value for name, value in (signed | self.headers).items() if name not in self.without}
        return [*kept.items(), *self.extra]


class EndpointClock(Clock):
    """The endpoint's clock. A test can stop it, so that its requests take no time."""

    stands_at: datetime | None = None

    def now(self) -> datetime:
        return self.stands_at or datetime.now(UTC)

    def monotonic(self) -> float:
        return self.now().timestamp()


class Endpoint:
    def __init__(self, **options: Any) -> None:
        self.taken: list[VerifiedEvent] = []
        self.refused: list[Reason] = []
        self.revoked: dict[str, datetime] = {}
        self.ready = True
        self.handed_over_in_vain = False
        self.clock = EndpointClock()
        app = EventEndpoint(
            trust=lambda: CA.certificate_pem,
            subscriber=self.take,
            ready=lambda: self.ready,
            revoked_before=self.revoked.get,
            count_refusal=self.refused.append,
            options=EndpointOptions(**options),
            clock=self.clock,
        )
        self.client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="https://kcp")

    async def take(self, event: VerifiedEvent) -> None:
        if event.runtime_id == "nobody":
            raise UnknownRuntime(event.runtime_id)
        if self.handed_over_in_vain:
            raise NotHandedOver("its replica did not take it")
        self.taken.append(event)

    async def send(self, message: Message) -> httpx.Response:
        body = message.body if message.sent_body is None else message.sent_body
        return await self.client.post(message.path, content=body, headers=message.raw_fields())


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    endpoint = Endpoint()
    yield endpoint
    await endpoint.client.aclose()


def expired() -> KeyPair:
    return certificate(now=NOW - timedelta(days=5))


def by(pair: KeyPair) -> Callable[[Message], Message]:
    return lambda message: replace(message, pair=pair, shown=pair)


def having(**fields: str) -> Callable[[Message], Message]:
    """Send it with other header fields; an underscore stands for a hyphen."""
    return lambda message: replace(message, headers={name.replace("_", "-"): value for name, value in fields.items()})


def without(name: str) -> Callable[[Message], Message]:
    """Leave a header field out."""
    return lambda message: replace(message, without=(name,))


def twice(name: str, value: str) -> Callable[[Message], Message]:
    """Send a header field once more."""
    return lambda message: replace(message, extra=((name, value),))


def signed_for(url: str) -> Callable[[Message], Message]:
    """Sign it for another address than the one it is sent to."""
    return lambda message: replace(message, signed_url=url)


def other(**change: Any) -> Callable[[Message], Message]:
    """Change something of it before it is signed."""
    return lambda message: replace(message, **change)


ZEROS = base64.b64encode(bytes(64)).decode()
FEWER = f'kyma=("@method");created=1;expires=2;nonce="12345678";keyid="{"0" * 64}";alg="ed25519";tag="kyma-watch-event"'
MY_KEYID = describe(MINE.certificate_pem).sha256
NOBODY = "/v2/nobody/event"


def with_its_digest(message: Message) -> Message:
    """Send another body together with the digest of that."""
    return replace(message, sent_body=b"{}", headers={"Content-Digest": content_digest(b"{}")})


def another_tag(message: Message) -> Message:
    given = dict(message.fields())["Signature-Input"]
    return replace(message, headers={"Signature-Input": given.replace("kyma-watch-event", "other-application")})


ONES = base64.b64encode(b"\xff" * 64).decode()
CODE_SIGNING = ExtendedKeyUsageOID.CODE_SIGNING
CLIENT_AUTH = ExtendedKeyUsageOID.CLIENT_AUTH


def forged(
    issuer: KeyPair | None = None,
    *,
    names: tuple[str, ...] = ("mine",),
    usages: tuple[x509.ObjectIdentifier, ...] = (CLIENT_AUTH,),
    ca: bool = False,
) -> KeyPair:
    """Return a certificate that our own code would not issue; without an issuer it signs itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name) for name in names])
    signer, issuer_name = key, subject
    if issuer is not None:
        loaded = load_signing_key(issuer.key_pem)
        assert isinstance(loaded, ec.EllipticCurvePrivateKey)
        signer, issuer_name = loaded, x509.load_pem_x509_certificate(issuer.certificate_pem).subject
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer_name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - timedelta(minutes=5))
        .not_valid_after(NOW + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("a.example")]), critical=not names)
    )
    if usages:
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    certificate = builder.sign(signer, hashes.SHA256())
    return KeyPair(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )


INTERMEDIATE = forged(STRANGER, names=("intermediate",), ca=True)
RSA = certificate(algorithm=Algorithm.RSA, rsa_key_size=2048)


def resigned(change: Callable[[str], str]) -> Callable[[Message], Message]:
    """Change the signature's parameters and sign what they say then, with one's own key."""

    def attack(message: Message) -> Message:
        text = change(dict(message.fields())["Signature-Input"].removeprefix("kyma="))
        parameters = SignatureParameters(0, 0, "", "", "", text)
        signed = sign(message.signed_url, message.body, load_signing_key(message.pair.key_pem), parameters)
        return replace(message, headers=signed)

    return attack


def with_parameter(text: str) -> Callable[[Message], Message]:
    return resigned(lambda given: given + text)


def without_parameter(name: str) -> Callable[[Message], Message]:
    return resigned(lambda given: re.sub(rf';{name}=("[^"]*"|[0-9]+)', "", given))


def changed_parameter(name: str, value: str) -> Callable[[Message], Message]:
    return resigned(lambda given: re.sub(rf"(;{name}=)[0-9]+", rf"\g<1>{value}", given))


reordered = resigned(lambda given: given.replace('"@method" "@target-uri"', '"@target-uri" "@method"'))
one_component_more = resigned(lambda given: given.replace('"@method"', '"@method" "@authority"'))


def two_in_one(name: str) -> Callable[[Message], Message]:
    """Send a field with two members, the second of which is the good one."""

    def attack(message: Message) -> Message:
        good = dict(message.fields())[name]
        return replace(message, headers={name: f"other=:AAAA:, {good}"})

    return attack


def der_signature(message: Message) -> Message:
    """Sign as TLS does, and not as the standard for messages says."""
    raw = base64.b64decode(dict(message.fields())["Signature"].removeprefix("kyma=:").removesuffix(":"))
    half = len(raw) // 2
    der = encode_dss_signature(int.from_bytes(raw[:half], "big"), int.from_bytes(raw[half:], "big"))
    return replace(message, headers={"Signature": f"kyma=:{base64.b64encode(der).decode()}:"})


def unsigned(message: Message) -> Message:
    """Send it as upstream's Watcher does."""
    return replace(message, without=("Signature", "Signature-Input", "Client-Cert", "Content-Digest"))


def forwarded(message: Message) -> Message:
    """Claim to be a gateway behind which somebody stands."""
    return replace(unsigned(message), headers={"X-Forwarded-Client-Cert": xfcc(MINE)})


def xfcc(pair: KeyPair) -> str:
    """Return what a gateway writes about a certificate."""
    cert, sha256 = quote(pair.certificate_pem, safe=""), describe(pair.certificate_pem).sha256
    return f'By=spiffe://kcp/ns/kcp-system;Hash={sha256};Cert="{cert}"'


ATTACKS: dict[str, tuple[int, Reason, Callable[[Message], Message]]] = {
    "no certificate": (401, Reason.CERTIFICATE, without("Client-Cert")),
    "a certificate that is none": (401, Reason.KEY_ID, having(Client_Cert=":bm9uZQ==:")),
    "a certificate without its colons": (401, Reason.CERTIFICATE, having(Client_Cert=client_cert(MINE)[1:-1])),
    "a certificate that is no base64": (401, Reason.CERTIFICATE, having(Client_Cert=":***:")),
    "a huge certificate": (401, Reason.CERTIFICATE, having(Client_Cert=f":{'A' * 20_000}:")),
    "a certificate of another CA": (401, Reason.CERTIFICATE, by(certificate(ca=STRANGER))),
    "a certificate issued by a leaf": (401, Reason.CERTIFICATE, by(certificate(ca=MINE))),
    "the certificate of the CA": (401, Reason.CERTIFICATE, other(pair=CA, shown=CA)),
    "an expired certificate": (401, Reason.CERTIFICATE, by(expired())),
    "a certificate of the future": (401, Reason.CERTIFICATE, by(certificate(now=NOW + timedelta(days=5)))),
    "a server certificate": (401, Reason.CERTIFICATE, by(certificate(usages=frozenset({Usage.SERVER})))),
    "somebody else's certificate shown": (401, Reason.KEY_ID, other(shown=certificate("theirs"))),
    "somebody else's key used": (401, Reason.SIGNATURE, other(pair=certificate("theirs"), keyid=MY_KEYID)),
    "keyid of another certificate": (401, Reason.KEY_ID, other(keyid="0" * 64)),
    "no signature": (401, Reason.SIGNATURE, without("Signature")),
    "no signature input": (401, Reason.SIGNATURE_INPUT, without("Signature-Input")),
    "no digest": (401, Reason.SIGNATURE, without("Content-Digest")),
    "an empty signature": (401, Reason.SIGNATURE, having(Signature="kyma=::")),
    "a signature of zeros": (401, Reason.SIGNATURE, having(Signature=f"kyma=:{ZEROS}:")),
    "a signature under another label": (401, Reason.SIGNATURE, having(Signature="other=:AAAA:")),
    "another body than signed": (401, Reason.SIGNATURE, other(sent_body=BODY + b" ")),
    "another body with its digest": (401, Reason.SIGNATURE, with_its_digest),
    "a digest by another algorithm": (401, Reason.SIGNATURE, having(Content_Digest="md5=:AAAA:")),
    "signed for another host": (401, Reason.SIGNATURE, signed_for(f"https://elsewhere{PATH}")),
    "signed for another manager": (401, Reason.SIGNATURE, signed_for("https://kcp/v2/other/event")),
    "signed for another scheme": (401, Reason.SIGNATURE, signed_for(f"http://kcp{PATH}")),
    "signed for another query": (401, Reason.SIGNATURE, other(path=f"{PATH}?force=true")),
    "another Host header": (401, Reason.SIGNATURE, having(Host="elsewhere")),
    "fewer components signed": (401, Reason.SIGNATURE_INPUT, having(Signature_Input=FEWER)),
    "another tag": (401, Reason.SIGNATURE_INPUT, another_tag),
    "another algorithm named": (401, Reason.SIGNATURE, other(alg="ed25519")),
    "the algorithm none": (401, Reason.SIGNATURE, other(alg="none")),
    "an HMAC algorithm": (401, Reason.SIGNATURE, other(alg="hmac-sha256")),
    "a window that has passed": (401, Reason.TIME_WINDOW, other(created=-1000)),
    "a window of the future": (401, Reason.TIME_WINDOW, other(created=1000)),
    "a window without end": (401, Reason.TIME_WINDOW, other(lasting=100_000)),
    "a window that ends before it begins": (401, Reason.TIME_WINDOW, other(lasting=-10)),
    "a nonce that is too short": (401, Reason.SIGNATURE_INPUT, other(nonce="short")),
    "signature input twice": (400, Reason.DUPLICATE_FIELD, twice("Signature-Input", "kyma=()")),
    "signature twice": (400, Reason.DUPLICATE_FIELD, twice("Signature", "kyma=:AAAA:")),
    "certificate twice": (400, Reason.DUPLICATE_FIELD, twice("Client-Cert", client_cert(MINE))),
    "digest twice": (400, Reason.DUPLICATE_FIELD, twice("Content-Digest", "sha-256=:AAAA:")),
    "another media type": (415, Reason.MEDIA_TYPE, having(Content_Type="text/plain")),
    "a body that is too large": (413, Reason.TOO_LARGE, other(body=b" " * 20_000)),
    "a body that is no JSON": (400, Reason.MALFORMED, other(body=b"watched")),
    "a body that is no object": (400, Reason.MALFORMED, other(body=b"[]")),
    "a body of wrong types": (400, Reason.MALFORMED, other(body=b'{"watched": {"Name": 7}}')),
    "a deeply nested body": (400, Reason.MALFORMED, other(body=b"[" * 8_000)),
    "an unknown manager": (404, Reason.UNKNOWN_MANAGER, other(path=NOBODY, signed_url=f"https://kcp{NOBODY}")),
    "a runtime that has no Kyma": (403, Reason.UNKNOWN_RUNTIME, by(certificate("nobody"))),
    "a certificate by an intermediate of a stranger": (
        401,
        Reason.CERTIFICATE,
        by(certificate(ca=INTERMEDIATE)),
    ),
    "a certificate that signed itself": (401, Reason.CERTIFICATE, by(forged())),
    "a certificate without a purpose": (401, Reason.CERTIFICATE, by(forged(CA, usages=()))),
    "a certificate for signing code": (401, Reason.CERTIFICATE, by(forged(CA, usages=(CODE_SIGNING,)))),
    "a certificate without a common name": (401, Reason.NO_RUNTIME, by(forged(CA, names=()))),
    "two common names": (401, Reason.NO_RUNTIME, by(forged(CA, names=("mine", "theirs")))),
    "a common name with a newline": (401, Reason.NO_RUNTIME, by(forged(CA, names=("mine\nrole: admin",)))),
    "a common name with a NUL": (401, Reason.NO_RUNTIME, by(forged(CA, names=("mine\0theirs",)))),
    "a common name in another alphabet": (401, Reason.NO_RUNTIME, by(forged(CA, names=("m\u0456ne",)))),
    "a common name with blanks": (401, Reason.NO_RUNTIME, by(forged(CA, names=(" mine ",)))),
    "an algorithm of RSA with a key of P-256": (401, Reason.SIGNATURE, other(alg="rsa-pss-sha512")),
    "a key of RSA": (401, Reason.SIGNATURE, other(shown=RSA, keyid=describe(RSA.certificate_pem).sha256)),
    "a signature in the form of DER": (401, Reason.SIGNATURE, der_signature),
    "a signature whose s is beyond the order": (401, Reason.SIGNATURE, having(Signature=f"kyma=:{ONES}:")),
    "a signature that is no base64": (401, Reason.SIGNATURE, having(Signature=f"kyma=:{'*' * 88}:")),
    "two signatures in one field": (401, Reason.SIGNATURE, two_in_one("Signature")),
    "two inputs in one field": (401, Reason.SIGNATURE_INPUT, two_in_one("Signature-Input")),
    "a parameter twice": (401, Reason.SIGNATURE_INPUT, with_parameter(";created=1")),
    "a parameter that nobody knows": (401, Reason.SIGNATURE_INPUT, with_parameter(";admin=1")),
    "no tag": (401, Reason.SIGNATURE_INPUT, without_parameter("tag")),
    "no nonce": (401, Reason.SIGNATURE_INPUT, without_parameter("nonce")),
    "no end": (401, Reason.SIGNATURE_INPUT, without_parameter("expires")),
    "no beginning": (401, Reason.SIGNATURE_INPUT, without_parameter("created")),
    "a beginning that is no number": (401, Reason.SIGNATURE_INPUT, changed_parameter("created", "-1")),
    "a beginning of a hundred digits": (401, Reason.SIGNATURE_INPUT, changed_parameter("created", "9" * 100)),
    "components in another order": (401, Reason.SIGNATURE_INPUT, reordered),
    "a component more": (401, Reason.SIGNATURE_INPUT, one_component_more),
    "a huge signature input": (401, Reason.SIGNATURE_INPUT, having(Signature_Input="kyma=" + "(" * 20_000)),
    "a nonce that is too long": (401, Reason.SIGNATURE_INPUT, other(nonce="n" * 129)),
    "letters outside of ASCII in the input": (401, Reason.SIGNATURE_INPUT, with_parameter(";\xfc=1")),
    "letters outside of ASCII in the certificate": (401, Reason.CERTIFICATE, having(Client_Cert=":\xfc\xfc\xfc:")),
    "the digest of sha-512 alone": (401, Reason.SIGNATURE, having(Content_Digest="sha-512=:AAAA:")),
    "two digests in one field": (401, Reason.SIGNATURE, two_in_one("Content-Digest")),
    "no signature, no certificate": (401, Reason.UNSIGNED, unsigned),
    "a forwarded certificate and no signature": (401, Reason.UNSIGNED, forwarded),
    "a header of a megabyte": (413, Reason.TOO_LARGE, having(X_Padding="x" * 1_000_000)),
    "a thousand header fields": (413, Reason.TOO_LARGE, other(extra=tuple((f"X-{n}", "x") for n in range(1000)))),
    "media type twice": (400, Reason.DUPLICATE_FIELD, twice("Content-Type", "application/json")),
    "host twice": (400, Reason.DUPLICATE_FIELD, other(extra=(("Host", "kcp"), ("Host", "elsewhere")))),
    "a media type with parameters": (415, Reason.MEDIA_TYPE, having(Content_Type="application/json; charset=utf-7")),
    "no media type": (415, Reason.MEDIA_TYPE, without("Content-Type")),
    "a compressed body": (415, Reason.MEDIA_TYPE, having(Content_Encoding="gzip")),
    "a body of bytes that are no text": (400, Reason.MALFORMED, other(body=b"\xff\xfe{}")),
    "an empty body": (400, Reason.MALFORMED, other(body=b"")),
    "a slash at the end of the path": (404, Reason.UNKNOWN_PATH, other(path="/v2/lifecycle-manager/event/")),
    "a path that climbs": (404, Reason.UNKNOWN_PATH, other(path="/v2/../v2/lifecycle-manager/event/..")),
    "a manager in other letters": (404, Reason.UNKNOWN_MANAGER, other(path="/v2/Lifecycle-Manager/event")),
    "an encoded slash in the path": (401, Reason.SIGNATURE, other(path="/v2/lifecycle-manager%2Fevent")),
}


@pytest.mark.parametrize("attack", ATTACKS)
async def test_attack_reaches_no_subscriber(endpoint: Endpoint, attack: str) -> None:
    status, reason, change = ATTACKS[attack]
    answer = await endpoint.send(change(Message()))
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert msgspec.json.decode(answer.content)["status"] == status
    assert endpoint.taken == []
    assert endpoint.refused == [reason]


async def test_valid_message_is_accepted_for_the_runtime_of_its_certificate(endpoint: Endpoint) -> None:
    answer = await endpoint.send(Message())
    assert answer.status_code == 200
    (event,) = endpoint.taken
    assert event.runtime_id == "mine"


async def test_runtime_in_the_body_is_ignored(endpoint: Endpoint) -> None:
    body = msgspec.json.encode(msgspec.json.decode(BODY) | {"runtime": "theirs", "runtimeId": "theirs"})
    await endpoint.send(Message(body=body))
    assert endpoint.taken[0].runtime_id == "mine"


async def test_replayed_message_is_refused(endpoint: Endpoint) -> None:
    assert (await endpoint.send(Message())).status_code == 200
    assert (await endpoint.send(Message())).status_code == 409
    assert len(endpoint.taken) == 1


async def test_replay_is_refused_to_the_last_fraction_of_its_time(endpoint: Endpoint) -> None:
    """Another event, which comes when the nonce is forgotten, must not make room for a replay."""
    first = Message(now=int(NOW.timestamp()))
    endpoint.clock.stands_at = NOW
    assert (await endpoint.send(first)).status_code == 200
    skew = EndpointOptions().skew_seconds
    endpoint.clock.stands_at = NOW.replace(microsecond=0) + timedelta(seconds=first.lasting + skew + 0.5)
    now = int(endpoint.clock.stands_at.timestamp())
    assert (await endpoint.send(Message(now=now, nonce="nonce-of-another-event"))).status_code == 200
    assert (await endpoint.send(first)).status_code in {401, 409}


async def test_nonce_is_looked_up_before_the_signature_is_computed(endpoint: Endpoint) -> None:
    assert (await endpoint.send(Message())).status_code == 200
    assert (await endpoint.send(Message(sent_body=b"{}"))).status_code == 409


async def test_nonce_of_another_runtime_is_accepted(endpoint: Endpoint) -> None:
    theirs = certificate("theirs")
    assert (await endpoint.send(Message())).status_code == 200
    assert (await endpoint.send(Message(pair=theirs, shown=theirs))).status_code == 200


async def test_rate_limit_applies_to_the_noisy_runtime_only() -> None:
    endpoint = Endpoint(events_per_second=1.0, burst=3)
    endpoint.clock.stands_at = NOW
    now = int(NOW.timestamp())
    theirs = certificate("theirs")
    answers = [await endpoint.send(Message(nonce=f"nonce-number-{number}", now=now)) for number in range(5)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429, 429]
    assert int(answers[-1].headers["retry-after"]) >= 1
    assert (await endpoint.send(Message(pair=theirs, shown=theirs, now=now))).status_code == 200
    endpoint.clock.stands_at = NOW + timedelta(seconds=1)
    assert (await endpoint.send(Message(nonce="nonce-of-a-second-later", now=now))).status_code == 200
    await endpoint.client.aclose()


async def test_endpoint_that_is_not_ready_answers_retry_after(endpoint: Endpoint) -> None:
    endpoint.ready = False
    answer = await endpoint.send(Message())
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert answer.headers["connection"] == "close"  # so that the next attempt may reach another replica


async def test_only_post_is_allowed(endpoint: Endpoint) -> None:
    answer = await endpoint.client.get(PATH)
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert answer.headers["content-type"] == "application/problem+json"


async def test_event_that_could_not_be_forwarded_is_retried_over_another_connection(
    endpoint: Endpoint,
) -> None:
    endpoint.handed_over_in_vain = True
    answer = await endpoint.send(Message())
    assert (answer.status_code, answer.headers["retry-after"], answer.headers["connection"]) == (503, "1", "close")
    assert endpoint.refused == [Reason.NOT_HANDED_OVER]
    endpoint.handed_over_in_vain = False
    assert (await endpoint.send(Message(nonce="nonce-of-the-next-attempt"))).status_code == 200


async def test_revoked_certificate_is_refused_at_once_and_the_next_one_accepted(endpoint: Endpoint) -> None:
    assert (await endpoint.send(Message())).status_code == 200
    endpoint.revoked["mine"] = NOW
    answer = await endpoint.send(Message(nonce="nonce-of-the-second-message"))
    assert (answer.status_code, endpoint.refused) == (403, [Reason.REVOKED])
    fresh = certificate(not_before=NOW)
    assert (await endpoint.send(Message(pair=fresh, shown=fresh))).status_code == 200
    theirs = certificate("theirs")
    assert (await endpoint.send(Message(pair=theirs, shown=theirs))).status_code == 200


async def test_flood_with_a_revoked_certificate_does_not_count_for_the_rate_of_its_runtime() -> None:
    endpoint = Endpoint(events_per_second=0.001, burst=1)
    endpoint.revoked["mine"] = NOW
    for number in range(3):
        assert (await endpoint.send(Message(nonce=f"nonce-number-{number}"))).status_code == 403
    fresh = certificate(not_before=NOW)
    assert (await endpoint.send(Message(pair=fresh, shown=fresh))).status_code == 200
    await endpoint.client.aclose()


async def test_replays_do_not_count_for_the_rate_of_their_runtime() -> None:
    endpoint = Endpoint(events_per_second=0.001, burst=2)
    answers = [await endpoint.send(Message()) for _ in range(5)]
    assert [answer.status_code for answer in answers] == [200, 409, 409, 409, 409]
    assert (await endpoint.send(Message(nonce="nonce-of-the-second-message"))).status_code == 200
    await endpoint.client.aclose()


async def test_message_accepted_by_another_replica_is_accepted_here_once(endpoint: Endpoint) -> None:
    """Nonces are each replica's own: docs/trust.md says why that is allowed for."""
    replica, message = Endpoint(), Message()
    assert (await endpoint.send(message)).status_code == 200
    assert [(await replica.send(message)).status_code for _ in range(2)] == [200, 409]
    await replica.client.aclose()


@pytest.mark.parametrize(("seconds", "status"), [(-30, 200), (-31, 401)])
async def test_clock_of_a_sender_may_be_behind_by_the_documented_seconds(seconds: int, status: int) -> None:
    """A signature may have ended half a minute ago."""
    endpoint = Endpoint()
    endpoint.clock.stands_at = NOW
    answer = await endpoint.send(Message(now=int(NOW.timestamp()), created=seconds - 60))
    assert answer.status_code == status
    await endpoint.client.aclose()


@pytest.mark.parametrize(("seconds", "status"), [(30, 200), (31, 401)])
async def test_clock_of_a_sender_may_be_ahead_by_the_documented_seconds(seconds: int, status: int) -> None:
    endpoint = Endpoint()
    endpoint.clock.stands_at = NOW
    assert (await endpoint.send(Message(now=int(NOW.timestamp()), created=seconds))).status_code == status
    await endpoint.client.aclose()


async def test_chunked_body_is_accepted_up_to_its_limit(endpoint: Endpoint) -> None:
    async def chunks(body: bytes) -> AsyncIterator[bytes]:
        for start in range(0, len(body), 100):
            yield body[start : start + 100]

    good, large = Message(), Message(body=b" " * 20_000)
    taken = await endpoint.client.post(PATH, content=chunks(good.body), headers=good.raw_fields())
    refused = await endpoint.client.post(PATH, content=chunks(large.body), headers=large.raw_fields())
    assert (taken.status_code, refused.status_code) == (200, 413)


async def test_refusals_are_counted_by_reason() -> None:
    registry = CollectorRegistry()
    count = refusal_counter(registry)
    count(Reason.REPLAYED)
    assert registry.get_sample_value("lifecycle_mgr_event_refused_total", {"reason": "replayed"}) == 1
    assert registry.get_sample_value("lifecycle_mgr_event_refused_total", {"reason": "signature"}) == 0
