"""Ties the rules of a SyncResource to its key: applies, prunes and deletes in the SKR, and reports."""

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, Literal, assert_never

import msgspec
import structlog

from kube_runtime import (
    AlreadyExists,
    Applier,
    ApplyResult,
    Client,
    EventRecorder,
    Informer,
    InventoryEntry,
    KubeError,
    KubernetesObject,
    ObjectKey,
    Result,
)
from lifecycle_manager.clock import utc_now
from lifecycle_manager.kcp_writes import finalizers_of, let_go, patch_metadata, write_status
from lifecycle_manager.resources import FIELD_MANAGER, NAMESPACES, SYNC_RESOURCES
from lifecycle_manager.skr import AccessSecretMissing, Connections, SkrAccessError, failure_of
from lifecycle_manager.sync_resource import plan as planned
from lifecycle_manager.sync_resource.claims import Claim, ClaimBook, claim_key, unresolved_entries
from lifecycle_manager.sync_resource.intent import TooManyObjects, as_annotation, as_status, inventory_of, unknown_in
from lifecycle_manager.sync_resource.policy import Allowances
from lifecycle_manager.telemetry import ChangeLatency
from lifecycle_manager_api import Kyma, State, SyncResource, SyncResourceStatus, find, names

log = structlog.get_logger("sync_resource")

READINESS_SECONDS = 2.0


class RecordingFailed(Exception):
    """The inventory could not be recorded in the control plane, so nothing was applied."""


@dataclass(eq=False)
class SyncResourceReconciler:
    """Keeps the objects of one SyncResource in its SKR as the Module Manager wants them."""

    kcp: Client
    connections: Connections
    kymas: Informer[Kyma]
    sync_resources: Informer[SyncResource]
    latency: ChangeLatency
    events: EventRecorder
    allowances: Allowances = field(default_factory=dict)
    interval_seconds: float = 30.0
    clock: Callable[[], datetime] = utc_now
    _brought: dict[ObjectKey, tuple[InventoryEntry, ...]] = field(default_factory=dict, init=False)
    _claims: ClaimBook = field(default_factory=ClaimBook, init=False)
    _namespaces: dict[ObjectKey, tuple[Client, frozenset[str]]] = field(default_factory=dict, init=False)
    _appliers: dict[ObjectKey, tuple[Client, Applier]] = field(default_factory=dict, init=False)

    def forget(self, key: ObjectKey) -> None:
        """Drop what this process remembers of it: it is gone, or another process has looked after it meanwhile."""
        for memory in (self._appliers, self._brought, self._namespaces):
            memory.pop(key, None)
        self._claims.drop(key)

    async def reconcile(self, key: ObjectKey) -> Result:
        """Do what this SyncResource needs next. Raises KubeError or SkrAccessError after its status says so."""
        resource = self.sync_resources.cache.get(key)
        if resource is None:
            self.forget(key)
            return Result()
        kyma = self.kymas.cache.get(ObjectKey(key.namespace, resource.spec.kyma))
        step = planned.plan(
            resource,
            kyma,
            self._brought.get(key, ()),
            claimed=partial(self._claimed, key, resource.spec.kyma),
            allowed=self.allowances.get(resource.spec.module, frozenset()),
        )
        match step:
            case planned.RemoveFinalizer():
                await self._let_go(resource)
                return Result()
            case planned.Refuse(refusal):
                return await self._refuse(key, resource, refusal)
            case planned.DeleteObjects():
                return await self._in_skr(key, resource, step)
            case planned.ApplyObjects():
                # Set with no await since the plan, so that of two that want one object the second sees the first.
                self._claims.note(key, resource.spec.kyma, unresolved_entries(step.objects))
                try:
                    return await self._in_skr(key, resource, step)
                except TooManyObjects as error:
                    return await self._refuse(key, resource, planned.Refusal("TooManyObjects", str(error)))
            case _:
                assert_never(step)

    async def _refuse(self, key: ObjectKey, resource: SyncResource, refusal: planned.Refusal) -> Result:
        self._note(key, resource, set(self._brought.get(key, ())) - refusal.lost)
        await self._write_status(resource, planned.refused(resource, refusal, self.clock()))
        return Result(requeue_after=self.interval_seconds)

    async def _in_skr(
        self, key: ObjectKey, resource: SyncResource, step: planned.DeleteObjects | planned.ApplyObjects
    ) -> Result:
        try:
            async with self.connections.to(resource.spec.kyma) as skr:
                applier = self._applier(key, resource, skr)
                if isinstance(step, planned.DeleteObjects):
                    result = await applier.delete(step.inventory)
                else:
                    intended = await applier.intended(step.objects, step.inventory)
                    resource = await self._record_intent(resource, intended)
                    self._note(key, resource, intended)
                    await self._make_namespaces(key, skr, step.namespaces)
                    result = await applier.apply(step.objects, step.inventory, prune=step.prune, recheck=step.recheck)
                self._note(key, resource, result.inventory)
        except (KubeError, SkrAccessError) as error:
            if isinstance(error, AccessSecretMissing) and isinstance(step, planned.DeleteObjects):
                await self._let_go(resource)  # the cluster is gone, and its objects with it
                return Result()
            failure = failure_of(error)
            await self._write_status(
                resource, planned.unreachable(resource, failure.reason, failure.message, self.clock())
            )
            raise
        if isinstance(step, planned.DeleteObjects):
            return await self._after_deleting(resource, result)
        return await self._after_applying(resource, result)

    def _claimed(self, key: ObjectKey, kyma: str, thing: KubernetesObject) -> Iterable[Claim]:
        """Return what other SyncResources of this Kyma have, or are about to have, of an object's kind and name."""
        group, cache = thing.api_version.rpartition("/")[0], self.sync_resources.cache
        place = claim_key(kyma, group, thing.kind, thing.name)
        for other in cache.by_index("claim", place):
            if ObjectKey(other.metadata.namespace, other.metadata.name) != key:
                for entry in inventory_of(other):
                    if (entry.group, entry.kind, entry.name) == (group, thing.kind, thing.name):
                        yield Claim(entry, *planned.since(other))
        for other_key, entry in self._claims.owners(place):
            if other_key != key and (known := cache.get(other_key)) is not None:
                yield Claim(entry, *planned.since(known))

    def _note(self, key: ObjectKey, resource: SyncResource, entries: Iterable[InventoryEntry]) -> None:
        """Remember what is in the SKR, or about to be, from before the status says so."""
        self._brought[key] = tuple(entries)
        self._claims.note(key, resource.spec.kyma, self._brought[key])

    async def _make_namespaces(self, key: ObjectKey, skr: Client, wanted: Iterable[str]) -> None:
        """Make namespaces that are missing; each is asked for once in a client's life."""
        client, known = self._namespaces.get(key, (skr, frozenset[str]()))
        missing = frozenset(wanted) - (known if client is skr else frozenset())
        for name in sorted(missing):
            namespace = {"metadata": {"name": name, "labels": {names.MANAGED_BY: names.LIFECYCLE_MANAGER}}}
            with suppress(AlreadyExists):
                await skr.create(NAMESPACES, namespace, field_manager=FIELD_MANAGER)
        if missing:
            self._namespaces[key] = (skr, frozenset(wanted))

    async def _record_intent(self, resource: SyncResource, inventory: tuple[InventoryEntry, ...]) -> SyncResource:
        """Write down what is about to be applied, and hold the SyncResource; return it as it is then.

        Raises RecordingFailed and TooManyObjects.
        """
        fresh = unknown_in(resource, inventory)
        try:
            resource, told = await self._hold(resource, fresh)
            if fresh and not told:
                status = as_status(resource, fresh)
                await self._write_status(resource, status)
                resource = msgspec.structs.replace(resource, status=status)
        except KubeError as error:
            raise RecordingFailed(f"the control plane did not take the inventory: {error}") from error
        return resource

    async def _hold(self, resource: SyncResource, fresh: tuple[InventoryEntry, ...]) -> tuple[SyncResource, bool]:
        """Set the finalizer and, where it can be told there, the annotation, if need be both at once.

        Returns the SyncResource as it is then, and whether the annotation tells what is fresh.
        """
        metadata, text = resource.metadata, as_annotation(resource, fresh) if fresh else None
        patch: dict[str, Any] = {}
        if names.SYNC_RESOURCE_FINALIZER not in metadata.finalizers:
            finalizers = (*metadata.finalizers, names.SYNC_RESOURCE_FINALIZER)
            patch = finalizers_of(metadata, finalizers)
            metadata = msgspec.structs.replace(metadata, finalizers=finalizers)
        if text is not None:
            patch["annotations"] = {names.INTENDED: text}
            metadata = msgspec.structs.replace(metadata, annotations={**metadata.annotations, names.INTENDED: text})
        if patch:
            await patch_metadata(self.kcp, SYNC_RESOURCES, metadata, patch)
        return msgspec.structs.replace(resource, metadata=metadata), text is not None

    async def _after_deleting(self, resource: SyncResource, result: ApplyResult) -> Result:
        if not result.inventory:
            await self._let_go(resource)
            return Result()
        await self._write_status(resource, planned.deleting(resource, result, self.clock()))
        return Result(requeue_after=READINESS_SECONDS)

    async def _after_applying(self, resource: SyncResource, result: ApplyResult) -> Result:
        if result.changed:
            counts = Counter(str(outcome.action) for outcome in result.outcomes)
            self.latency.sync_resource_applied(resource.metadata.annotations.get(names.OBSERVED_AT, ""))
            log.info(
                "sync resource applied",
                kyma=resource.spec.kyma,
                module=resource.spec.module,
                name=resource.metadata.name,
                generation=resource.metadata.generation,
                traceparent=resource.metadata.annotations.get(names.TRACEPARENT, ""),
                observed_at=resource.metadata.annotations.get(names.OBSERVED_AT, ""),
                objects=dict(counts),
            )
        status = planned.applied(resource, result, self.clock())
        await self._write_status(resource, status)
        result.raise_first_failure()
        waiting = status.state is not State.READY
        return Result(requeue_after=READINESS_SECONDS if waiting else self.interval_seconds)

    def _applier(self, key: ObjectKey, resource: SyncResource, skr: Client) -> Applier:
        """Return the applier of this SyncResource: it remembers what it applied, so it lives as long as its client."""
        known = self._appliers.get(key)
        if known is not None and known[0] is skr:
            return known[1]
        applier = Applier(
            skr,
            field_manager=FIELD_MANAGER,
            labels={
                names.MANAGED_BY: names.LIFECYCLE_MANAGER,
                names.WATCHED_BY: "kyma",
                names.MODULE_NAME: resource.spec.module,
            },
            annotations={names.OWNED_BY: str(key)},
        )
        self._appliers[key] = (skr, applier)
        return applier

    async def _let_go(self, resource: SyncResource) -> None:
        await let_go(self.kcp, SYNC_RESOURCES, resource.metadata, names.SYNC_RESOURCE_FINALIZER)

    async def _write_status(self, resource: SyncResource, status: SyncResourceStatus) -> None:
        if status == resource.status:
            return
        await write_status(self.kcp, SYNC_RESOURCES, resource.metadata, status)
        self._tell(resource, status)

    def _tell(self, resource: SyncResource, status: SyncResourceStatus) -> None:
        """Record an Event where what the SyncResource says of itself is new."""
        before, ready = (find(each.conditions, planned.READY) for each in (resource.status, status))
        if ready is None or (before is not None and (before.status, before.reason) == (ready.status, ready.reason)):
            return
        kind: Literal["Normal", "Warning"] = "Warning" if status.state is State.ERROR else "Normal"
        self.events.record(SYNC_RESOURCES, resource, ready.reason, ready.message, type=kind, action="Apply")
