"""The rules: where the events of a Watcher CR are routed, and when the certificate of the gateway is issued anew.

The routes are those of the Lifecycle Manager in Go, so that its VirtualServices stay as they are.

May delete: nothing. A VirtualService is garbage collected with its Watcher CR.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from kyma_certs import CAs, KeyPair, describe, is_dns_name, renewal_due
from lifecycle_manager.contract.conditions import ConditionContent
from lifecycle_manager.contract.watchers import EVENT_CONTRACT, manager_of
from lifecycle_manager.istio.status import gateway_not_found, name_taken, without_hosts
from lifecycle_manager.process.serving_certificate import server_request
from lifecycle_manager_api import Watcher

GROUP, VERSION = "networking.istio.io", "v1beta1"
RENEW_BEFORE = timedelta(days=30)
Document = Mapping[str, Any]


def selected(watcher: Watcher, gateways: Iterable[Document]) -> tuple[Document, ...]:
    """Return the Gateways that a Watcher CR selects, by name."""
    selector = watcher.spec.gateway.selector
    found = (each for each in gateways if selector.matches(each["metadata"].get("labels") or {}))
    return tuple(sorted(found, key=lambda each: str(each["metadata"]["name"])))


def fault_of(watcher: Watcher, gateways: tuple[Document, ...], live: Document | None) -> ConditionContent | None:
    """Return why events can't be routed. A VirtualService without a gateway stays as it is: that may come back."""
    if not gateways:
        return gateway_not_found(watcher)
    for gateway in gateways:
        if not any(hosts_of(gateway)):
            return without_hosts(gateway)
    if live is not None and not (is_owned_by(live, watcher) or _is_restored(live, watcher, gateways)):
        return name_taken(watcher)
    return None


def virtual_service_of(watcher: Watcher, gateways: tuple[Document, ...]) -> dict[str, Any]:
    metadata, service = watcher.metadata, watcher.spec.service_info
    owner = {"apiVersion": watcher.api_version, "kind": watcher.kind, "name": metadata.name, "uid": metadata.uid}
    route = {
        "name": f"{metadata.namespace}/{metadata.name}",
        "match": [{"uri": {"prefix": f"/{EVENT_CONTRACT}/{manager_of(watcher)}/event"}}],
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


def _is_restored(live: Document, watcher: Watcher, gateways: tuple[Document, ...]) -> bool:
    """Tell whether a VirtualService routes as it has to and nobody owns it: back-up tools leave owners out."""
    wanted = virtual_service_of(watcher, gateways)
    return not live["metadata"].get("ownerReferences") and live.get("spec") == wanted["spec"]


def may_stay(pair: KeyPair, hosts: tuple[str, ...], *, cas: CAs, now: datetime) -> bool:
    """Tell whether a certificate is for these hosts, lasts, was issued by a CA that stays, and is not the CA's own."""
    shown, wanted = describe(pair.certificate_pem), server_request(hosts)
    return (
        {*shown.dns_names, *shown.ip_addresses} == {*wanted.dns_names, *wanted.ip_addresses}
        and not renewal_due(pair.certificate_pem, renew_before=RENEW_BEFORE, now=now)
        and cas.issuer_stays(pair.certificate_pem)
        and shown.sha256 != describe(cas.signing.certificate_pem).sha256  # as the former version has it
    )


def is_close_to_expiry(pair: KeyPair | None, window: timedelta, *, now: datetime) -> bool:
    """Tell whether a certificate ends soon, or there is none."""
    return pair is None or renewal_due(pair.certificate_pem, renew_before=window, now=now)


def certificate_hosts(event_hosts: tuple[str, ...], gateway: Document | None) -> tuple[str, ...]:
    """Return the names and addresses that the gateway serves: those of the event endpoint, and the Gateway's own.

    A Gateway may name a namespace before a host, any host, and wildcards such as `*-x.example.com`, which no
    certificate can: those are left out, so that the others have one.
    """
    own = [host.rpartition("/")[2] for host in hosts_of(gateway)] if gateway is not None else []
    return tuple(dict.fromkeys((*event_hosts, *filter(is_dns_name, own))))
