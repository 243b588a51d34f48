"""What an attacker may try on the event endpoint. Nothing of it reaches a subscriber, and each gets its answer."""

import base64
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from certs import KeyPair, LeafRequest, Usage, create_authority, describe, issue
from certs.message_signatures import SignatureParameters, algorithm_of, content_digest, load_signing_key, sign
from lifecycle_manager.events import EndpointOptions, UnknownRuntime, VerifiedEvent, create_app

NOW = datetime.now(UTC)
AUTHORITY = create_authority("authority", lifetime=timedelta(days=10), now=NOW)
STRANGER = create_authority("authority", lifetime=timedelta(days=10), now=NOW)
BODY = msgspec.json.encode(
    {
        "watched": {"Namespace": "kyma-system", "Name": "default"},
        "watchedGvk": {"group": "operator.kyma-project.io", "version": "v1beta2", "kind": "Kyma"},
    }
)
PATH = "/v2/lifecycle-manager/event"


def certificate(
    runtime: str = "mine", *, authority: KeyPair = AUTHORITY, now: datetime = NOW, **request: Any
) -> KeyPair:
    given: dict[str, Any] = {"common_name": runtime, "dns_names": ("a.example",), "lifetime": timedelta(days=1)}
    given |= request
    return issue(authority, LeafRequest(**given), now=now)


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
    created: int = 0
    lasting: int = 60
    nonce: str = "nonce-of-the-first-message"
    keyid: str = ""
    alg: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    without: tuple[str, ...] = ()
    sent_body: bytes | None = None
    extra: tuple[tuple[str, str], ...] = ()

    def fields(self) -> list[tuple[str, str]]:
        key = load_signing_key(self.pair.key_pem)
        created = int(time.time()) + self.created
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


class Endpoint:
    def __init__(self, **options: Any) -> None:
        self.taken: list[VerifiedEvent] = []
        self.ready = True
        app = create_app(
            trust=lambda: AUTHORITY.certificate_pem,
            subscribers={"lifecycle-manager": self.take},
            ready=lambda: self.ready,
            options=EndpointOptions(**options),
        )
        self.client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="https://kcp")

    def take(self, event: VerifiedEvent) -> None:
        if event.runtime_id == "nobody":
            raise UnknownRuntime(event.runtime_id)
        self.taken.append(event)

    async def send(self, message: Message) -> httpx.Response:
        body = message.body if message.sent_body is None else message.sent_body
        return await self.client.post(message.path, content=body, headers=message.fields())


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    endpoint = Endpoint()
    yield endpoint
    await endpoint.client.aclose()


def expired() -> KeyPair:
    return certificate(now=NOW - timedelta(days=5))


def by(pair: KeyPair) -> Callable[[Message], Message]:
    """Send it with another certificate and its key."""
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
    """Sign for another application."""
    given = dict(message.fields())["Signature-Input"]
    return replace(message, headers={"Signature-Input": given.replace("kyma-watch-event", "other-application")})


ATTACKS: dict[str, tuple[int, Callable[[Message], Message]]] = {
    "no certificate": (401, without("Client-Cert")),
    "a certificate that is none": (401, having(Client_Cert=":bm9uZQ==:")),
    "a certificate without its colons": (401, having(Client_Cert=client_cert(MINE)[1:-1])),
    "a certificate that is no base64": (401, having(Client_Cert=":***:")),
    "a huge certificate": (401, having(Client_Cert=f":{'A' * 20_000}:")),
    "a certificate of another authority": (401, by(certificate(authority=STRANGER))),
    "a certificate issued by a leaf": (401, by(certificate(authority=MINE))),
    "an authority's own certificate": (401, other(pair=AUTHORITY, shown=AUTHORITY)),
    "an expired certificate": (401, by(expired())),
    "a certificate of the future": (401, by(certificate(now=NOW + timedelta(days=5)))),
    "a server certificate": (401, by(certificate(usages=frozenset({Usage.SERVER})))),
    "somebody else's certificate shown": (401, other(shown=certificate("theirs"))),
    "somebody else's key used": (401, other(pair=certificate("theirs"), keyid=MY_KEYID)),
    "keyid of another certificate": (401, other(keyid="0" * 64)),
    "no signature": (401, without("Signature")),
    "no signature input": (401, without("Signature-Input")),
    "no digest": (401, without("Content-Digest")),
    "an empty signature": (401, having(Signature="kyma=::")),
    "a signature of zeros": (401, having(Signature=f"kyma=:{ZEROS}:")),
    "a signature under another label": (401, having(Signature="other=:AAAA:")),
    "another body than signed": (401, other(sent_body=BODY + b" ")),
    "another body with its digest": (401, with_its_digest),
    "a digest by another algorithm": (401, having(Content_Digest="md5=:AAAA:")),
    "signed for another host": (401, signed_for(f"https://elsewhere{PATH}")),
    "signed for another manager": (401, signed_for("https://kcp/v2/other/event")),
    "signed for another scheme": (401, signed_for(f"http://kcp{PATH}")),
    "signed for another query": (401, other(path=f"{PATH}?force=true")),
    "another Host header": (401, having(Host="elsewhere")),
    "fewer components signed": (401, having(Signature_Input=FEWER)),
    "another tag": (401, another_tag),
    "another algorithm named": (401, other(alg="ed25519")),
    "the algorithm none": (401, other(alg="none")),
    "an HMAC algorithm": (401, other(alg="hmac-sha256")),
    "a window that has passed": (401, other(created=-1000)),
    "a window of the future": (401, other(created=1000)),
    "a window without end": (401, other(lasting=100_000)),
    "a window that ends before it begins": (401, other(lasting=-10)),
    "a nonce that is too short": (401, other(nonce="short")),
    "signature input twice": (400, twice("Signature-Input", "kyma=()")),
    "signature twice": (400, twice("Signature", "kyma=:AAAA:")),
    "certificate twice": (400, twice("Client-Cert", client_cert(MINE))),
    "digest twice": (400, twice("Content-Digest", "sha-256=:AAAA:")),
    "another media type": (415, having(Content_Type="text/plain")),
    "a body that is too large": (413, other(body=b" " * 20_000)),
    "a body that is no JSON": (400, other(body=b"watched")),
    "a body that is no object": (400, other(body=b"[]")),
    "a body of wrong types": (400, other(body=b'{"watched": {"Name": 7}}')),
    "a deeply nested body": (400, other(body=b"[" * 8_000)),
    "an unknown manager": (404, other(path=NOBODY, signed_url=f"https://kcp{NOBODY}")),
    "a runtime that has no Kyma": (403, by(certificate("nobody"))),
}


@pytest.mark.parametrize("attack", ATTACKS)
async def test_attack_reaches_no_subscriber(endpoint: Endpoint, attack: str) -> None:
    status, change = ATTACKS[attack]
    answer = await endpoint.send(change(Message()))
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert msgspec.json.decode(answer.content)["status"] == status
    assert endpoint.taken == []


async def test_good_message_is_taken_as_its_certificates_runtime(endpoint: Endpoint) -> None:
    answer = await endpoint.send(Message())
    assert answer.status_code == 200
    (event,) = endpoint.taken
    assert event.runtime_id == "mine"


async def test_runtime_named_in_the_body_means_nothing(endpoint: Endpoint) -> None:
    body = msgspec.json.encode(msgspec.json.decode(BODY) | {"runtime": "theirs", "runtimeId": "theirs"})
    await endpoint.send(Message(body=body))
    assert endpoint.taken[0].runtime_id == "mine"


async def test_replayed_message_is_refused(endpoint: Endpoint) -> None:
    assert (await endpoint.send(Message())).status_code == 200
    assert (await endpoint.send(Message())).status_code == 409
    assert len(endpoint.taken) == 1


async def test_nonce_of_somebody_else_may_be_used(endpoint: Endpoint) -> None:
    theirs = certificate("theirs")
    assert (await endpoint.send(Message())).status_code == 200
    assert (await endpoint.send(Message(pair=theirs, shown=theirs))).status_code == 200


async def test_noisy_runtime_is_held_back_and_others_are_not() -> None:
    endpoint = Endpoint(events_per_second=1.0, burst=3)
    theirs = certificate("theirs")
    answers = [await endpoint.send(Message(nonce=f"nonce-number-{number}")) for number in range(5)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429, 429]
    assert int(answers[-1].headers["retry-after"]) >= 1
    assert (await endpoint.send(Message(pair=theirs, shown=theirs))).status_code == 200
    await endpoint.client.aclose()


async def test_endpoint_that_is_not_ready_says_when_to_come_again(endpoint: Endpoint) -> None:
    endpoint.ready = False
    answer = await endpoint.send(Message())
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")


async def test_only_post_is_known(endpoint: Endpoint) -> None:
    assert (await endpoint.client.get(PATH)).status_code == 405
