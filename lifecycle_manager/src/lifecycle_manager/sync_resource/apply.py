"""Carries out the steps of a SyncResource, most of which are those of every set of objects, and ends a reconcile."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import assert_never

import msgspec
import structlog

from kube_runtime import Forbidden, RequestTooLarge, Result, ServerUnavailable
from lifecycle_manager.contract.signals import SyncResourceApplied
from lifecycle_manager.contract.verdict import TEXT_TOO_LARGE
from lifecycle_manager.object_set.reconciler import SetReconciler
from lifecycle_manager.object_set.steps import (
    ApplyObjects,
    DeleteObjects,
    PruneObjects,
    RecordIntent,
    ReleaseFound,
    ResolveObjects,
)
from lifecycle_manager.object_set.workloads import readiness_with_pods
from lifecycle_manager.process.telemetry import ChangeLatency
from lifecycle_manager.sync_resource.ending import SyncResourceDone, SyncResourceEnd
from lifecycle_manager.sync_resource.plan import ReadPods, SyncResourceStep
from lifecycle_manager.sync_resource.snapshot import SyncResourceRequest, SyncResourceSnapshot
from lifecycle_manager_api import SyncResource, names

log = structlog.get_logger("sync_resource")


@dataclass(frozen=True, eq=False, kw_only=True)
class SyncResourceActions(SetReconciler[SyncResource]):
    """Keeps the objects of SyncResources in their SKRs as the Module Managers want them."""

    latency: ChangeLatency
    publish: Callable[[object], int]

    async def apply(
        self, request: SyncResourceRequest, seen: SyncResourceSnapshot, step: SyncResourceStep
    ) -> SyncResourceSnapshot:
        """Carry a step out. Raises KubeError, SkrAccessError or RecordingFailed."""
        match step:
            case ReadPods(workloads):
                skr = await self.skr(request, seen)
                found = {entry: await readiness_with_pods(skr, entry, live) for entry, live in workloads}
                return replace(seen, workloads=found)
            case ResolveObjects() | RecordIntent() | ApplyObjects() | ReleaseFound() | PruneObjects() | DeleteObjects():
                return await self.carry_out(request, seen, step)
            case _:
                assert_never(step)

    async def finish(self, request: SyncResourceRequest, seen: SyncResourceSnapshot, end: SyncResourceEnd) -> Result:
        """Write the status or remove the finalizer; return when to reconcile again. Raises KubeError."""
        try:
            return await self._end(request, seen, end)
        except (RequestTooLarge, ServerUnavailable) as error:
            if "too large" not in str(error).lower():
                raise
            self.writes.record(seen.resource, TEXT_TOO_LARGE, "its text leaves no room for its status; split it")
            return Result(requeue_after=seen.interval_seconds)
        except Forbidden as error:
            if not seen.is_misplaced:
                raise
            # In a namespace of no module the Lifecycle Manager need not have rights, not even to write the refusal.
            log.warning("SyncResource in the wrong namespace", key=str(request.key), error=str(error))
            return Result(requeue_after=seen.interval_seconds)

    async def _end(self, request: SyncResourceRequest, seen: SyncResourceSnapshot, end: SyncResourceEnd) -> Result:
        state, resource = request.state, seen.resource
        if not isinstance(end, SyncResourceDone) or end.requeue_after is None:
            return await self.end(state, seen, end)
        applied = end.applied
        if applied is None and seen.error is None:
            state.remember(set(state.inventory) - end.lost)
        elif applied is not None and applied.changed:
            self._report_change(resource, Counter(str(each.action) for each in applied.outcomes))
        if end.status != resource.status and seen.error is None:
            self.publish(SyncResourceApplied(msgspec.structs.replace(resource, status=end.status)))
        now = self.clock.monotonic()
        due = now + end.requeue_after
        check_due = due if seen.announced is None else min(due, state.check_due)
        result = await self.end(state, seen, replace(end, requeue_after=max(0.0, check_due - now)))
        state.check_due = check_due
        return result

    def _report_change(self, resource: SyncResource, objects: Mapping[str, int]) -> None:
        observed_at = resource.metadata.annotations.get(names.OBSERVED_AT, "")
        self.latency.sync_resource_applied(observed_at)
        log.info(
            "sync resource applied",
            kyma=resource.spec.kyma,
            module=resource.spec.module,
            name=resource.metadata.name,
            generation=resource.metadata.generation,
            traceparent=resource.metadata.annotations.get(names.TRACEPARENT, ""),
            observed_at=observed_at,
            objects=dict(objects),
        )
