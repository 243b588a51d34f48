"""No bytes make the event endpoint fail: not in the body of a known sender, and not in anybody's header fields."""

import asyncio
import base64
import json
import time
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import count

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from hypothesis import given
from hypothesis import strategies as st

from charts.generate import EVENT_DOCUMENT, event_document
from kyma_certs import LeafRequest, create_ca, describe, issue
from kyma_certs.message_signatures import SignatureParameters, algorithm_of, load_signing_key, sign
from lifecycle_manager.events.arrival import Arrival
from lifecycle_manager.events.endpoint import EndpointOptions, EventEndpoint, VerifiedEvent
from lifecycle_manager.events.identity import Identifier, Message
from lifecycle_manager.events.problems import EventRefused
from tests.security.events.subscribers import into

NOW = datetime.now(UTC)
CA = create_ca("ca", lifetime=timedelta(days=1), now=NOW)
URL = "https://kcp/v2/lifecycle-manager/event"
SIGNED = ("signature-input", "signature", "content-digest", "client-cert")
GOOD = b'{"watched":{"Namespace":"a","Name":"b"},"watchedGvk":{"group":"g","version":"v1","kind":"K"}}'
numbers = count()


class Sender:
    def __init__(self, runtime: str) -> None:
        request = LeafRequest(common_name=runtime, dns_names=("a.example",), lifetime=timedelta(hours=12))
        pair = issue(CA, request, now=NOW)
        self.der = x509.load_pem_x509_certificate(pair.certificate_pem).public_bytes(serialization.Encoding.DER)
        self._key = load_signing_key(pair.key_pem)
        self._keyid = describe(pair.certificate_pem).sha256
        self._client_cert = f":{base64.b64encode(self.der).decode()}:"

    def headers(self, body: bytes) -> dict[str, str]:
        now = int(time.time())
        nonce = f"nonce-{next(numbers):016}"
        parameters = SignatureParameters(now, now + 60, nonce, self._keyid, algorithm_of(self._key))
        fields = {**sign(URL, body, self._key, parameters), "Client-Cert": self._client_cert}
        return {name.lower(): value for name, value in fields.items()}


def endpoint(options: EndpointOptions, taken: list[VerifiedEvent]) -> httpx.AsyncClient:
    app = EventEndpoint(
        trust=lambda: CA.certificate_pem,
        subscriber=into(taken),
        ready=lambda: True,
        options=options,
    )
    return httpx.AsyncClient(transport=httpx.ASGITransport(app, raise_app_exceptions=True))


def send(body: bytes, headers: Mapping[str, str | bytes]) -> int:
    async def post() -> int:
        taken: list[VerifiedEvent] = []
        async with endpoint(EndpointOptions(events_per_second=1e6, burst=1_000_000), taken) as client:
            fields = [
                (name.encode(), value if isinstance(value, bytes) else value.encode())
                for name, value in headers.items()
            ]
            answer = await client.post(URL, content=body, headers=fields)
            assert bool(taken) is (answer.status_code == 200)
            return answer.status_code

    with closing(asyncio.new_event_loop()) as loop:  # asyncio.run() would leave the plugin's loop unclosed
        return loop.run_until_complete(post())


MINE = Sender("mine")


def mutated() -> st.SearchStrategy[bytes]:
    """Good events with bytes cut out of them, put in and changed."""
    return st.builds(
        lambda start, length, junk: GOOD[:start] + junk + GOOD[start + length :],
        st.integers(0, len(GOOD)),
        st.integers(0, 30),
        st.binary(max_size=30),
    )


@given(body=st.binary(max_size=200) | mutated())
def test_any_body_of_a_known_sender_gets_an_answer(body: bytes) -> None:
    assert send(body, MINE.headers(body)) in {200, 400}


@given(name=st.sampled_from(SIGNED), value=st.binary(max_size=200).filter(lambda it: not {0, 10, 13} & set(it)))
def test_any_header_field_gets_an_answer(name: str, value: bytes) -> None:
    assert send(GOOD, {**MINE.headers(GOOD), name: value}) in {400, 401}


async def test_port_serves_no_documentation() -> None:
    async with endpoint(EndpointOptions(), []) as client:
        answers = [await client.get(f"https://kcp/{path}") for path in ("docs", "redoc", "openapi.json")]
    assert [each.status_code for each in answers] == [404] * 3


def test_openapi_has_the_path_the_responses_and_the_event() -> None:
    text = EVENT_DOCUMENT.read_text()
    assert text == event_document(), "run `make charts`"
    document = json.loads(text)
    operation = document["paths"]["/v2/{manager}/event"]["post"]
    assert {"200", "401", "409", "429", "503"} <= set(operation["responses"])
    assert "watchedGvk" in document["components"]["schemas"]["WatchEvent"]["properties"]


def test_certificate_is_known_once_it_was_verified_against_the_same_cas() -> None:
    identifier = Identifier(skew_seconds=100_000, max_seconds=300, remembered=2)
    senders = [Sender(f"{number}") for number in range(3)]
    trust, others = CA.certificate_pem, create_ca("ca", lifetime=timedelta(days=1), now=NOW).certificate_pem

    def identify(sender: Sender, trust: bytes, now: datetime = NOW) -> str:
        message = Message(sender.headers(GOOD), GOOD, URL, Arrival(None, by_proxy=False))
        return identifier.identify(message, trust=trust, now=now).runtime_id

    assert identifier.known(senders[0].der, trust) is None
    for _ in range(2):
        assert identify(senders[0], trust) == "0"
        assert identifier.known(senders[0].der, trust) == "0"
    with pytest.raises(EventRefused, match="signature does not match"):
        identify(senders[0], others)
    assert identifier.known(senders[0].der, others) is None
    with pytest.raises(EventRefused, match="valid"):
        identify(senders[0], trust, NOW + timedelta(hours=13))
    for sender in senders[1:]:
        identify(sender, trust)
    assert [identifier.known(each.der, trust) for each in senders] == [None, "1", "2"]
