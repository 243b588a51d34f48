"""The controllers of the VirtualServices and of the gateway's Secret: their triggers.

A Watcher CR is reconciled by one replica when its spec or labels change, when a Gateway changes or an edit of its
VirtualService is seen, and at an interval. The gateway's Secret is reconciled by one replica when a Gateway or the CAs
change, and at an interval: nothing watches the namespace that it is in.
"""

from collections.abc import Callable, Iterable
from typing import Any

from prometheus_client import Gauge

from kube_runtime import Change, Controller, Manager, ObjectKey
from kyma_certs import CAs
from lifecycle_manager.contract.resources import WATCHERS
from lifecycle_manager.contract.signals import CAsChanged
from lifecycle_manager.istio.apply import GatewaySecretActions, RouteActions
from lifecycle_manager.istio.plan import certificate_hosts, plan_route, plan_secret
from lifecycle_manager.istio.snapshot import (
    GATEWAYS,
    VIRTUAL_SERVICES,
    GatewaySecretReader,
    GatewaySecretState,
    RouteReader,
)
from lifecycle_manager.options.watcher import IstioSettings
from lifecycle_manager_api import Watcher

SECRET = "klm-istio-gateway"  # noqa: S105 - a name
OWNER = f"Secret {SECRET}"
"""By which name the Secret is shared among replicas."""


def setup(manager: Manager, cas: Callable[[], CAs], settings: IstioSettings) -> None:
    """Keep a VirtualService for each Watcher CR, and the Secret of the gateway; nothing unless enabled."""
    if settings.enabled:
        setup_routes(manager, settings)
        setup_secret(manager, cas, settings)


def setup_routes(manager: Manager, settings: IstioSettings) -> Controller[ObjectKey, None]:
    watchers, virtual_services = manager.informer(WATCHERS), manager.informer(VIRTUAL_SERVICES)
    gateways = manager.informer(GATEWAYS, namespace=settings.gateway_namespace)
    controller: Controller[ObjectKey, None] = manager.controller(
        "virtual-service", owner=lambda key: f"Watcher {key.name}", concurrency=1
    )

    def all_watchers(_: object = None) -> Iterable[ObjectKey]:
        return map(WATCHERS.key_of, watchers.list())

    def is_edited(change: Change[dict[str, Any]]) -> bool:
        return change.new is None or not virtual_services.is_own_write(change.new)

    controller.watches(watchers, when=route_changed)
    controller.watches(gateways, to=all_watchers)
    controller.watches(virtual_services, to=watcher_of, when=is_edited)
    controller.starts_with(all_watchers)
    actions = RouteActions(manager, watchers, virtual_services)
    controller.steps(
        read=RouteReader(watchers, gateways, virtual_services).read,
        plan=plan_route,
        apply=actions.apply,
        finish=actions.finish,
        unforeseen=actions.unforeseen,
    )
    return controller


def setup_secret(
    manager: Manager, cas: Callable[[], CAs], settings: IstioSettings
) -> Controller[ObjectKey, GatewaySecretState]:
    gateways = manager.informer(GATEWAYS, namespace=settings.gateway_namespace)
    key = ObjectKey(settings.namespace, SECRET)
    controller: Controller[ObjectKey, GatewaySecretState] = manager.controller(
        "gateway-secret", state=GatewaySecretState, owner=lambda _: OWNER, exists=lambda _: True, concurrency=1
    )
    controller.watches(gateways, to=lambda _: (key,))
    controller.receives(CAsChanged, to=lambda _: (key,))
    controller.starts_with(lambda: (key,))

    def hosts() -> tuple[str, ...]:
        gateway = gateways.get(ObjectKey(settings.gateway_namespace, settings.gateway_name))
        return certificate_hosts(settings.event_names.hosts, gateway)

    reader = GatewaySecretReader(manager, hosts, cas, settings.expiry_window)
    actions = GatewaySecretActions(manager)
    controller.steps(read=reader.read, plan=plan_secret, apply=actions.apply, finish=actions.finish)

    def is_close_to_expiry() -> bool:
        state = controller.state(key)
        return state is not None and state.is_close_to_expiry and manager.sharding.owns(OWNER)

    Gauge(
        "lifecycle_mgr_gateway_secret_server_cert_close_to_expiry",
        "Whether the certificate in the Secret of the Istio gateway ends soon; 0 at replicas that do not keep it.",
        registry=manager.registry,
    ).set_function(is_close_to_expiry)
    return controller


def route_changed(change: Change[Watcher]) -> bool:
    old, new = change.old, change.new
    return new is not None and (old is None or old.spec != new.spec or old.metadata.labels != new.metadata.labels)


def watcher_of(change: Change[dict[str, Any]]) -> Iterable[ObjectKey]:
    item = change.new or change.old
    if item is not None:
        yield ObjectKey(item["metadata"]["namespace"], item["metadata"]["name"])
