"""The rules: where the events of a Watcher CR are routed, and when the certificate of the gateway is issued anew.

The routes are those of the Lifecycle Manager in Go, so that its VirtualServices stay as they are.

May delete: nothing. A VirtualService is garbage collected with its Watcher CR.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from kube_runtime import End, Step
from kyma_certs import CAs, KeyPair, describe, renewal_due
from lifecycle_manager.contract.conditions import ConditionContent
from lifecycle_manager.contract.resources import Secret
from lifecycle_manager.contract.watchers import manager_of
from lifecycle_manager.istio.snapshot import GROUP, VERSION, Document, GatewaySecretSnapshot, RouteSnapshot
from lifecycle_manager.istio.status import (
    CONFIGURED,
    gateway_not_found,
    name_taken,
    without_hosts,
)
from lifecycle_manager.watcher_certificates.tls_secret import encoded, key_pair_in
from lifecycle_manager_api import Watcher

CONTRACT = "v2"
RENEW_BEFORE = timedelta(days=30)
ROUTE_SECONDS = 300.0
SECRET_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class ApplyVirtualService(Step):
    document: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteDone(End):
    """The end of a reconcile, with this condition unless it is None."""

    condition: ConditionContent | None = None


@dataclass(frozen=True, slots=True)
class WriteGatewaySecret(Step):
    """Write the CAs that are trusted, and a certificate: a new one where that is None."""

    pair: KeyPair | None = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySecretDone(End):
    """The end of a reconcile. `is_close_to_expiry`: the certificate ends soon, or there is none."""

    is_close_to_expiry: bool


def plan_route(seen: RouteSnapshot) -> ApplyVirtualService | RouteDone:
    if seen.error is not None:
        return RouteDone(error=seen.error)
    if seen.watcher.metadata.being_deleted:
        return RouteDone(requeue_after=ROUTE_SECONDS)
    fault, wanted = fault_of(seen), virtual_service_of(seen.watcher, seen.gateways)
    is_as_wanted = seen.is_applied or (seen.live is not None and seen.live.get("spec") == wanted["spec"])
    if fault is None and not is_as_wanted:
        return ApplyVirtualService(wanted)
    return RouteDone(condition=fault or CONFIGURED, requeue_after=ROUTE_SECONDS)


def fault_of(seen: RouteSnapshot) -> ConditionContent | None:
    """Return why events can't be routed. A VirtualService without a gateway stays as it is: that may come back."""
    if not seen.gateways:
        return gateway_not_found(seen.watcher)
    for gateway in seen.gateways:
        if not any(hosts_of(gateway)):
            return without_hosts(gateway)
    if seen.live is not None and not is_owned_by(seen.live, seen.watcher):
        return name_taken(seen.watcher)
    return None


def plan_secret(seen: GatewaySecretSnapshot) -> WriteGatewaySecret | GatewaySecretDone:
    """Return the next step for the gateway's Secret. A certificate in place of the CA's own is new, too."""
    pair = certificate_in(seen.secret)
    is_closing = pair is None or renewal_due(pair.certificate_pem, renew_before=seen.expiry_window, now=seen.now)
    if seen.error is not None:
        return GatewaySecretDone(is_close_to_expiry=is_closing, error=seen.error)
    if pair is None or not may_stay(pair, seen.hosts, cas=seen.cas, now=seen.now):
        return WriteGatewaySecret(None)
    if seen.secret is None or seen.secret.data.get("ca.crt") != encoded(seen.cas.trusted):
        return WriteGatewaySecret(pair)
    return GatewaySecretDone(is_close_to_expiry=is_closing, requeue_after=SECRET_SECONDS)


def virtual_service_of(watcher: Watcher, gateways: tuple[Document, ...]) -> dict[str, Any]:
    metadata, service = watcher.metadata, watcher.spec.service_info
    owner = {"apiVersion": watcher.api_version, "kind": watcher.kind, "name": metadata.name, "uid": metadata.uid}
    route = {
        "name": f"{metadata.namespace}/{metadata.name}",
        "match": [{"uri": {"prefix": f"/{CONTRACT}/{manager_of(watcher)}/event"}}],
        "route": [
            {
                "destination": {
                    "host": f"{service.name}.{service.namespace}.svc.cluster.local",
                    "port": {"number": service.port},
                }
            }
        ],
    }
    named = [f"{each['metadata']['namespace']}/{each['metadata']['name']}" for each in gateways]
    hosts = dict.fromkeys(host for each in gateways for host in hosts_of(each))
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "VirtualService",
        "metadata": {"name": metadata.name, "namespace": metadata.namespace, "ownerReferences": [owner]},
        "spec": {"gateways": named, "hosts": list(hosts), "http": [route]},
    }


def hosts_of(gateway: Document) -> Iterator[str]:
    for server in gateway.get("spec", {}).get("servers") or ():
        yield from server.get("hosts") or ()


def is_owned_by(live: Document, watcher: Watcher) -> bool:
    owners = live["metadata"].get("ownerReferences") or ()
    return any(owner["uid"] == watcher.metadata.uid for owner in owners)


def certificate_in(secret: Secret | None) -> KeyPair | None:
    pair = key_pair_in(secret) if secret is not None else None
    try:
        describe(pair.certificate_pem if pair is not None else b"")
    except ValueError:
        return None
    return pair


def may_stay(pair: KeyPair, hosts: tuple[str, ...], *, cas: CAs, now: datetime) -> bool:
    """Tell whether a certificate is for these hosts, lasts, was issued by a CA that stays, and is not the CA's own."""
    shown = describe(pair.certificate_pem)
    return (
        {*shown.dns_names, *shown.ip_addresses} == set(hosts)
        and not renewal_due(pair.certificate_pem, renew_before=RENEW_BEFORE, now=now)
        and cas.issuer_stays(pair.certificate_pem)
        and shown.sha256 != describe(cas.signing.certificate_pem).sha256  # as the former version has it
    )


def certificate_hosts(event_hosts: tuple[str, ...], gateway: Document | None) -> tuple[str, ...]:
    """Return the names and addresses that the gateway serves: those of the event endpoint, and the Gateway's own.

    A Gateway may name a namespace before a host, and any host, which no certificate can.
    """
    own = [host.rpartition("/")[2] for host in hosts_of(gateway)] if gateway is not None else []
    return tuple(dict.fromkeys((*event_hosts, *(host for host in own if host != "*"))))
