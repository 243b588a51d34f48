"""What a gateway may say of who stands behind it, and what is made of it when it says something else."""

from datetime import timedelta
from ipaddress import ip_network
from urllib.parse import quote

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kyma_certs import KeyPair, Usage
from lifecycle_manager.events.arrival import forwarded_certificate
from lifecycle_manager.events.endpoint import EndpointOptions, EventEndpoint, VerifiedEvent
from lifecycle_manager.events.problems import EventRefused, Reason
from tests.security.events.subscribers import into
from tests.security.events.test_attacks import (
    BODY,
    CA,
    MINE,
    NOW,
    PATH,
    STRANGER,
    certificate,
    expired,
    forged,
    xfcc,
)

THEIRS = certificate("theirs")
OPTIONS = EndpointOptions(
    require_peer=True,
    accept_unsigned=True,
    trusted_proxies=(ip_network("10.1.0.0/16"), ip_network("fd00::/8")),
)


def cert(pair: KeyPair) -> str:
    return f'Cert="{quote(pair.certificate_pem, safe="")}"'


class Gateway:
    def __init__(self, address: str, options: EndpointOptions = OPTIONS) -> None:
        self.taken: list[VerifiedEvent] = []
        self.refused: list[Reason] = []
        app = EventEndpoint(
            trust=lambda: CA.certificate_pem,
            subscriber=into(self.taken),
            ready=lambda: True,
            count_refusal=self.refused.append,
            options=options,
        )
        self.transport = httpx.ASGITransport(app, client=(address, 1))

    async def send(self, *forwarded: str) -> int:
        fields = [("Content-Type", "application/json"), *(("X-Forwarded-Client-Cert", each) for each in forwarded)]
        async with httpx.AsyncClient(transport=self.transport, base_url="https://kcp") as client:
            return (await client.post(PATH, content=BODY, headers=fields)).status_code


@pytest.mark.parametrize("address", ["10.1.0.0", "10.1.255.255", "::ffff:10.1.2.3", "fd00::7"])
async def test_gateway_in_the_trusted_range_is_accepted(address: str) -> None:
    gateway = Gateway(address)
    assert await gateway.send(xfcc(MINE)) == 200
    assert [event.runtime_id for event in gateway.taken] == ["mine"]


@pytest.mark.parametrize("address", ["10.2.0.0", "127.0.0.1", "::1", "fe80::1", "::ffff:10.2.0.1", "", "10.1.0.1.evil"])
async def test_peer_outside_the_trusted_range_is_refused(address: str) -> None:
    gateway = Gateway(address)
    assert await gateway.send(xfcc(MINE)) == 401
    assert gateway.taken == []


async def test_gateway_is_refused_if_unsigned_events_are_not_allowed() -> None:
    gateway = Gateway("10.1.0.1", EndpointOptions(require_peer=True, trusted_proxies=OPTIONS.trusted_proxies))
    assert await gateway.send(xfcc(MINE)) == 401
    assert gateway.refused == [Reason.UNSIGNED]


SAYINGS: dict[str, tuple[Reason, tuple[str, ...]]] = {
    "nothing": (Reason.PROXY_HEADER, ()),
    "an empty field": (Reason.PROXY_HEADER, ("",)),
    "a subject without a certificate": (Reason.PROXY_HEADER, ('Subject="CN=mine"',)),
    "a digest without a certificate": (Reason.PROXY_HEADER, ("Hash=" + "0" * 64,)),
    "a digest of another certificate": (Reason.PROXY_HEADER, (f"Hash={'0' * 64};{cert(MINE)}",)),
    "two digests": (Reason.PROXY_HEADER, (f"Hash=00;Hash=00;{cert(MINE)}",)),
    "two certificates": (Reason.PROXY_HEADER, (f"{cert(MINE)};{cert(THEIRS)}",)),
    "two elements": (Reason.PROXY_HEADER, (f"{cert(THEIRS)},{cert(MINE)}",)),
    "two fields": (Reason.DUPLICATE_FIELD, (cert(THEIRS), cert(MINE))),
    "a certificate that is none": (Reason.PROXY_HEADER, ('Cert="none"',)),
    "a quote without end": (Reason.PROXY_HEADER, (cert(MINE)[:-1],)),
    "a key without a value": (Reason.PROXY_HEADER, (f"By;{cert(MINE)}",)),
    "a certificate of a stranger": (Reason.CERTIFICATE, (cert(certificate(ca=STRANGER)),)),
    "a certificate that signed itself": (Reason.CERTIFICATE, (cert(forged()),)),
    "an expired certificate": (Reason.CERTIFICATE, (cert(expired()),)),
    "a certificate of the future": (Reason.CERTIFICATE, (cert(certificate(now=NOW + timedelta(days=5))),)),
    "a server certificate": (Reason.CERTIFICATE, (cert(certificate(usages=frozenset({Usage.SERVER}))),)),
    "a CA": (Reason.CERTIFICATE, (cert(CA),)),
    "two common names": (Reason.NO_RUNTIME, (cert(forged(CA, names=("mine", "theirs"))),)),
}


@pytest.mark.parametrize("saying", SAYINGS)
async def test_invalid_field_of_a_gateway_is_refused(saying: str) -> None:
    reason, forwarded = SAYINGS[saying]
    gateway = Gateway("10.1.0.1")
    assert await gateway.send(*forwarded) == (400 if reason is Reason.DUPLICATE_FIELD else 401)
    assert (gateway.refused, gateway.taken) == ([reason], [])


async def test_subject_beside_the_certificate_is_ignored() -> None:
    gateway = Gateway("10.1.0.1")
    assert await gateway.send(f'Subject="CN=theirs, O=\\"x\\"";{cert(MINE)};URI=spiffe://theirs') == 200
    assert [event.runtime_id for event in gateway.taken] == ["mine"]


@given(st.text(max_size=300))
def test_any_field_is_read_or_rejected(text: str) -> None:
    with pytest.raises(EventRefused):
        forwarded_certificate(text)


def test_long_field_is_read_quickly() -> None:
    """Patterns with nested repetition can take forever; this one must not."""
    for field in ("a=" * 16_000, 'Cert="' + "\\" * 32_000, "a=b;" * 8_000, 'a="' + "b" * 32_000):
        with pytest.raises(EventRefused):
            forwarded_certificate(field)
