"""Carries the steps for routes and for the gateway's Secret out, and writes the condition of Watcher CRs.

The former version gave the gateway the CA with its key. Here it gets a certificate for a server, so that who reads the
Secret can impersonate the gateway, and issue nothing.
"""

import asyncio
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from kube_runtime import Informer, Manager, ObjectKey, Request, Result
from kyma_certs import issue
from lifecycle_manager.contract.conditions import VIRTUAL_SERVICE, ConditionContent
from lifecycle_manager.contract.resources import FIELD_MANAGER, SECRETS, WATCHERS
from lifecycle_manager.contract.writes import write_status
from lifecycle_manager.istio import plan
from lifecycle_manager.istio.snapshot import (
    VIRTUAL_SERVICES,
    GatewaySecretSnapshot,
    GatewaySecretState,
    RouteSnapshot,
)
from lifecycle_manager.istio.status import begins_a_fault
from lifecycle_manager.process.serving_certificate import server_request
from lifecycle_manager.skr.failure import failed
from lifecycle_manager.watcher_certificates.tls_secret import tls_secret_document
from lifecycle_manager_api import Watcher, find
from lifecycle_manager_api.conditions import set_conditions

CONDITION_FIELD_MANAGER = "lifecycle-manager-virtual-service"
LIFETIME = timedelta(days=90)


@dataclass(frozen=True, eq=False)
class RouteActions:
    """Writes VirtualServices, and the condition of their Watcher CRs."""

    manager: Manager
    watchers: Informer[Watcher]
    virtual_services: Informer[dict[str, Any]]

    async def apply(
        self, request: Request[ObjectKey, None], seen: RouteSnapshot, step: plan.ApplyVirtualService
    ) -> RouteSnapshot:
        name, namespace = request.key.name, request.key.namespace
        answer = await self.manager.client.apply(
            VIRTUAL_SERVICES, name, step.document, namespace, field_manager=FIELD_MANAGER
        )
        self.virtual_services.wrote(answer)
        return replace(seen, live=answer, is_applied=True)

    async def finish(self, _request: Request[ObjectKey, None], seen: RouteSnapshot, end: plan.RouteDone) -> Result:
        if end.condition is not None:
            await self._write(seen.watcher, end.condition)
        return Result(end.requeue_after)

    async def unforeseen(self, key: ObjectKey, error: Exception) -> None:
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


@dataclass(frozen=True, eq=False)
class GatewaySecretActions:
    manager: Manager

    async def apply(
        self,
        request: Request[ObjectKey, GatewaySecretState],
        seen: GatewaySecretSnapshot,
        step: plan.WriteGatewaySecret,
    ) -> GatewaySecretSnapshot:
        """Carry a step out. An existing Secret keeps its type, which is immutable. Raises KubeError."""
        pair = step.pair
        if pair is None:
            contents = replace(server_request(seen.hosts), lifetime=LIFETIME)
            pair = await asyncio.to_thread(issue, seen.cas.signing, contents, now=seen.now)
        (namespace, name), kind = request.key, seen.secret.type if seen.secret is not None else "Opaque"
        document = tls_secret_document(name, namespace, pair, trust=seen.cas.trusted, kind=kind)
        written = await self.manager.client.apply(SECRETS, name, document, namespace, field_manager=FIELD_MANAGER)
        return replace(seen, secret=written)

    async def finish(
        self,
        request: Request[ObjectKey, GatewaySecretState],
        _seen: GatewaySecretSnapshot,
        end: plan.GatewaySecretDone,
    ) -> Result:
        request.state.is_close_to_expiry = end.is_close_to_expiry
        return Result(end.requeue_after)
