"""A reconcile of a SyncResource on a cluster without a server, from what is known at its beginning."""

import asyncio
from dataclasses import dataclass
from typing import Any, cast

from prometheus_client import CollectorRegistry

from kube_runtime import SYSTEM_CLOCK, Causes, ObjectKey
from lifecycle_manager.contract.resources import SYNC_RESOURCES
from lifecycle_manager.process.telemetry import ChangeLatency
from lifecycle_manager.skr.connections import Connections
from lifecycle_manager.sync_resource.controller import SyncResourceEngine
from lifecycle_manager.sync_resource.snapshot import SyncResourceReader, SyncResourceSnapshot, SyncResourceState
from lifecycle_manager.sync_resource.status import unreachable
from lifecycle_manager_api import names
from tests.sets import NO_OTHER_SETS, RecordedSet, RecordedWrites


@dataclass(frozen=True)
class _Known:
    """A reader that returns what is known."""

    seen: SyncResourceSnapshot

    async def read(self, _: object) -> SyncResourceSnapshot:
        return self.seen


def reconciled(seen: SyncResourceSnapshot, world: RecordedSet | None = None) -> RecordedSet:
    """Return what a reconcile asked of the SKR, and what it wrote to KCP."""
    found = RecordedSet() if world is None else world
    engine = SyncResourceEngine(
        writes=cast("Any", RecordedWrites(found, names.SYNC_RESOURCE_FINALIZER)),
        connections=cast("Connections", found),
        clock=SYSTEM_CLOCK,
        unreachable=unreachable,
        other_sets=NO_OTHER_SETS,
        reader=cast("SyncResourceReader", _Known(seen)),
        latency=ChangeLatency(CollectorRegistry(), SYSTEM_CLOCK),
        publish=lambda _: 0,
    )
    state = SyncResourceState(objects=found.objects_of(seen.resource))
    key: ObjectKey = SYNC_RESOURCES.key_of(seen.resource)
    asyncio.run(engine.reconcile(key, Causes(), state))
    return found
