"""How a request arrived: directly from its sender, or through a proxy that is trusted to name the sender.

Without a proxy, the TLS certificate is the sender's. With one it is the proxy's, and the sender's is in a header
(X-Forwarded-Client-Cert, as Envoy and Istio write it), which counts from trusted addresses only.
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Any
from urllib.parse import unquote

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from lifecycle_manager.events.problems import EventRefused, Reason

FORWARDED_CERTIFICATE = "x-forwarded-client-cert"
Network = IPv4Network | IPv6Network

_PAIR = r'[A-Za-z]{1,16}=(?:"(?:[^"\\]|\\.)*"|[^";,]*)'
_ELEMENT = re.compile(rf"{_PAIR}(?:;{_PAIR})*")
_PAIRS = re.compile(r'([A-Za-z]{1,16})=(?:"((?:[^"\\]|\\.)*)"|([^";,]*))')


class Arrival(msgspec.Struct, frozen=True):
    """The certificate of the TLS peer, where TLS ended here, and whether the request came through a trusted proxy."""

    peer_der: bytes | None
    by_proxy: bool


def arrival_of(
    scope: Mapping[str, Any], proxies: tuple[Network, ...], is_runtime: Callable[[str], bool] = lambda _: False
) -> Arrival:
    """Return how a request arrived, from its ASGI scope. Who has the certificate of a runtime is no proxy."""
    client = scope.get("client")
    peer = scope.get("extensions", {}).get("tls", {}).get("client_cert_der")
    by_proxy = bool(proxies) and client is not None and _is_among(client[0], proxies)
    return Arrival(peer, by_proxy and (peer is None or not any(map(is_runtime, _common_names(peer)))))


def forwarded_certificate(field: str) -> bytes:
    """Return the DER form of the one certificate in an X-Forwarded-Client-Cert field. Raises EventRefused.

    More than one element means that somebody in front of the proxy wrote one too, and it is unknown which is right.
    """
    if not _ELEMENT.fullmatch(field):
        raise EventRefused(Reason.PROXY_HEADER, f"{FORWARDED_CERTIFICATE} is not one element of key=value pairs")
    pairs = [(key.lower(), quoted or plain) for key, quoted, plain in _PAIRS.findall(field)]
    certificates = [value for key, value in pairs if key == "cert"]
    digests = [value for key, value in pairs if key == "hash"]
    if len(certificates) != 1 or len(digests) > 1:
        raise EventRefused(Reason.PROXY_HEADER, f"{FORWARDED_CERTIFICATE} does not have one Cert")
    try:
        certificate = x509.load_pem_x509_certificate(unquote(certificates[0]).encode())
    except ValueError:
        raise EventRefused(Reason.PROXY_HEADER, f"Cert in {FORWARDED_CERTIFICATE} is not a certificate") from None
    if digests and digests[0].lower() != certificate.fingerprint(hashes.SHA256()).hex():
        raise EventRefused(Reason.PROXY_HEADER, f"Hash in {FORWARDED_CERTIFICATE} belongs to another certificate")
    return certificate.public_bytes(serialization.Encoding.DER)


@lru_cache(maxsize=4096)
def _common_names(der: bytes) -> tuple[str, ...]:
    names = x509.load_der_x509_certificate(der).subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
    return tuple(str(each.value) for each in names)


@lru_cache(maxsize=4096)
def _is_among(address: str, networks: tuple[Network, ...]) -> bool:
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
        parsed = parsed.ipv4_mapped
    return any(parsed in network for network in networks)
