"""The sender of an event: the subject of its certificate, once chain, signature, digest, time and TLS peer agree.

The check of a signed event is complete in itself, so a gateway that terminates TLS need not be trusted. Where TLS ends
here, the peer has to be the signer. The cheap checks come first, so that garbage costs little.

The sender of an unsigned event, which is taken only where an option allows it, is the TLS peer, or whom a trusted proxy
names.
"""

import base64
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

import msgspec
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes

from kyma_certs import CertificateRejected, describe_certificate, is_common_name, verify_chain
from kyma_certs.message_signatures import SignatureParameters, SignatureRejected, read_parameters, verify
from lifecycle_manager.events.arrival import FORWARDED_CERTIFICATE, Arrival, forwarded_certificate
from lifecycle_manager.events.problems import EventRefused, Reason

MAX_CERTIFICATE_LENGTH = 8192
SIGNATURE_FIELDS = frozenset({"signature-input", "signature", "client-cert"})


class Sender(msgspec.Struct, frozen=True):
    """A verified sender: its runtime id, from when on its certificate is valid, and the parameters of its signature.

    `is_former`: it is the Watcher of a former version.
    """

    runtime_id: str
    not_before: datetime
    parameters: SignatureParameters | None
    is_former: bool = False


@dataclass(frozen=True, slots=True)
class FormerWatchers:
    """The Watchers of the Lifecycle Manager in Go: unsigned events are accepted from these alone, during a takeover.

    `is_under_way`: certificates of the adopted CA are still trusted. `is_former`: the Watcher of a runtime has not been
    replaced yet.
    """

    is_under_way: Callable[[], bool] = lambda: False
    is_former: Callable[[str], bool] = lambda _: False


NO_FORMER_WATCHERS = FormerWatchers()


class Message(msgspec.Struct, frozen=True):
    """A request: the header fields that identify the sender, the body, and the URI that it was sent to."""

    headers: Mapping[str, str]
    body: bytes
    target_uri: str
    arrival: Arrival


@dataclass(frozen=True, slots=True)
class _Verified:
    """What is remembered of a certificate, in 3 kB: half of what it takes itself."""

    key: CertificatePublicKeyTypes
    common_name: str
    not_before: datetime
    not_after: datetime


@dataclass(eq=False, kw_only=True)
class Identifier:
    """Verifies senders. Up to `remembered` certificates are remembered, each with the CAs that were trusted then."""

    skew_seconds: int
    max_seconds: int
    accept_unsigned: bool = False
    require_peer: bool = False
    former_watchers: FormerWatchers = NO_FORMER_WATCHERS
    remembered: int = 100_000
    _known: OrderedDict[tuple[bytes, bytes], _Verified] = field(default_factory=OrderedDict, init=False)

    def known(self, der: bytes, trust: bytes) -> str | None:
        """Return the common name of a certificate that was verified against these CAs, None of any other."""
        verified = self._known.get((_digest(der), trust))
        return verified.common_name if verified is not None else None

    def identify(
        self,
        message: Message,
        *,
        trust: bytes,
        now: datetime,
        is_replay: Callable[[str, str], bool] = lambda _keyid, _nonce: False,
    ) -> Sender:
        """Return the sender of a message. Raises EventRefused where it can't be verified, or is a replay.

        `is_replay` looks a key and nonce up, before the signature is computed: a replay costs no cryptography.
        """
        arrival = message.arrival
        if self.require_peer and not arrival.by_proxy and arrival.peer_der is None:
            raise EventRefused(Reason.NO_TLS_PEER, "TLS needs the client certificate of the cluster's Watcher")
        if SIGNATURE_FIELDS.isdisjoint(message.headers):
            return self._by_transport(message, trust, now)
        return self._by_signature(message, trust, now, is_replay)

    def _by_signature(
        self, message: Message, trust: bytes, now: datetime, is_replay: Callable[[str, str], bool]
    ) -> Sender:
        headers, arrival = message.headers, message.arrival
        try:
            parameters = read_parameters(headers.get("signature-input", ""))
        except SignatureRejected as error:
            raise EventRefused(Reason.SIGNATURE_INPUT, str(error)) from None
        self._check_window(parameters, now)
        der = _client_cert(headers)
        if not arrival.by_proxy and arrival.peer_der is not None and arrival.peer_der != der:
            raise EventRefused(Reason.TLS_PEER, "Client-Cert is not the certificate of the TLS connection")
        digest = _digest(der)
        if parameters.keyid != digest.hex():
            raise EventRefused(Reason.KEY_ID, "keyid is not the SHA-256 of the certificate")
        if is_replay(parameters.keyid, parameters.nonce):
            raise EventRefused(Reason.REPLAYED, "this nonce was used before")
        verified = self._certificate(der, digest, trust, now)
        try:
            verify(
                message.target_uri,
                message.body,
                digest=headers.get("content-digest", ""),
                signature=headers.get("signature", ""),
                parameters=parameters,
                key=verified.key,
            )
        except SignatureRejected as error:
            raise EventRefused(Reason.SIGNATURE, str(error)) from None
        return _sender(verified, parameters)

    def _by_transport(self, message: Message, trust: bytes, now: datetime) -> Sender:
        if not self.accept_unsigned and not self.former_watchers.is_under_way():
            raise EventRefused(Reason.UNSIGNED, "the event is not signed")
        forwarded = message.headers.get(FORWARDED_CERTIFICATE)
        if message.arrival.by_proxy:
            der = forwarded_certificate(forwarded or "")
        elif forwarded is not None:
            raise EventRefused(Reason.UNTRUSTED_PROXY, f"{FORWARDED_CERTIFICATE} is not accepted from this address")
        elif message.arrival.peer_der is None:
            raise EventRefused(Reason.NO_TLS_PEER, "an event without a signature needs a certificate in TLS")
        else:
            der = message.arrival.peer_der
        sender = _sender(self._certificate(der, _digest(der), trust, now), None)
        is_former = self.former_watchers.is_under_way() and self.former_watchers.is_former(sender.runtime_id)
        if not self.accept_unsigned and not is_former:
            raise EventRefused(
                Reason.UNSIGNED, "the event is not signed, and the Watcher of a former version is replaced"
            )
        return msgspec.structs.replace(sender, is_former=is_former)

    def _check_window(self, parameters: SignatureParameters, now: datetime) -> None:
        moment = now.timestamp()  # to the fraction, as nonces are remembered
        if parameters.created > moment + self.skew_seconds:
            raise EventRefused(Reason.TIME_WINDOW, "the signature was created in the future; check the clocks")
        if parameters.expires < moment - self.skew_seconds:
            raise EventRefused(Reason.TIME_WINDOW, "the signature has expired; check the clocks")
        if not 0 < parameters.expires - parameters.created <= self.max_seconds:
            raise EventRefused(Reason.TIME_WINDOW, f"a signature may be valid for {self.max_seconds} s at most")

    def _certificate(self, der: bytes, digest: bytes, trust: bytes, now: datetime) -> _Verified:
        """Return a certificate with its common name, once it was verified against the trusted CAs."""
        known = self._known.get((digest, trust))
        if known is not None and known.not_before <= now <= known.not_after:
            return known
        try:
            any_usage = self.former_watchers.is_under_way()  # its certificates name none
            certificate = verify_chain(der, trust, now=now, any_usage=any_usage)
            verified = _Verified(
                certificate.public_key(),
                describe_certificate(certificate).common_name,
                certificate.not_valid_before_utc,
                certificate.not_valid_after_utc,
            )
        except (CertificateRejected, ValueError) as error:
            raise EventRefused(Reason.CERTIFICATE, str(error)) from None
        self._known[digest, trust] = verified
        while len(self._known) > self.remembered:
            self._known.popitem(last=False)
        return verified


def _digest(der: bytes) -> bytes:
    return hashlib.sha256(der).digest()


def _sender(verified: _Verified, parameters: SignatureParameters | None) -> Sender:
    """Return the sender that a certificate names. Raises EventRefused where its common name can't be a runtime id."""
    if not is_common_name(verified.common_name):
        raise EventRefused(Reason.NO_RUNTIME, "the common name of the certificate is not a runtime id")
    return Sender(verified.common_name, verified.not_before, parameters)


def _client_cert(headers: Mapping[str, str]) -> bytes:
    """Return the certificate in Client-Cert, an sf-binary item (RFC 9440). Raises EventRefused."""
    value = headers.get("client-cert", "")
    if not 3 <= len(value) <= MAX_CERTIFICATE_LENGTH or value[0] != ":" or value[-1] != ":":
        raise EventRefused(Reason.CERTIFICATE, "Client-Cert is missing or not a certificate")
    try:
        return base64.b64decode(value[1:-1], validate=True)
    except ValueError:  # also for characters outside of ASCII
        raise EventRefused(Reason.CERTIFICATE, "Client-Cert is missing or not a certificate") from None
