"""The rules: where the events of a Watcher CR are routed, and when the certificate of the gateway is issued anew.

The routes are those of the Lifecycle Manager in Go, so that its VirtualServices stay as they are.

May delete: nothing. The garbage collector deletes a VirtualService with its Watcher CR.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, auto
from typing import Any

from kyma_certs import describe, renewal_due
from lifecycle_manager.istio.snapshot import GROUP, VERSION, Document, RouteSnapshot, SecretSnapshot
from lifecycle_manager.istio.status import CONFIGURED, Status, gateway_not_found, name_taken, without_hosts
from lifecycle_manager.skr.watcher import manager_of
from lifecycle_manager_api import Watcher

CONTRACT = "v2"
RENEW_BEFORE = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class ApplyVirtualService:
    """Apply the VirtualService of the Watcher CR."""

    document: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Done:
    """Nothing is left to do; None where there is nothing to report."""

    status: Status | None


Step = ApplyVirtualService | Done


def plan(seen: RouteSnapshot) -> Step:
    """Return the next step. A VirtualService without a gateway stays as it is: the gateway may come back."""
    if seen.watcher.metadata.being_deleted:
        return Done(None)  # the garbage collector deletes the VirtualService
    if not seen.gateways:
        return Done(gateway_not_found(seen.watcher))
    for gateway in seen.gateways:
        if not any(hosts_of(gateway)):
            return Done(without_hosts(gateway))
    if seen.live is not None and not is_owned_by(seen.live, seen.watcher):
        return Done(name_taken(seen.watcher))
    wanted = virtual_service_of(seen.watcher, seen.gateways)
    if seen.is_applied or (seen.live is not None and seen.live.get("spec") == wanted["spec"]):
        return Done(CONFIGURED)
    return ApplyVirtualService(wanted)


def virtual_service_of(watcher: Watcher, gateways: tuple[Document, ...]) -> dict[str, Any]:
    """Return the VirtualService that routes the events of a Watcher CR to its Service."""
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
    """Yield the hosts of all servers of a Gateway."""
    for server in gateway.get("spec", {}).get("servers") or ():
        yield from server.get("hosts") or ()


def is_owned_by(live: Document, watcher: Watcher) -> bool:
    """Tell whether an object has an owner reference to a Watcher CR."""
    owners = live["metadata"].get("ownerReferences") or ()
    return any(owner["uid"] == watcher.metadata.uid for owner in owners)


class SecretStep(Enum):
    """What the gateway's Secret needs: a new certificate, which is also one in place of the CA's own, or other CAs."""

    ISSUE = auto()
    TRUST = auto()
    NOTHING = auto()


def plan_secret(seen: SecretSnapshot) -> SecretStep:
    """Return what the gateway's Secret needs."""
    if seen.pair is None:
        return SecretStep.ISSUE
    shown = describe(seen.pair.certificate_pem)
    is_due = renewal_due(seen.pair.certificate_pem, renew_before=RENEW_BEFORE, now=seen.now)
    is_a_ca = shown.sha256 == describe(seen.cas.signing.certificate_pem).sha256  # as the former version has it
    names = {*shown.dns_names, *shown.ip_addresses}
    if is_due or is_a_ca or names != set(seen.hosts) or not seen.cas.issuer_stays(seen.pair.certificate_pem):
        return SecretStep.ISSUE
    return SecretStep.NOTHING if seen.trusted == seen.cas.trusted else SecretStep.TRUST


def is_close_to_expiry(seen: SecretSnapshot, window: timedelta) -> bool:
    """Tell whether the certificate ends within a time, or there is none."""
    return seen.pair is None or renewal_due(seen.pair.certificate_pem, renew_before=window, now=seen.now)


def certificate_hosts(event_hosts: tuple[str, ...], gateway: Document | None) -> tuple[str, ...]:
    """Return the names and addresses that the gateway serves: those of the event endpoint, and the Gateway's own.

    A Gateway may name a namespace before a host, and any host, which no certificate can.
    """
    own = [host.rpartition("/")[2] for host in hosts_of(gateway)] if gateway is not None else []
    return tuple(dict.fromkeys((*event_hosts, *(host for host in own if host != "*"))))
