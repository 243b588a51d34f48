"""Who sends an event: what its certificate says, once chain, signature, digest, time and TLS peer agree.

The check is complete in itself, so that a gateway that ends TLS need not be trusted. Where TLS ends here, the peer has
to be the one that signed.
"""

import base64
import binascii
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from cryptography import x509

from certs import CertificateRejected, Usage, describe_certificate, verify_chain
from certs.message_signatures import SignatureParameters, SignatureRejected, read_parameters, verify
from lifecycle_manager.events.problems import Refused

LARGEST_CERTIFICATE = 8192


@dataclass(frozen=True, slots=True)
class Sender:
    """A verified sender: its runtime id, and the parameters of its signature."""

    runtime_id: str
    parameters: SignatureParameters


class Identifier:
    """Verifies senders. Certificates that were verified a moment ago are remembered, by digest and trust."""

    def __init__(self, *, skew_seconds: int, longest_seconds: int, remembered: int = 20_000) -> None:
        self._skew_seconds = skew_seconds
        self._longest_seconds = longest_seconds
        self._remembered = remembered
        self._verified: OrderedDict[tuple[bytes, bytes], tuple[x509.Certificate, str, str]] = OrderedDict()

    def identify(
        self,
        headers: Mapping[str, str],
        body: bytes,
        target_uri: str,
        *,
        trust: bytes,
        peer_der: bytes | None,
        now: datetime,
    ) -> Sender:
        """Return who signed this message. Raises Refused with 401 where that can't be told for sure."""
        try:
            parameters = read_parameters(headers.get("signature-input", ""))
            self._check_window(parameters, now)
            der = _client_cert(headers)
            certificate, common_name, sha256 = self._certificate(der, trust, now)
            _check_binding(parameters, sha256, der, peer_der)
            verify(
                target_uri,
                body,
                digest=headers.get("content-digest", ""),
                signature=headers.get("signature", ""),
                parameters=parameters,
                certificate=certificate,
            )
        except (SignatureRejected, CertificateRejected) as error:
            raise Refused(401, "Not verified", str(error)) from None
        if not common_name:
            raise Refused(401, "Not verified", "the certificate names no runtime")
        return Sender(common_name, parameters)

    def _check_window(self, parameters: SignatureParameters, now: datetime) -> None:
        moment = int(now.timestamp())
        if parameters.created > moment + self._skew_seconds:
            raise SignatureRejected("the signature is of the future; check the clocks")
        if parameters.expires < moment - self._skew_seconds:
            raise SignatureRejected("the signature has expired; check the clocks")
        if not 0 < parameters.expires - parameters.created <= self._longest_seconds:
            raise SignatureRejected(f"a signature may hold for {self._longest_seconds} s at most")

    def _certificate(self, der: bytes, trust: bytes, now: datetime) -> tuple[x509.Certificate, str, str]:
        known = self._verified.get((der, trust))
        if known is not None:
            certificate = known[0]
            if certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc:
                return known
        certificate = verify_chain(der, trust, usage=Usage.CLIENT, now=now)
        info = describe_certificate(certificate)
        verified = (certificate, info.common_name, info.sha256)
        self._verified[(der, trust)] = verified
        while len(self._verified) > self._remembered:
            self._verified.popitem(last=False)
        return verified


def _check_binding(parameters: SignatureParameters, sha256: str, der: bytes, peer_der: bytes | None) -> None:
    """Check that key, certificate and TLS peer are one. Raises SignatureRejected."""
    if peer_der is not None and peer_der != der:
        raise SignatureRejected("Client-Cert is not the certificate of the TLS connection")
    if parameters.keyid != sha256:
        raise SignatureRejected("keyid is not the SHA-256 of the certificate")


def _client_cert(headers: Mapping[str, str]) -> bytes:
    """Return the certificate in Client-Cert, an sf-binary item (RFC 9440). Raises SignatureRejected."""
    field = headers.get("client-cert", "")
    if len(field) > LARGEST_CERTIFICATE or len(field) < 3 or field[0] != ":" or field[-1] != ":":
        raise SignatureRejected("Client-Cert is missing or no certificate")
    try:
        return base64.b64decode(field[1:-1], validate=True)
    except binascii.Error:
        raise SignatureRejected("Client-Cert is missing or no certificate") from None
