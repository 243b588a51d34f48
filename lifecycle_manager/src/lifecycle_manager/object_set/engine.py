"""The engine of all sets of objects in SKRs: what a reconcile does with the set of one owner.

In this order: the objects are resolved as the SKR knows them, the intent is recorded in KCP, the objects are applied,
and what is no longer wanted is pruned. The domain decides in between, by its rules and those of `rules`. Every request
may be repeated.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any, Generic

import structlog

from kube_runtime import (
    ApplyResult,
    Client,
    Clock,
    InventoryEntry,
    JsonObject,
    KubernetesObject,
    ObjectKey,
    Readiness,
    Request,
    Result,
)
from kube_runtime.tracing import part
from lifecycle_manager.object_set import rules
from lifecycle_manager.object_set.apply import SkrObjects, hand_over
from lifecycle_manager.object_set.inventory import (
    Identity,
    among,
    found_before,
    held_message,
    identities,
    inventory_of,
    name_of,
    namespace_in,
    scopes_of,
    without,
)
from lifecycle_manager.object_set.others import OtherSets
from lifecycle_manager.object_set.owner_writes import Owner, OwnerWrites, Status
from lifecycle_manager.object_set.ownership import Holder, existed_before, is_managed_by_another
from lifecycle_manager.object_set.reporting import SetReport, cluster_of, set_owner, with_found
from lifecycle_manager.object_set.snapshot import SetSnapshot
from lifecycle_manager.object_set.workloads import readiness_with_pods
from lifecycle_manager.skr.connections import Connections
from lifecycle_manager.skr.failure import SkrFailure, failure_of
from lifecycle_manager_api import Condition
from lifecycle_manager_api.conditions import listed

OBJECTS_LEFT = "ObjectsLeft"
"""The reason of the Event that names objects which a set has left in a cluster."""
log = structlog.get_logger("object_set")


@dataclass(frozen=True, eq=False, kw_only=True)
class SetEngine(Generic[Owner]):
    """Keeps the sets of the owners of one kind.

    `unreachable` returns the status of one whose SKR can't be reached.
    """

    writes: OwnerWrites[Owner]
    connections: Connections
    clock: Clock
    unreachable: Callable[[Owner, SkrFailure, datetime], Status]
    other_sets: OtherSets

    def others_of(self, _owner: Owner) -> tuple[Holder, ...]:
        """Return the other owners in the same SKR that may have the same objects."""
        return ()

    def gave_up(self, _owner: Owner, _entries: tuple[InventoryEntry, ...]) -> None:
        """Take note of objects that an owner no longer has: another one may have them too."""

    async def report_unforeseen(self, key: ObjectKey, error: Exception) -> None:
        """Report an unforeseen exception; the inventory stays. Raises KubeError."""
        resource = self.writes.informer.get(key)
        if resource is not None:
            status = self.unreachable(resource, failure_of(error), self.clock.now())
            await self.writes.report(resource, status)


@dataclass(eq=False, slots=True)
class ObjectSet(Generic[Owner]):
    """The set of one owner during one reconcile: what is known of it by now, and what changes it.

    - `seen`: what was known at the beginning; `resource` its owner, as it was written last
    - `inventory`: what is in the SKR or may be; `found` what of that, and of what is wanted, existed before
    - `wanted`: what an apply may create, as the SKR resolves it; the `new` ones were in no inventory before, the
      `unsure` ones may belong to users; `found_by_others`: what other sets say of that
    - `begun`: the status that records an intent
    - `others`: the other owners that may have the same objects, as read last
    - `is_repeated`: all of it was applied before, in the present generation
    - `parts`: what the reconcile has begun to do
    """

    engine: SetEngine[Owner]
    request: Request[ObjectKey, Any]
    seen: SetSnapshot[Owner]
    resource: Owner = field(init=False)
    inventory: tuple[InventoryEntry, ...] = field(init=False)
    found: frozenset[Identity] = field(init=False)
    wanted: frozenset[InventoryEntry] = frozenset()
    new: frozenset[InventoryEntry] = frozenset()
    unsure: frozenset[InventoryEntry] = frozenset()
    found_by_others: frozenset[Identity] = frozenset()
    begun: Callable[[Owner, tuple[InventoryEntry, ...], frozenset[Identity]], Status] = field(init=False)
    others: tuple[Holder, ...] = ()
    is_repeated: bool = False
    parts: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.resource, self.inventory, self.found = self.seen.resource, self.seen.inventory, self.seen.found

    @property
    def leftover(self) -> tuple[InventoryEntry, ...]:
        """What is in the inventory and no longer wanted."""
        return without(self.inventory, self.wanted)

    @property
    def intended(self) -> tuple[InventoryEntry, ...]:
        """What is in the SKR or about to be, sorted."""
        return tuple(sorted((*self.leftover, *self.wanted)))

    @property
    def namespace_of(self) -> Callable[[KubernetesObject], str]:
        """What says the namespace of an object, by the scopes of kinds as far as the SKR has stated them."""
        return namespace_in(scopes_of((*self.inventory, *self.wanted)), self.seen.default_namespace)

    def part(self, name: str) -> AbstractContextManager[None]:
        """Name what is done from here on, in traces too."""
        self.parts.append(name)
        return part(name)

    async def skr(self) -> Client:
        """Return the client of the SKR that the whole reconcile uses. Raises SkrAccessError."""
        connections = self.engine.connections
        return await self.request.shared("skr", lambda: connections.to(cluster_of(self.resource)))

    async def objects(self) -> SkrObjects:
        """Return what applies the objects. Another client may lead to another cluster: all is applied anew."""
        state, owner = self.request.state, set_owner(self.resource)
        known: SkrObjects | None = state.objects
        objects = SkrObjects.of(known, await self.skr(), owner=owner, namespace=self.seen.default_namespace)
        if objects is not known:
            state.renew(objects)
        return objects

    async def resolve(
        self,
        objects: tuple[KubernetesObject, ...],
        own_kinds: tuple[InventoryEntry, ...] = (),
        *,
        applied: Condition | None,
    ) -> None:
        """Find out what an apply of these objects may create, and which of them users may have already.

        `own_kinds` are objects of kinds that the set itself defines. `applied` says of which generation all is applied;
        otherwise users may have created meanwhile what was refused. Raises KubeError or SkrAccessError.
        """
        with self.part("ResolveObjects"):
            is_complete, metadata = applied is not None and applied.status == "True", self.seen.resource.metadata
            generation = metadata.generation - metadata.being_deleted  # its deletion is one of its own
            self.is_repeated = applied is not None and is_complete and applied.observed_generation == generation
            self.request.state.claim(objects)  # before the first await
            in_skr = await self.objects()
            self.wanted = frozenset(await in_skr.applier.intended(objects, ())).union(own_kinds)
            self.new = frozenset(without(self.wanted, self.seen.inventory + self.inventory))
            self.unsure = frozenset(
                each for each in self.wanted if each in self.new or not (is_complete or in_skr.has_applied(each))
            )
            self.found_by_others = self.engine.other_sets.found_before(self.seen.resource)
            self.others = self.engine.others_of(self.seen.resource)

    async def record_intent(
        self, begun: Callable[[Owner, tuple[InventoryEntry, ...], frozenset[Identity]], Status]
    ) -> None:
        """Record in the status what is in the SKR and about to be, and set the finalizer, where that is not done.

        `begun` returns the status that records an intent. Raises RecordingFailed.
        """
        self.begun = begun
        entries, writes = self.intended, self.engine.writes
        is_held = writes.finalizer in self.resource.metadata.finalizers
        found = identities(among(entries, self.found)) if self.found else frozenset()
        is_recorded = identities(entries) <= identities(inventory_of(self.resource))
        if is_held and is_recorded and found <= found_before(self.resource):
            return
        with self.part("RecordIntent"):
            self.resource = await writes.intend(self.resource, begun(self.resource, entries, self.found))
            self.remember(entries)

    async def apply(
        self,
        objects: tuple[KubernetesObject, ...],
        inventory: tuple[InventoryEntry, ...],
        *,
        recheck: bool | frozenset[Identity],
        namespaces: tuple[str, ...] = (),
    ) -> ApplyResult:
        """Apply these objects; delete none, see `SkrObjects.apply`. Raises KubeError, SkrAccessError, RecordingFailed.

        What users have is recorded before it is written. What was refused of the `new` ones stays in the inventory; see
        `resolve` for what users do meanwhile.
        """
        with self.part("ApplyObjects"):
            self.others = self.engine.others_of(self.seen.resource)
            result: ApplyResult = await (await self.objects()).apply(
                objects,
                inventory,
                recheck=recheck,
                new=self.new,
                namespaces=namespaces,
                found=self.found,
                unsure=self.unsure,
                note_existing=self._note_existing,
                leave=partial(is_managed_by_another, others=self.others),
                repeated=self.is_repeated,
            )
            refused: tuple[InventoryEntry, ...] = without(self.new, result.inventory)
            result = replace(result, inventory=tuple(sorted({*result.inventory, *refused})))
            self.remember(result.inventory)
            self.found -= identities(each.entry for each in result.outcomes if each.action == "created")
            return result

    async def _note_existing(self, existing: Mapping[InventoryEntry, JsonObject | None]) -> frozenset[Identity]:
        """Record what users have of these objects; return all that they have. Raises RecordingFailed."""
        owner, by_others = set_owner(self.resource), self.engine.other_sets.found_before(self.seen.resource)
        theirs = {each: live for each, live in existing.items() if each in self.new or owner.is_free(live)}
        self.found |= existed_before(theirs, by_others | self.found_by_others)
        await self.record_intent(self.begun)
        return self.found

    async def prune(self, applied: ApplyResult) -> ApplyResult:
        """Delete what is no longer wanted; release what existed before, and hand over what SyncResources name.

        No Namespace and no CRD that contains objects: these are named in the status. Raises KubeError.
        """
        released, leaving = rules.leaving(applied, self.found, self.seen.rules)
        if released:
            await self.release_found(released)
        given = await self.pass_on(leaving)
        applied = rules.after_release(applied, released + given)
        if not (pruned := without(leaving, given)):
            return applied
        with self.part("PruneObjects"):
            applied = await (await self.objects()).prune(applied, pruned)
            self._give_up(pruned, applied.inventory)
            return applied

    async def pass_on(self, entries: tuple[InventoryEntry, ...]) -> tuple[InventoryEntry, ...]:
        """Hand objects over to SyncResources of the module that name them; return these. Raises KubeError."""
        if not entries or not (given := await self.engine.other_sets.take(self.resource, entries)):
            return ()
        with self.part("HandOverObjects"):
            await hand_over(await self.skr(), set_owner(self.resource), given)
            self._give_up(tuple(given), without(self.inventory, given))
        return tuple(given)

    async def release_found(self, entries: tuple[InventoryEntry, ...]) -> None:
        """Leave objects that existed before to users: without the set's labels, annotations and managed fields."""
        with self.part("ReleaseFound"):
            left = await (await self.objects()).leave(entries)
            self._report_left(listed([name_of(each) for each in left]), "existed before")
            self._give_up(entries, without(self.inventory, entries))

    async def delete(self, entries: tuple[InventoryEntry, ...]) -> ApplyResult:
        """Delete these objects of the inventory: their owner is being deleted.

        A Namespace that contains objects of others is left, without the set's labels, annotations and managed fields;
        it waits for objects of owners that are being deleted, too. A CRD that has objects waits until these are
        deleted. Raises KubeError or SkrAccessError.
        """
        with self.part("DeleteObjects"):
            objects = await self.objects()
            in_removal = partial(self.engine.other_sets.in_removal, self.seen.resource)
            removed: ApplyResult
            removed, left = await objects.delete(entries, in_removal=in_removal)
            self._report_left("; ".join(map(held_message, left)), "contains objects of others")
            self._give_up(entries, tuple(sorted({*removed.inventory, *without(self.inventory, entries)})))
            return removed

    async def readiness_of(
        self, workloads: Iterable[tuple[InventoryEntry, JsonObject]]
    ) -> Mapping[InventoryEntry, Readiness]:
        """Return the readiness of workloads as they were read, with what their Pods say. Raises KubeError."""
        if not (read := tuple(workloads)):
            return {}
        with self.part("ReadPods"):
            skr = await self.skr()
            return {entry: await readiness_with_pods(skr, entry, live) for entry, live in read}

    async def report(self, report: SetReport) -> Result:
        """Write the status; return when to reconcile again. Raises KubeError."""
        state = self.request.state
        await self.engine.writes.report(self.resource, with_found(report.status, self.found))
        if report.applied is not None and report.error is None:
            state.repairs.remember(report.applied.outcomes)
        if report.shown is None or report.error is not None:
            return Result(requeue_after=report.requeue_after)
        wait = state.settle(report.shown, now=self.engine.clock.monotonic())
        return Result(requeue_after=report.requeue_after if wait is None else wait)

    def remember(self, inventory: tuple[InventoryEntry, ...]) -> None:
        """Put this inventory in the place of what was known."""
        self.inventory = inventory
        self.request.state.remember(inventory)

    def _give_up(self, entries: tuple[InventoryEntry, ...], inventory: tuple[InventoryEntry, ...]) -> None:
        self.remember(inventory)
        self.engine.gave_up(self.resource, without(entries, inventory))

    def _report_left(self, what: str, why: str) -> None:
        if what:
            log.info("objects left in the cluster", kyma=cluster_of(self.resource), objects=what, because=why)
            self.engine.writes.record(
                self.resource, OBJECTS_LEFT, f"left in the cluster, as it {why}: {what}", "Normal"
            )
