"""Carries the steps out, and writes the condition."""

from dataclasses import dataclass, replace
from typing import Any

from kube_runtime import Informer, Manager
from lifecycle_manager.contract.conditions import VIRTUAL_SERVICE
from lifecycle_manager.contract.resources import FIELD_MANAGER, WATCHERS
from lifecycle_manager.contract.writes import write_status
from lifecycle_manager.istio.plan import ApplyVirtualService, Step
from lifecycle_manager.istio.snapshot import VIRTUAL_SERVICES, RouteSnapshot
from lifecycle_manager.istio.status import Status, begins_a_fault
from lifecycle_manager_api import Watcher, find
from lifecycle_manager_api.conditions import set_conditions

CONDITION_FIELD_MANAGER = "lifecycle-manager-virtual-service"


@dataclass(frozen=True, eq=False)
class RouteWriter:
    """Writes VirtualServices, and the condition of their Watcher CRs."""

    manager: Manager
    watchers: Informer[Watcher]
    virtual_services: Informer[dict[str, Any]]

    async def apply(self, seen: RouteSnapshot, step: Step) -> RouteSnapshot:
        """Carry a step out. Raises KubeError."""
        if not isinstance(step, ApplyVirtualService):
            return seen
        metadata = step.document["metadata"]
        answer = await self.manager.client.apply(
            VIRTUAL_SERVICES, metadata["name"], step.document, metadata["namespace"], field_manager=FIELD_MANAGER
        )
        self.virtual_services.wrote(answer)
        return replace(seen, live=answer, is_applied=True)

    async def report(self, watcher: Watcher, status: Status) -> None:
        """Write the condition where it has changed, and an Event where a fault begins. Raises KubeError."""
        generation, now = watcher.metadata.generation, self.manager.clock.now()
        merged = set_conditions(watcher.status.conditions, [(VIRTUAL_SERVICE, *status)], generation, now)
        if merged == watcher.status.conditions:
            return
        own = {"conditions": [find(merged, VIRTUAL_SERVICE)]}
        written = await write_status(
            self.manager.client, WATCHERS, watcher.metadata, own, field_manager=CONDITION_FIELD_MANAGER
        )
        self.watchers.wrote(written)
        if begins_a_fault(watcher, status):
            self.manager.events.record(WATCHERS, watcher, status.reason, status.message, type="Warning", action="Route")
