"""What is known of a Watcher CR and its gateways, and of the gateway's Secret, each as one immutable value."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from kube_runtime import Client, Clock, Informer, NotFound, ObjectKey, Request, Resource, Snapshot
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
    """Reads the caches."""

    watchers: Informer[Watcher]
    gateways: Informer[dict[str, Any]]
    virtual_services: Informer[dict[str, Any]]

    async def read(self, request: Request[ObjectKey, None]) -> RouteSnapshot | None:
        """Return the snapshot of a Watcher CR, None where it does not exist."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySecretSnapshot(Snapshot):
    """The gateway's Secret, if it exists, and what it has to have.

    The certificate is for `event_hosts`, and for those of the Gateway if there is one.
    """

    secret: Secret | None
    event_hosts: tuple[str, ...]
    gateway: Document | None
    expiry_window: timedelta
    cas: CAs
    now: datetime


@dataclass(frozen=True, eq=False)
class GatewaySecretReader:
    """Reads the Secret from the API server: nothing watches the namespace that it is in."""

    kcp: Client
    clock: Clock
    cas: Callable[[], CAs]
    gateway: Callable[[], Document | None]
    event_hosts: tuple[str, ...]
    expiry_window: timedelta

    async def read(self, request: Request[ObjectKey, GatewaySecretState]) -> GatewaySecretSnapshot:
        """Return the snapshot. Raises KubeError."""
        secret = None
        with suppress(NotFound):
            secret = await self.kcp.get(SECRETS, request.key.name, request.key.namespace)
        return GatewaySecretSnapshot(
            secret=secret,
            event_hosts=self.event_hosts,
            gateway=self.gateway(),
            expiry_window=self.expiry_window,
            cas=self.cas(),
            now=self.clock.now(),
        )
