"""Carries out the steps of a SyncResource, and writes its end. Every step may be repeated."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import assert_never

import msgspec
import structlog

from kube_runtime import ApplyResult, Clock, Forbidden, ObjectKey, RequestTooLarge, Result, ServerUnavailable
from lifecycle_manager.contract.signals import SyncResourceApplied
from lifecycle_manager.contract.verdict import TEXT_TOO_LARGE
from lifecycle_manager.object_set import OwnerWrites, SkrObjects
from lifecycle_manager.object_set.inventory import united, unresolved_entries, without
from lifecycle_manager.object_set.ownership import by_place
from lifecycle_manager.object_set.protected import is_protected_entry
from lifecycle_manager.object_set.repairs import seen_in
from lifecycle_manager.object_set.reporting import set_owner
from lifecycle_manager.object_set.steps import (
    ApplyObjects,
    DeleteObjects,
    NothingApplied,
    PruneObjects,
    RemoveFinalizer,
)
from lifecycle_manager.process.telemetry import ChangeLatency
from lifecycle_manager.skr import Connections, failure_of
from lifecycle_manager.sync_resource.intent import TooManyObjects, begun
from lifecycle_manager.sync_resource.plan import (
    RecordIntent,
    ResolveScopes,
    SyncResourceDone,
    SyncResourceEnd,
    SyncResourceStep,
)
from lifecycle_manager.sync_resource.snapshot import SyncResourceRequest, SyncResourceSnapshot, SyncResourceState
from lifecycle_manager.sync_resource.status import unreachable
from lifecycle_manager_api import SyncResource, names

log = structlog.get_logger("sync_resource")


@dataclass(frozen=True, eq=False)
class SyncResourceActions:
    """Keeps the objects of SyncResources in their SKRs as the Module Managers want them."""

    writes: OwnerWrites[SyncResource]
    connections: Connections
    clock: Clock
    latency: ChangeLatency
    publish: Callable[[object], int]

    async def apply(
        self, request: SyncResourceRequest, seen: SyncResourceSnapshot, step: SyncResourceStep
    ) -> SyncResourceSnapshot:
        """Carry a step out. Raises KubeError, SkrAccessError or RecordingFailed."""
        state = request.state
        match step:
            case ResolveScopes(objects):
                # Before the first await: of two SyncResources that want one object, the second sees the first's claim.
                state.claims = by_place(unresolved_entries(objects))
                return replace(seen, scopes=await (await self._objects(request, seen)).scopes(objects))
            case RecordIntent():
                return await self._record_intent(request, seen, step)
            case ApplyObjects():
                result = await (await self._objects(request, seen)).apply(step)
                return replace(seen, applied=_remembered(state, result))
            case PruneObjects():
                result = await (await self._objects(request, seen)).prune(step)
                return replace(seen, applied=_remembered(state, result), pruned=True)
            case DeleteObjects(inventory):
                result = await (await self._objects(request, seen)).applier.delete(inventory)
                state.remember((*without(seen.inventory, inventory), *result.inventory))
                return replace(seen, removed=result)
            case _:
                assert_never(step)

    async def finish(self, request: SyncResourceRequest, seen: SyncResourceSnapshot, end: SyncResourceEnd) -> Result:
        """Write the status or remove the finalizer; return when to reconcile again. Raises KubeError."""
        try:
            match end:
                case SyncResourceDone():
                    return await self._report(request, seen, end)
                case RemoveFinalizer():
                    await self.writes.remove_finalizer(seen.resource)
                    return Result()
                case NothingApplied():
                    return Result()
                case _:
                    assert_never(end)
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

    async def report(self, key: ObjectKey, error: Exception) -> None:
        """Report an unforeseen exception. Raises KubeError."""
        resource, failure = self.writes.informer.get(key), failure_of(error)
        if resource is not None:
            status = unreachable(resource, failure.reason, failure.message, self.clock.now())
            await self.writes.report(resource, status)

    async def _objects(self, request: SyncResourceRequest, seen: SyncResourceSnapshot) -> SkrObjects:
        state, resource = request.state, seen.resource
        skr = await request.shared("skr", lambda: self.connections.to(resource.spec.kyma))
        state.objects = SkrObjects.of(state.objects, skr, owner=set_owner(resource, resource.spec.module))
        return state.objects

    async def _record_intent(
        self, request: SyncResourceRequest, seen: SyncResourceSnapshot, step: RecordIntent
    ) -> SyncResourceSnapshot:
        wanted = await (await self._objects(request, seen)).applier.intended(step.objects, ())
        if protected := tuple(each for each in wanted if is_protected_entry(each, seen.pull_secret)):
            return replace(seen, protected=protected)
        intended = united(step.inventory, wanted)
        try:
            status = begun(seen.resource, intended)
        except TooManyObjects as error:
            return replace(seen, too_many=str(error))
        resource = await self.writes.intend(seen.resource, status)
        request.state.remember(intended)
        return replace(seen, resource=resource, recorded=True)

    async def _report(self, request: SyncResourceRequest, seen: SyncResourceSnapshot, end: SyncResourceDone) -> Result:
        state, resource, result = request.state, seen.resource, end.result
        if result is None and seen.error is None:
            state.remember(set(state.inventory) - end.lost)
        elif result is not None and result.changed:
            self._report_change(resource, Counter(str(each.action) for each in result.outcomes))
        if end.status != resource.status and seen.error is None:
            self.publish(SyncResourceApplied(msgspec.structs.replace(resource, status=end.status)))
        await self.writes.report(resource, end.status)
        if end.requeue_after is None:
            return Result()
        now, wait = self.clock.monotonic(), None
        due = now + end.requeue_after
        state.check_due = due if seen.announced is None else min(due, state.check_due)
        if result is not None and end.error is None:
            state.repairs.remember(result.outcomes)
            wait = state.settle(seen_in(result.outcomes), now=now)
        return Result(requeue_after=max(0.0, state.check_due - now) if wait is None else wait)

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


def _remembered(state: SyncResourceState, result: ApplyResult) -> ApplyResult:
    state.remember(result.inventory)
    return result
