"""The Secret with which the gateway serves Watchers: a certificate of its own, and the CAs of their certificates.

The former version gave the gateway the CA with its key. Here it gets a certificate for a server, so that who reads the
Secret can impersonate the gateway, and issue nothing.
"""

import asyncio
import base64
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta

from prometheus_client import Gauge

from kube_runtime import Causes, Manager, NotFound, ObjectKey, Result
from kyma_certs import CAs, KeyPair, describe, issue
from lifecycle_manager.contract.resources import FIELD_MANAGER, SECRETS, Secret
from lifecycle_manager.istio.plan import SecretStep, certificate_hosts, is_close_to_expiry, plan_secret
from lifecycle_manager.istio.snapshot import Document, SecretSnapshot
from lifecycle_manager.process.serving_certificate import server_request

SECRET = "klm-istio-gateway"  # noqa: S105 - a name
OWNER = f"Secret {SECRET}"
"""By which name the Secret is shared among replicas."""
LIFETIME = timedelta(days=90)
INTERVAL_SECONDS = 3600.0


@dataclass(eq=False)
class GatewaySecret:
    """Keeps the Secret. `gateway` returns the Gateway whose hosts the certificate has, too.

    `is_close_to_expiry`: as last found, while this replica keeps the Secret.
    """

    manager: Manager
    cas: Callable[[], CAs]
    gateway: Callable[[], Document | None]
    event_hosts: tuple[str, ...]
    expiry_window: timedelta
    is_close_to_expiry: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        gauge = Gauge(
            "lifecycle_mgr_gateway_secret_server_cert_close_to_expiry",
            "Whether the certificate in the Secret of the Istio gateway ends soon; 0 at replicas that do not keep it.",
            registry=self.manager.registry,
        )
        gauge.set_function(lambda: self.is_close_to_expiry and self.manager.sharding.owns(OWNER))

    async def reconcile(self, key: ObjectKey, _causes: Causes, _state: None) -> Result:
        """Issue the certificate anew where it may not stay. Raises KubeError."""
        try:
            stored = await self.manager.client.get(SECRETS, key.name, key.namespace)
        except NotFound:
            stored = None
        seen = SecretSnapshot(
            certificate_hosts(self.event_hosts, self.gateway()),
            pair=_pair_in(stored),
            trusted=_decoded(stored, "ca.crt"),
            cas=self.cas(),
            now=self.manager.clock.now(),
        )
        step = plan_secret(seen)
        if step is SecretStep.ISSUE:
            request = replace(server_request(seen.hosts), lifetime=LIFETIME)
            seen = replace(seen, pair=await asyncio.to_thread(issue, seen.cas.signing, request, now=seen.now))
        if step is not SecretStep.NOTHING and seen.pair is not None:
            await self._write(key, seen.pair, seen.cas.trusted, kind=stored.type if stored is not None else "Opaque")
        self.is_close_to_expiry = is_close_to_expiry(seen, self.expiry_window)
        return Result(requeue_after=INTERVAL_SECONDS)

    async def _write(self, key: ObjectKey, pair: KeyPair, trusted: bytes, *, kind: str) -> None:
        """Apply the Secret, with the type that it has: that is immutable. Raises KubeError."""
        contents = {"tls.crt": pair.certificate_pem, "tls.key": pair.key_pem, "ca.crt": trusted}
        document = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": key.name, "namespace": key.namespace},
            "type": kind,
            "data": {name: base64.b64encode(content).decode() for name, content in contents.items()},
        }
        await self.manager.client.apply(SECRETS, key.name, document, key.namespace, field_manager=FIELD_MANAGER)


def _decoded(secret: Secret | None, entry: str) -> bytes:
    return base64.b64decode(secret.data.get(entry, "")) if secret is not None else b""


def _pair_in(secret: Secret | None) -> KeyPair | None:
    """Return the certificate and its key, None where there is none that can be read."""
    certificate, key = _decoded(secret, "tls.crt"), _decoded(secret, "tls.key")
    try:
        describe(certificate)
    except ValueError:
        return None
    return KeyPair(certificate_pem=certificate, key_pem=key) if key else None
