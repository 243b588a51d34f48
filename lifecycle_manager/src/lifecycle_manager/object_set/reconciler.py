"""Carries out the common steps of a set, and ends its reconcile. Every step may be repeated."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, Generic, TypeVar, assert_never

import structlog

from kube_runtime import ApplyResult, Client, Clock, InventoryEntry, ObjectKey, Request, Result
from lifecycle_manager.object_set.apply import SkrObjects
from lifecycle_manager.object_set.engine import OBJECTS_LEFT
from lifecycle_manager.object_set.inventory import Identity, held_message, identities, listed, name_of, without
from lifecycle_manager.object_set.owner_writes import Owner, OwnerWrites, Status
from lifecycle_manager.object_set.ownership import existed_before, is_managed_by_another
from lifecycle_manager.object_set.reporting import cluster_of, set_owner, with_found
from lifecycle_manager.object_set.snapshot import SetSnapshot
from lifecycle_manager.object_set.state import SetState
from lifecycle_manager.object_set.steps import (
    ApplyObjects,
    DeleteObjects,
    NothingApplied,
    PruneObjects,
    RecordIntent,
    ReleaseFound,
    RemoveFinalizer,
    ResolveObjects,
    SetDone,
    SetEnd,
    SetStep,
)
from lifecycle_manager.skr import Connections, SkrFailure, failure_of

log = structlog.get_logger("object_set")
Seen = TypeVar("Seen", bound=SetSnapshot[Any])
State = TypeVar("State", bound=SetState)


@dataclass(frozen=True, eq=False, kw_only=True)
class SetReconciler(Generic[Owner]):
    """Keeps the sets of the owners of one kind.

    `unreachable` returns the status of one whose SKR can't be reached; `found_by_others` what other owners in the same
    SKR have that existed before.
    """

    writes: OwnerWrites[Owner]
    connections: Connections
    clock: Clock
    unreachable: Callable[[Owner, SkrFailure, datetime], Status]
    found_by_others: Callable[[Owner], Collection[Identity]]

    async def skr(self, request: Request[ObjectKey, State], seen: Seen) -> Client:
        """Return the client of the SKR that all steps of a reconcile use. Raises SkrAccessError."""
        return await request.shared("skr", lambda: self.connections.to(cluster_of(seen.resource)))

    async def objects(self, request: Request[ObjectKey, State], seen: Seen) -> SkrObjects:
        """Return what applies the objects. Another client may lead to another cluster: all is applied anew."""
        skr, owner, state = await self.skr(request, seen), set_owner(seen.resource), request.state
        objects = SkrObjects.of(state.objects, skr, owner=owner, namespace=seen.default_namespace)
        if objects is not state.objects:
            state.renew(objects)
        return objects

    async def carry_out(self, request: Request[ObjectKey, State], seen: Seen, step: SetStep) -> Seen:
        """Carry a step out. Raises KubeError, SkrAccessError or RecordingFailed."""
        state = request.state
        match step:
            case ResolveObjects():
                state.claim(step.objects)  # before the first await
                objects = await self.objects(request, seen)
                known = await objects.applier.intended(step.objects, ())
                wanted = frozenset(known).union(step.own_kinds)
                new = without(wanted, (*seen.before, *seen.inventory))
                by_others: Collection[Identity] = self.found_by_others(seen.resource)
                looked_up = await objects.applier.existing(new)
                found = existed_before(looked_up, {*by_others, *self.found_by_others(seen.resource)})
                return replace(seen, wanted=wanted, found=seen.found | found)
            case RecordIntent():
                resource = await self.writes.intend(seen.resource, step.status)
                state.remember(step.entries)
                return replace(seen, resource=resource, inventory=step.entries, recorded=True)
            case ApplyObjects():
                objects = await self.objects(request, seen)
                leaves = partial(is_managed_by_another, others=seen.others)
                result = await objects.apply(
                    step.objects,
                    step.inventory,
                    recheck=step.recheck,
                    new=step.new,
                    namespaces=step.namespaces,
                    found=step.found,
                    leave=leaves,
                )
                return _without_created(_applied(state, seen, result))
            case ReleaseFound(entries):
                objects = await self.objects(request, seen)
                left = await objects.leave(entries)
                self._report_left(seen, listed([name_of(each) for each in left]), "existed before")
                return _released(state, seen, entries)
            case PruneObjects():
                objects = await self.objects(request, seen)
                return replace(_applied(state, seen, await objects.prune(step.applied, step.entries)), pruned=True)
            case DeleteObjects():
                objects = await self.objects(request, seen)
                removed, kept = await objects.delete(step.inventory)
                self._report_left(seen, "; ".join(map(held_message, kept)), "contains objects of others")
                state.remember(sorted(set(removed.inventory).union(without(seen.inventory, step.inventory))))
                return replace(seen, removed=removed, inventory=state.inventory)
            case _:
                assert_never(step)

    def _report_left(self, seen: Seen, what: str, why: str) -> None:
        if what:
            log.info("objects left in the cluster", kyma=cluster_of(seen.resource), objects=what, because=why)
            self.writes.record(seen.resource, OBJECTS_LEFT, f"left in the cluster, as it {why}: {what}", "Normal")

    async def end(self, state: State, seen: Seen, end: SetEnd) -> Result:
        """Write the status or remove the finalizer; return when to reconcile again. Raises KubeError."""
        match end:
            case SetDone():
                await self.writes.report(seen.resource, with_found(end.status, seen.found))
                if end.applied is not None and end.error is None:
                    state.repairs.remember(end.applied.outcomes)
                shows = end.shown is not None and end.error is None
                wait = state.settle(end.shown or {}, now=self.clock.monotonic()) if shows else None
                return Result(requeue_after=end.requeue_after if wait is None else wait)
            case RemoveFinalizer(of_others=of_others):
                await self.writes.remove_finalizer(seen.resource, of_others=of_others)
                return Result()
            case NothingApplied():
                return Result()
            case _:
                assert_never(end)

    async def report(self, key: ObjectKey, error: Exception) -> None:
        """Report an unforeseen exception; the inventory stays. Raises KubeError."""
        resource = self.writes.informer.get(key)
        if resource is not None:
            status = self.unreachable(resource, failure_of(error), self.clock.now())
            await self.writes.report(resource, status)


def _without_created(seen: Seen) -> Seen:
    """Forget of objects that they existed before, where the apply has created them."""
    outcomes = seen.applied.outcomes if seen.applied is not None else ()
    created = identities(each.entry for each in outcomes if each.action == "created")
    return replace(seen, found=seen.found - created)


def _released(state: SetState, seen: Seen, entries: tuple[InventoryEntry, ...]) -> Seen:
    """Return what is known after objects were released to the users: an apply has not kept them, but released them."""
    state.remember(without(seen.inventory, entries))
    applied = seen.applied
    if applied is not None:
        outcomes = (replace(each, action="released") if each.entry in entries else each for each in applied.outcomes)
        applied = ApplyResult(tuple(outcomes), without(applied.inventory, entries))
    return replace(seen, inventory=state.inventory, applied=applied)


def _applied(state: SetState, seen: Seen, result: ApplyResult) -> Seen:
    state.remember(result.inventory)
    return replace(seen, applied=result, inventory=result.inventory)
