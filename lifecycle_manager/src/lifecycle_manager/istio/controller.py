"""The controllers of the VirtualServices and of the gateway's Secret: their triggers, and what a reconcile does.

A Watcher CR is reconciled by one replica when its spec or labels change, when a Gateway changes or an edit of its
VirtualService is seen, and at an interval. The gateway's Secret is reconciled by one replica when a Gateway or the CAs
change, and at an interval: nothing watches the namespace that it is in.

The former version gave the gateway the CA with its key. Here it gets a certificate for a server, so that who reads the
Secret can impersonate the gateway, and issue nothing.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from prometheus_client import Gauge

from kube_runtime import Causes, Change, Controller, Informer, Manager, NotFound, ObjectKey, Resource, Result
from kyma_certs import CAs, issue
from lifecycle_manager.contract.conditions import VIRTUAL_SERVICE, ConditionContent
from lifecycle_manager.contract.resources import FIELD_MANAGER, SECRETS, WATCHERS
from lifecycle_manager.contract.signals import CAsChanged
from lifecycle_manager.contract.writes import write_status
from lifecycle_manager.istio import rules
from lifecycle_manager.istio.rules import GROUP, VERSION
from lifecycle_manager.istio.status import CONFIGURED, begins_a_fault
from lifecycle_manager.options.watcher import IstioSettings
from lifecycle_manager.process.serving_certificate import server_request
from lifecycle_manager.skr.failure import failed
from lifecycle_manager.watcher_certificates.tls_secret import encoded, key_pair_in, tls_secret_document
from lifecycle_manager_api import Watcher, find
from lifecycle_manager_api.conditions import set_conditions

GATEWAYS: Resource[dict[str, Any]] = Resource.dynamic(GROUP, VERSION, "Gateway", "gateways", namespaced=True)
VIRTUAL_SERVICES: Resource[dict[str, Any]] = Resource.dynamic(
    GROUP, VERSION, "VirtualService", "virtualservices", namespaced=True
)
SECRET = "klm-istio-gateway"  # noqa: S105 - a name
OWNER = f"Secret {SECRET}"
"""By which name the Secret is shared among replicas."""
CONDITION_FIELD_MANAGER = "lifecycle-manager-virtual-service"
LIFETIME = timedelta(days=90)
ROUTE_SECONDS = 300.0
SECRET_SECONDS = 3600.0


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
    controller.watches(virtual_services, when=is_edited)  # of the same name as its Watcher CR
    controller.starts_with(all_watchers)
    routes = Routes(manager, watchers, gateways, virtual_services)
    controller.reconciles(routes.reconcile, unforeseen=routes.report_unforeseen)
    return controller


def setup_secret(
    manager: Manager, cas: Callable[[], CAs], settings: IstioSettings
) -> Controller[ObjectKey, "GatewaySecretState"]:
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
        return rules.certificate_hosts(settings.event_names.hosts, gateway)

    controller.reconciles(GatewaySecret(manager, hosts, cas, settings.expiry_window).reconcile)

    def is_close_to_expiry() -> bool:
        state = controller.state(key)
        return state is not None and state.is_close_to_expiry and manager.sharding.owns(OWNER)

    Gauge(
        "lifecycle_mgr_gateway_secret_server_cert_close_to_expiry",
        "Whether the certificate in the Secret of the Istio gateway ends soon; 0 at replicas that do not keep it.",
        registry=manager.registry,
    ).set_function(is_close_to_expiry)
    return controller


@dataclass(frozen=True, eq=False)
class Routes:
    """Keeps VirtualServices, and the condition of their Watcher CRs."""

    manager: Manager
    watchers: Informer[Watcher]
    gateways: Informer[dict[str, Any]]
    virtual_services: Informer[dict[str, Any]]

    async def reconcile(self, key: ObjectKey, _causes: Causes, _state: None) -> Result:
        """Apply the VirtualService of a Watcher CR where it differs, and write the condition. Raises KubeError."""
        watcher = self.watchers.get(key)
        if watcher is None:
            return Result()
        if watcher.metadata.being_deleted:
            return Result(ROUTE_SECONDS)
        gateways = rules.selected(watcher, self.gateways.list())
        live = self.virtual_services.get(key)
        fault = rules.fault_of(watcher, gateways, live)
        wanted = rules.virtual_service_of(watcher, gateways)
        is_right = live is not None and rules.is_owned_by(live, watcher) and live.get("spec") == wanted["spec"]
        if fault is None and not is_right:
            live = await self.manager.client.apply(
                VIRTUAL_SERVICES, key.name, wanted, key.namespace, field_manager=FIELD_MANAGER
            )
            self.virtual_services.wrote(live)
        await self._write(watcher, fault or CONFIGURED)
        return Result(ROUTE_SECONDS)

    async def report_unforeseen(self, key: ObjectKey, error: Exception) -> None:
        """Report an unforeseen exception. Raises KubeError."""
        watcher = self.watchers.get(key)
        if watcher is not None:
            await self._write(watcher, failed(error))

    async def _write(self, watcher: Watcher, condition: ConditionContent) -> None:
        """Write the condition where it has changed, and an Event where a fault begins."""
        generation, now = watcher.metadata.generation, self.manager.clock.now()
        merged = set_conditions(watcher.status.conditions, [(VIRTUAL_SERVICE, *condition)], generation, now)
        if merged == watcher.status.conditions:
            return
        own = {"conditions": [find(merged, VIRTUAL_SERVICE)]}
        written = await write_status(
            self.manager.client, WATCHERS, watcher.metadata, own, field_manager=CONDITION_FIELD_MANAGER
        )
        self.watchers.wrote(written)
        if begins_a_fault(watcher, condition):
            reason, message = condition.reason, condition.message
            self.manager.events.record(WATCHERS, watcher, reason, message, type="Warning", action="Route")


@dataclass(eq=False, slots=True)
class GatewaySecretState:
    """Whether the gateway's certificate ends soon, as last found while this replica keeps the Secret."""

    is_close_to_expiry: bool = False


@dataclass(frozen=True, eq=False)
class GatewaySecret:
    """Keeps the Secret of the gateway; `hosts` are the names and addresses that its certificate has to have."""

    manager: Manager
    hosts: Callable[[], tuple[str, ...]]
    cas: Callable[[], CAs]
    expiry_window: timedelta

    async def reconcile(self, key: ObjectKey, _causes: Causes, state: GatewaySecretState) -> Result:
        """Write the CAs that are trusted, and a certificate, where they differ. Raises KubeError.

        An existing Secret keeps its type, which is immutable.
        """
        (namespace, name), kcp = key, self.manager.client
        secret = None
        with suppress(NotFound):
            secret = await kcp.get(SECRETS, name, namespace)
        cas, hosts, now = self.cas(), self.hosts(), self.manager.clock.now()
        pair = key_pair_in(secret) if secret is not None else None
        state.is_close_to_expiry = rules.is_close_to_expiry(pair, self.expiry_window, now=now)
        if pair is None or not rules.may_stay(pair, hosts, cas=cas, now=now):
            request = replace(server_request(hosts), lifetime=LIFETIME)
            pair = await asyncio.to_thread(issue, cas.signing, request, now=now)
        elif secret is not None and secret.data.get("ca.crt") == encoded(cas.trusted):
            return Result(SECRET_SECONDS)
        kind = secret.type if secret is not None else "Opaque"
        document = tls_secret_document(name, namespace, pair, trust=cas.trusted, kind=kind)
        await kcp.apply(SECRETS, name, document, namespace, field_manager=FIELD_MANAGER)
        state.is_close_to_expiry = rules.is_close_to_expiry(pair, self.expiry_window, now=now)
        return Result(SECRET_SECONDS)


def route_changed(change: Change[Watcher]) -> bool:
    old, new = change.old, change.new
    return new is not None and (old is None or old.spec != new.spec or old.metadata.labels != new.metadata.labels)
