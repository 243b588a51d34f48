"""The options of the Istio gateway."""

from dataclasses import dataclass, field
from datetime import timedelta

from lifecycle_manager.contract.options import EventNames, Namespace, istio_namespace_option, option
from lifecycle_manager_api import names


@dataclass(frozen=True, slots=True, kw_only=True)
class IstioSettings:
    """Where Istio and its Gateways are, and by which names Watchers connect to the gateway.

    `expiry_window`: how long before its end the metric reports the gateway's certificate.
    """

    enabled: bool = option(
        False,
        "watcher-virtual-services",
        "keep an Istio VirtualService for each Watcher CR, which routes its events to its serviceInfo, and the Secret "
        "klm-istio-gateway of the gateway, which terminates TLS; needs trusted-proxy-cidrs",
    )
    namespace: Namespace = istio_namespace_option()
    gateway_name: str = option(
        "klm-watcher",
        "istio-gateway-name",
        "Gateway whose hosts the gateway's certificate has beside the event address",
    )
    gateway_namespace: Namespace = option(
        names.KCP_NAMESPACE, "istio-gateway-namespace", "namespace of the Gateways that Watcher CRs select"
    )
    expiry_window: timedelta = timedelta(days=14)
    event_names: EventNames = field(default_factory=EventNames)
