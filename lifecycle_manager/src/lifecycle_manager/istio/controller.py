"""The controllers of the VirtualServices and of the gateway's Secret: their triggers and settings."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeGuard

from kube_runtime import Causes, Change, Controller, Manager, ObjectKey, Result
from kube_runtime.steps import run_steps
from kyma_certs import CAs
from lifecycle_manager.contract.options import Duration, EventNames, Namespace, istio_namespace_option, option
from lifecycle_manager.contract.resources import WATCHERS
from lifecycle_manager.contract.signals import CAsChanged
from lifecycle_manager.istio.apply import RouteWriter
from lifecycle_manager.istio.gateway_secret import OWNER, SECRET, GatewaySecret
from lifecycle_manager.istio.plan import Done, plan
from lifecycle_manager.istio.snapshot import GATEWAYS, VIRTUAL_SERVICES, RouteSnapshot
from lifecycle_manager.istio.status import Status
from lifecycle_manager.skr.failure import failure_of
from lifecycle_manager_api import Watcher, names

INTERVAL_SECONDS = 300.0


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
    expiry_window: Duration = option(
        timedelta(days=14),
        "istio-gateway-server-cert-expiry-window",
        "time before its expiry at which a metric reports the gateway's certificate",
    )
    event_names: EventNames = field(default_factory=EventNames)


def setup(manager: Manager, cas: Callable[[], CAs], settings: IstioSettings) -> None:
    """Keep a VirtualService for each Watcher CR, and the Secret of the gateway; nothing unless enabled."""
    if settings.enabled:
        setup_routes(manager, settings)
        setup_secret(manager, cas, settings)


def setup_routes(manager: Manager, settings: IstioSettings) -> Controller[ObjectKey, None]:
    """Keep a VirtualService for each Watcher CR, each on one replica."""
    watchers, virtual_services = manager.informer(WATCHERS), manager.informer(VIRTUAL_SERVICES)
    gateways = manager.informer(GATEWAYS, namespace=settings.gateway_namespace)
    controller: Controller[ObjectKey, None] = manager.controller(
        "virtual-service", owner=lambda key: f"Watcher {key.name}", concurrency=1
    )

    def all_watchers(_: object) -> Iterable[ObjectKey]:
        return map(WATCHERS.key_of, watchers.list())

    def is_edited(change: Change[dict[str, Any]]) -> bool:
        return change.new is None or not virtual_services.is_own_write(change.new)

    controller.watches(watchers, when=route_changed)
    controller.watches(gateways, to=all_watchers)
    controller.watches(virtual_services, to=watcher_of, when=is_edited)
    controller.starts_with(lambda: all_watchers(None))
    writer = RouteWriter(manager, watchers, virtual_services)

    async def reconcile(key: ObjectKey, _causes: Causes, _state: None) -> Result:
        """Apply the VirtualService of a Watcher CR where it differs. Raises KubeError."""
        watcher = watchers.get(key)
        if watcher is None:
            return Result()
        selector = watcher.spec.gateway.selector
        selected = [each for each in gateways.list() if selector.matches(each["metadata"].get("labels") or {})]
        selected.sort(key=lambda each: str(each["metadata"]["name"]))
        seen = RouteSnapshot(watcher, tuple(selected), virtual_services.get(key))
        done = await run_steps(seen, plan=plan, apply=writer.apply, is_done=is_done, fence=manager.sharding.check)
        if done.status is not None:
            await writer.report(watcher, done.status)
        return Result(requeue_after=INTERVAL_SECONDS)

    async def report(key: ObjectKey, error: Exception) -> None:
        """Report an unforeseen exception. Raises KubeError."""
        watcher = watchers.get(key)
        if watcher is not None:
            failure = failure_of(error)
            await writer.report(watcher, Status("False", failure.reason, failure.message))

    controller.reconciles(reconcile, unforeseen=report)
    return controller


def setup_secret(manager: Manager, cas: Callable[[], CAs], settings: IstioSettings) -> Controller[ObjectKey, None]:
    """Keep the Secret of the gateway, on one replica."""
    gateways = manager.informer(GATEWAYS, namespace=settings.gateway_namespace)
    key = ObjectKey(settings.namespace, SECRET)
    secret = GatewaySecret(
        manager,
        cas,
        gateway=lambda: gateways.get(ObjectKey(settings.gateway_namespace, settings.gateway_name)),
        event_hosts=settings.event_names.hosts,
        expiry_window=settings.expiry_window,
    )
    controller: Controller[ObjectKey, None] = manager.controller(
        "gateway-secret", owner=lambda _: OWNER, exists=lambda _: True, concurrency=1
    )
    controller.watches(gateways, to=lambda _: (key,))
    controller.receives(CAsChanged, to=lambda _: (key,))
    controller.starts_with(lambda: (key,))
    controller.reconciles(secret.reconcile)
    return controller


def route_changed(change: Change[Watcher]) -> bool:
    """Tell whether a Watcher CR was created, or its spec or labels have changed."""
    old, new = change.old, change.new
    return new is not None and (old is None or old.spec != new.spec or old.metadata.labels != new.metadata.labels)


def watcher_of(change: Change[dict[str, Any]]) -> Iterable[ObjectKey]:
    """Return the key of the Watcher CR that has the name of a VirtualService."""
    item = change.new or change.old
    if item is not None:
        yield ObjectKey(item["metadata"]["namespace"], item["metadata"]["name"])


def is_done(step: object) -> TypeGuard[Done]:
    """Tell whether a step is the last one."""
    return isinstance(step, Done)
