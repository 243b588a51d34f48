"""What one reconcile has read of a Watcher CR and its gateways, or of the gateway's Secret, as one immutable value."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kube_runtime import Resource
from kyma_certs import CAs, KeyPair
from lifecycle_manager_api import Watcher

GROUP, VERSION = "networking.istio.io", "v1beta1"
GATEWAYS: Resource[dict[str, Any]] = Resource.dynamic(GROUP, VERSION, "Gateway", "gateways", namespaced=True)
VIRTUAL_SERVICES: Resource[dict[str, Any]] = Resource.dynamic(
    GROUP, VERSION, "VirtualService", "virtualservices", namespaced=True
)
Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RouteSnapshot:
    """A Watcher CR, the Gateways that it selects by name, and the VirtualService that has its name.

    `is_applied`: the VirtualService was applied in this reconcile.
    """

    watcher: Watcher
    gateways: tuple[Document, ...]
    live: Document | None
    is_applied: bool = False


@dataclass(frozen=True, slots=True)
class SecretSnapshot:
    """The names and addresses that the gateway serves, and the certificate and the CAs that are in its Secret."""

    hosts: tuple[str, ...]
    pair: KeyPair | None
    trusted: bytes
    cas: CAs
    now: datetime
