"""Who sends an event: what its certificate says, once chain, signature, digest, time and TLS peer agree.

The check of a signed event is complete in itself, so that a gateway that ends TLS need not be trusted. Where TLS ends
here, the peer has to be the one that signed. The cheap checks come first: whoever sends rubbish costs us little.

An unsigned event, which is taken only where an option allows it, is its TLS peer's, or that of whom a trusted proxy
names.
"""

import base64
import binascii
import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from cryptography import x509

from kyma_certs import CertificateRejected, Usage, describe_certificate, is_common_name, verify_chain
from kyma_certs.message_signatures import SignatureParameters, SignatureRejected, read_parameters, verify
from lifecycle_manager.events.arrival import FORWARDED_CERTIFICATE, Arrival, forwarded_certificate
from lifecycle_manager.events.problems import Reason, not_verified

LARGEST_CERTIFICATE = 8192
SIGNATURE_FIELDS = frozenset({"signature-input", "signature", "client-cert"})


@dataclass(frozen=True, slots=True)
class Sender:
    """A verified sender: its runtime id, since when its certificate holds, and the parameters of its signature."""

    runtime_id: str
    not_before: datetime
    parameters: SignatureParameters | None


@dataclass(frozen=True, slots=True)
class Message:
    """What was received: the header fields that say who sent it, the body, and the URI that it was sent to."""

    headers: Mapping[str, str]
    body: bytes
    target_uri: str
    arrival: Arrival


@dataclass(frozen=True, slots=True)
class _Verified:
    certificate: x509.Certificate
    common_name: str


class Identifier:
    """Verifies senders. Certificates that were verified a moment ago are remembered, each with who was trusted then."""

    def __init__(
        self,
        *,
        skew_seconds: int,
        longest_seconds: int,
        accept_unsigned: bool = False,
        require_peer: bool = False,
        remembered: int = 20_000,
    ) -> None:
        self._skew_seconds = skew_seconds
        self._longest_seconds = longest_seconds
        self._accept_unsigned = accept_unsigned
        self._require_peer = require_peer
        self._remembered = remembered
        self._known: OrderedDict[tuple[bytes, bytes], _Verified] = OrderedDict()

    def identify(self, message: Message, *, trust: bytes, now: datetime) -> Sender:
        """Return who sent a message. Raises Refused with 401 where that can't be told for sure."""
        arrival = message.arrival
        if self._require_peer and not arrival.by_proxy and arrival.peer_der is None:
            raise not_verified(Reason.NO_TLS_PEER, "show the certificate of your cluster's Watcher to TLS")
        if SIGNATURE_FIELDS.isdisjoint(message.headers):
            return self._by_transport(message, trust, now)
        return self._by_signature(message, trust, now)

    def _by_signature(self, message: Message, trust: bytes, now: datetime) -> Sender:
        headers, arrival = message.headers, message.arrival
        try:
            parameters = read_parameters(headers.get("signature-input", ""))
        except SignatureRejected as error:
            raise not_verified(Reason.SIGNATURE_INPUT, str(error)) from None
        self._check_window(parameters, now)
        der = _client_cert(headers)
        if not arrival.by_proxy and arrival.peer_der is not None and arrival.peer_der != der:
            raise not_verified(Reason.TLS_PEER, "Client-Cert is not the certificate of the TLS connection")
        if parameters.keyid != hashlib.sha256(der).hexdigest():
            raise not_verified(Reason.KEY_ID, "keyid is not the SHA-256 of the certificate")
        verified = self._certificate(der, trust, now)
        try:
            verify(
                message.target_uri,
                message.body,
                digest=headers.get("content-digest", ""),
                signature=headers.get("signature", ""),
                parameters=parameters,
                certificate=verified.certificate,
            )
        except SignatureRejected as error:
            raise not_verified(Reason.SIGNATURE, str(error)) from None
        return _sender(verified, parameters)

    def _by_transport(self, message: Message, trust: bytes, now: datetime) -> Sender:
        if not self._accept_unsigned:
            raise not_verified(Reason.UNSIGNED, "the event is not signed")
        forwarded = message.headers.get(FORWARDED_CERTIFICATE)
        if message.arrival.by_proxy:
            der = forwarded_certificate(forwarded or "")
        elif forwarded is not None:
            raise not_verified(Reason.UNTRUSTED_PROXY, f"{FORWARDED_CERTIFICATE} is not believed from this address")
        elif message.arrival.peer_der is None:
            raise not_verified(Reason.NO_TLS_PEER, "an event without a signature needs a certificate in TLS")
        else:
            der = message.arrival.peer_der
        return _sender(self._certificate(der, trust, now), None)

    def _check_window(self, parameters: SignatureParameters, now: datetime) -> None:
        moment = int(now.timestamp())
        if parameters.created > moment + self._skew_seconds:
            raise not_verified(Reason.TIME_WINDOW, "the signature is of the future; check the clocks")
        if parameters.expires < moment - self._skew_seconds:
            raise not_verified(Reason.TIME_WINDOW, "the signature has expired; check the clocks")
        if not 0 < parameters.expires - parameters.created <= self._longest_seconds:
            raise not_verified(Reason.TIME_WINDOW, f"a signature may hold for {self._longest_seconds} s at most")

    def _certificate(self, der: bytes, trust: bytes, now: datetime) -> _Verified:
        """Return what a certificate says, once an authority that is trusted vouches for it."""
        known = self._known.get((der, trust))
        if known is not None and known.certificate.not_valid_before_utc <= now <= known.certificate.not_valid_after_utc:
            return known
        try:
            certificate = verify_chain(der, trust, usage=Usage.CLIENT, now=now)
            verified = _Verified(certificate, describe_certificate(certificate).common_name)
        except (CertificateRejected, ValueError) as error:
            raise not_verified(Reason.CERTIFICATE, str(error)) from None
        self._known[der, trust] = verified
        while len(self._known) > self._remembered:
            self._known.popitem(last=False)
        return verified


def _sender(verified: _Verified, parameters: SignatureParameters | None) -> Sender:
    """Return the sender whom a certificate names. Raises Refused where it names none that could be a runtime."""
    if not is_common_name(verified.common_name):
        raise not_verified(Reason.NO_RUNTIME, "the certificate names no runtime")
    return Sender(verified.common_name, verified.certificate.not_valid_before_utc, parameters)


def _client_cert(headers: Mapping[str, str]) -> bytes:
    """Return the certificate in Client-Cert, an sf-binary item (RFC 9440). Raises Refused."""
    field = headers.get("client-cert", "")
    if not 3 <= len(field) <= LARGEST_CERTIFICATE or field[0] != ":" or field[-1] != ":":
        raise not_verified(Reason.CERTIFICATE, "Client-Cert is missing or no certificate")
    try:
        return base64.b64decode(field[1:-1], validate=True)
    except (binascii.Error, ValueError):  # a letter outside of ASCII is the latter
        raise not_verified(Reason.CERTIFICATE, "Client-Cert is missing or no certificate") from None
