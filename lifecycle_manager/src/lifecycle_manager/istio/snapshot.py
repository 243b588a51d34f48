"""What is known of a Watcher CR and its gateways, and of the gateway's Secret, each as one immutable value."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from kube_runtime import Informer, Manager, NotFound, ObjectKey, Request, Resource, Snapshot
from kyma_certs import CAs
from lifecycle_manager.contract.resources import SECRETS, Secret
from lifecycle_manager_api import Watcher

GROUP, VERSION = "networking.istio.io", "v1beta1"
GATEWAYS: Resource[dict[str, Any]] = Resource.dynamic(GROUP, VERSION, "Gateway", "gateways", namespaced=True)
VIRTUAL_SERVICES: Resource[dict[str, Any]] = Resource.dynamic(
    GROUP, VERSION, "VirtualService", "virtualservices", namespaced=True
)
Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteSnapshot(Snapshot):
    """A Watcher CR, the Gateways that it selects by name, and the VirtualService that has its name.

    `is_applied`: the VirtualService was applied in this reconcile.
    """

    watcher: Watcher
    gateways: tuple[Document, ...]
    live: Document | None = None
    is_applied: bool = False


@dataclass(frozen=True, eq=False)
class RouteReader:
    watchers: Informer[Watcher]
    gateways: Informer[dict[str, Any]]
    virtual_services: Informer[dict[str, Any]]

    async def read(self, request: Request[ObjectKey, None]) -> RouteSnapshot | None:
        watcher = self.watchers.get(request.key)
        if watcher is None:
            return None
        selector = watcher.spec.gateway.selector
        selected = (each for each in self.gateways.list() if selector.matches(each["metadata"].get("labels") or {}))
        gateways = tuple(sorted(selected, key=lambda each: str(each["metadata"]["name"])))
        return RouteSnapshot(watcher=watcher, gateways=gateways, live=self.virtual_services.get(request.key))


@dataclass(eq=False, slots=True)
class GatewaySecretState:
    """Whether the gateway's certificate ends soon, as last found while this replica keeps the Secret."""

    is_close_to_expiry: bool = False


@dataclass(frozen=True, slots=True)
class GatewaySecretSnapshot(Snapshot):
    """The gateway's Secret, if it exists, and the names and addresses of which it has to have a certificate."""

    secret: Secret | None
    hosts: tuple[str, ...]
    cas: CAs
    now: datetime
    expiry_window: timedelta


@dataclass(frozen=True, eq=False)
class GatewaySecretReader:
    """Reads the Secret from the API server: nothing watches the namespace that it is in."""

    manager: Manager
    hosts: Callable[[], tuple[str, ...]]
    cas: Callable[[], CAs]
    expiry_window: timedelta

    async def read(self, request: Request[ObjectKey, GatewaySecretState]) -> GatewaySecretSnapshot:
        secret = None
        with suppress(NotFound):
            secret = await self.manager.client.get(SECRETS, request.key.name, request.key.namespace)
        return GatewaySecretSnapshot(secret, self.hosts(), self.cas(), self.manager.clock.now(), self.expiry_window)
