"""What objects say about a cluster's network: hosts that they serve, addresses that they name, Pods that they select.

By these an object reaches beyond its namespace, whatever the kind is otherwise good for. A value of a wrong type is
left out: an API server would reject it anyway.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from lifecycle_manager_api.pod_security import Document, mapping, mappings, sequence

ANY = "*"
"""Every host: that of an object which names none."""
EXPOSING_TYPES = frozenset(("LoadBalancer", "NodePort"))
NAMES_OF_HOSTS = (
    "cert-manager.io/common-name",
    "cert.gardener.cloud/commonname",
    "cert.gardener.cloud/dnsnames",
    "dns.gardener.cloud/dnsnames",
    "external-dns.alpha.kubernetes.io/hostname",
    "external-dns.alpha.kubernetes.io/internal-hostname",
)
"""Annotations by which a controller creates DNS records or certificates."""
_ALIASES = re.compile(r".*/(server-alias(-regex)?|host-aliases)")
"""Annotations of an Ingress by which nginx, HAProxy and Kong serve more hosts than its rules name."""
_SNIPPETS = re.compile(r".*/[^/]*snippets?")
"""Annotations with configuration of the program that serves an Ingress, and all others with it."""

_ISTIO, _GATEWAY_API = "networking.istio.io", "gateway.networking.k8s.io"
_SERVING_ALL: Mapping[tuple[str, str], str] = {
    ("networking.k8s.io", "Ingress"): "spec.rules.host",
    (_GATEWAY_API, "Gateway"): "spec.listeners.hostname",
    (_GATEWAY_API, "ListenerSet"): "spec.listeners.hostname",
    ("gateway.networking.x-k8s.io", "XListenerSet"): "spec.listeners.hostname",
    (_GATEWAY_API, "HTTPRoute"): "spec.hostnames",
    (_GATEWAY_API, "GRPCRoute"): "spec.hostnames",
    (_GATEWAY_API, "TLSRoute"): "spec.hostnames",
    (_GATEWAY_API, "TCPRoute"): "spec.hostnames",
    (_GATEWAY_API, "UDPRoute"): "spec.hostnames",
}
"""Where kinds have their hosts that serve every host without."""
_SERVING: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("networking.k8s.io", "Ingress"): ("spec.tls.hosts",),  # certificates are issued for these
    ("gateway.kyma-project.io", "APIRule"): ("spec.hosts", "spec.host", "spec.service.host"),
    (_ISTIO, "Gateway"): ("spec.servers.hosts",),
    (_ISTIO, "VirtualService"): ("spec.hosts",),
    (_ISTIO, "DestinationRule"): ("spec.host",),
    (_ISTIO, "ServiceEntry"): ("spec.hosts",),
    ("dns.gardener.cloud", "DNSEntry"): ("spec.dnsName",),
    ("cert.gardener.cloud", "Certificate"): ("spec.commonName", "spec.dnsNames"),
    ("cert-manager.io", "Certificate"): ("spec.commonName", "spec.dnsNames"),
}
_UNREADABLE: Mapping[tuple[str, str], str] = {
    ("cert.gardener.cloud", "Certificate"): "csr",
    ("cert-manager.io", "Certificate"): "literalSubject",
}
"""Where kinds have hosts in an encoded form, which counts as every host."""
_ADDRESSES: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("", "Service"): ("spec.externalIPs", "spec.externalName", "spec.loadBalancerIP"),
    ("", "Endpoints"): ("subsets.addresses.ip", "subsets.notReadyAddresses.ip"),
    ("discovery.k8s.io", "EndpointSlice"): ("endpoints.addresses",),
    (_ISTIO, "ServiceEntry"): ("spec.addresses", "spec.endpoints.address"),
    (_ISTIO, "WorkloadEntry"): ("spec.address",),
}
_URLS: Mapping[tuple[str, str], str] = {
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): "webhooks.clientConfig.url",
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): "webhooks.clientConfig.url",
    ("apiextensions.k8s.io", "CustomResourceDefinition"): "spec.conversion.webhook.clientConfig.url",
}
"""Where the API server is told to send objects."""
_SELECTORS: Mapping[tuple[str, str], str] = {
    ("networking.k8s.io", "NetworkPolicy"): "podSelector",
    ("policy", "PodDisruptionBudget"): "selector",
    ("security.istio.io", "AuthorizationPolicy"): "selector",
    ("security.istio.io", "PeerAuthentication"): "selector",
    ("security.istio.io", "RequestAuthentication"): "selector",
    ("telemetry.istio.io", "Telemetry"): "selector",
    ("extensions.istio.io", "WasmPlugin"): "selector",
    ("cilium.io", "CiliumNetworkPolicy"): "endpointSelector",
    ("cilium.io", "CiliumClusterwideNetworkPolicy"): "endpointSelector",
    ("crd.projectcalico.org", "NetworkPolicy"): "selector",
    ("crd.projectcalico.org", "GlobalNetworkPolicy"): "selector",
    ("projectcalico.org", "NetworkPolicy"): "selector",
    ("projectcalico.org", "GlobalNetworkPolicy"): "selector",
    (_ISTIO, "Sidecar"): "workloadSelector",
    (_ISTIO, "EnvoyFilter"): "workloadSelector",
}
"""Where kinds select the Pods whose network or availability they change; those of Calico by a text, for which no label
is found."""
_OF_ALL_PODS = frozenset((("", "ResourceQuota"), ("", "LimitRange")))
"""Kinds that limit all Pods of their namespace."""


def served_hosts(group: str, kind: str, document: Document) -> Iterator[str]:
    """Yield the hosts that an object serves, routes or has named, `*` where it does so for every host."""
    if (group, kind) in _SERVING_ALL:
        path = _SERVING_ALL[group, kind]
        yield from (_text(each) or ANY for each in _values(document, path.split(".")))
        if (group, kind) == ("networking.k8s.io", "Ingress") and mapping(document.get("spec")).get("defaultBackend"):
            yield ANY
    yield from _texts(document, _SERVING.get((group, kind), ()))
    if mapping(document.get("spec")).get(_UNREADABLE.get((group, kind), "")):
        yield ANY
    annotations = mapping(mapping(document.get("metadata")).get("annotations"))
    for key in NAMES_OF_HOSTS:
        yield from _listed(annotations.get(key))
    for key, value in annotations.items() if (group, kind) == ("networking.k8s.io", "Ingress") else ():
        if _ALIASES.fullmatch(str(key)):
            yield from (ANY if "~" in each else each for each in _listed(value))  # or it is a regular expression
        elif _SNIPPETS.fullmatch(str(key)):
            yield ANY


def external_addresses(group: str, kind: str, document: Document) -> Iterator[str]:
    """Yield the IP addresses and hosts to which an object leads."""
    yield from _texts(document, _ADDRESSES.get((group, kind), ()))
    for url in _texts(document, (_URLS[group, kind],)) if (group, kind) in _URLS else ():
        yield _host_of(url)


def pod_selector(group: str, kind: str, document: Document) -> frozenset[str] | None:
    """Return the labels, each as key=value, that a Pod has to have for an object to affect it; None for other kinds.

    A Service affects the Pods that it makes reachable from outside of the cluster.
    """
    spec = mapping(document.get("spec"))
    if (group, kind) in _OF_ALL_PODS:
        return frozenset()
    if (group, kind) == ("", "Service"):
        exposed = spec.get("type") in EXPOSING_TYPES and spec.get("selector")
        return _labels(mapping(spec.get("selector"))) if exposed else None
    if (group, kind) not in _SELECTORS:
        return None
    selector = mapping(spec.get(_SELECTORS[group, kind]))
    required = {
        f"{each.get('key')}={values[0]}"
        for each in mappings(selector.get("matchExpressions"))
        if each.get("operator") == "In" and len(values := sequence(each.get("values"))) == 1
    }
    return _labels(mapping(selector.get("matchLabels"))) | _labels(mapping(selector.get("labels"))) | required


def is_own_service(host: str, namespace: str) -> bool:
    """Tell whether a host is a Service of a namespace, as it is named within the cluster."""
    name, _, rest = host.partition(".")
    return ANY not in name and rest in ("", f"{namespace}.svc", f"{namespace}.svc.cluster.local")


def _listed(hosts: Any) -> Iterator[str]:
    return filter(None, (each.strip() for each in _text(hosts).split(",")))


def _labels(labels: Document) -> frozenset[str]:
    return frozenset(f"{key}={value}" for key, value in labels.items())


def _host_of(url: str) -> str:
    try:
        return urlsplit(url).hostname or url
    except ValueError:
        return url


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _texts(document: Document, paths: Iterable[str]) -> Iterator[str]:
    return (text for path in paths for each in _values(document, path.split(".")) if (text := _text(each)))


def _values(value: Any, path: list[str]) -> Iterator[Any]:
    """Yield what is at a path, through all items of lists; None where something of it is missing."""
    if isinstance(value, list) and value:
        for each in value:
            yield from _values(each, path)
    elif path:
        yield from _values(mapping(value).get(path[0]), path[1:])
    else:
        yield value if value != [] else None
