"""Carries out one step of a SyncResource's plan. Every step may be repeated."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from kube_runtime import ApplyResult, Client, Informer, InventoryEntry, KubeError, ObjectKey
from lifecycle_manager.kcp_writes import finalizers_of, patch_metadata, write_status
from lifecycle_manager.object_set import Owner, RecordingFailed, SkrObjects
from lifecycle_manager.object_set.apply import apply_objects, create_namespace, prune
from lifecycle_manager.object_set.borrowing import BorrowedSkr
from lifecycle_manager.object_set.inventory import unresolved_entries
from lifecycle_manager.resources import SYNC_RESOURCES
from lifecycle_manager.skr import AccessSecretMissing
from lifecycle_manager.sync_resource.intent import TooManyObjects, as_annotation, as_status, unrecorded
from lifecycle_manager.sync_resource.plan import ApplyObjects, DeleteObjects, PruneObjects, RecordIntent, Step
from lifecycle_manager.sync_resource.snapshot import Snapshot
from lifecycle_manager_api import SyncResource, SyncResourceStatus, names


@dataclass(slots=True)
class SyncResourceState:
    """What this process remembers of a SyncResource from reconcile to reconcile.

    - `inventory`: what is in the SKR or about to be, from before the status says so
    - `claims`: what it claims among the SyncResources of its Kyma, from before the inventory is known
    - `namespaces`: those that exist, by the client of `objects`
    """

    inventory: tuple[InventoryEntry, ...] = ()
    claims: frozenset[InventoryEntry] = frozenset()
    objects: SkrObjects | None = None
    namespaces: frozenset[str] = frozenset()

    def remember(self, entries: Iterable[InventoryEntry]) -> None:
        """Put these objects in the place of those that were known."""
        self.inventory = tuple(entries)
        self.claims = frozenset(self.inventory)


@dataclass(eq=False)
class Steps:
    """The steps of one reconcile. `resource` is the SyncResource as the steps have written it."""

    kcp: Client
    sync_resources: Informer[SyncResource]
    key: ObjectKey
    resource: SyncResource
    state: SyncResourceState
    skr: BorrowedSkr = field(repr=False)

    async def apply(self, seen: Snapshot, step: Step) -> Snapshot:
        """Carry a step out and return the snapshot with its outcome. Raises KubeError, SkrAccessError."""
        match step:
            case RecordIntent():
                return await self._record_intent(seen, step)
            case ApplyObjects():
                return replace(seen, applied=self._remembered(await self._apply(step)))
            case PruneObjects(objects, applied, entries):
                result = await prune((await self._objects()).applier, objects, applied, entries)
                return replace(seen, applied=self._remembered(result), pruned=True)
            case DeleteObjects(inventory):
                try:
                    result = await (await self._objects()).applier.delete(inventory)
                except AccessSecretMissing:
                    return replace(seen, cluster_gone=True)
                return replace(seen, removed=self._remembered(result))
            case _:
                raise TypeError(step)

    async def write(self, status: SyncResourceStatus) -> None:
        """Write a status if it differs. Raises KubeError."""
        if status != self.resource.status:
            self.sync_resources.wrote(await write_status(self.kcp, SYNC_RESOURCES, self.resource.metadata, status))

    def _remembered(self, result: ApplyResult) -> ApplyResult:
        self.state.remember(result.inventory)
        return result

    async def _objects(self) -> SkrObjects:
        known, owner = self.state.objects, Owner(self.key, self.resource.spec.module)
        objects = SkrObjects.of(known, await self.skr.client(), owner)
        if objects is not known:
            self.state.objects, self.state.namespaces = objects, frozenset()
        return objects

    async def _apply(self, step: ApplyObjects) -> ApplyResult:
        objects = await self._objects()
        missing = frozenset(step.namespaces) - self.state.namespaces
        for name in sorted(missing):
            await create_namespace(objects.skr, name)
        if missing:
            self.state.namespaces = frozenset(step.namespaces)
        return await apply_objects(objects.applier, step.objects, step.inventory, recheck=step.recheck)

    async def _record_intent(self, seen: Snapshot, step: RecordIntent) -> Snapshot:
        # Before the first await: of two SyncResources that want one object, the second sees the claim of the first.
        self.state.claims = unresolved_entries(step.objects)
        intended = await (await self._objects()).applier.intended(step.objects, step.inventory)
        try:
            await self._record(unrecorded(self.resource, intended))
        except TooManyObjects as error:
            return replace(seen, too_many=str(error))
        except KubeError as error:
            raise RecordingFailed(f"the intent could not be recorded in KCP: {error}") from error
        self.state.remember(intended)
        return replace(seen, resource=self.resource, recorded=True)

    async def _record(self, fresh: Collection[InventoryEntry]) -> None:
        """Set the finalizer and, where it goes there, the annotation, in one write; else write the status."""
        metadata, text = self.resource.metadata, as_annotation(self.resource, fresh) if fresh else None
        patch: dict[str, Any] = {}
        if names.SYNC_RESOURCE_FINALIZER not in metadata.finalizers:
            finalizers = (*metadata.finalizers, names.SYNC_RESOURCE_FINALIZER)
            patch = finalizers_of(metadata, finalizers)
            metadata = msgspec.structs.replace(metadata, finalizers=finalizers)
        if text is not None:
            patch["annotations"] = {names.INTENDED: text}
            metadata = msgspec.structs.replace(metadata, annotations={**metadata.annotations, names.INTENDED: text})
        if patch:
            self.sync_resources.wrote(await patch_metadata(self.kcp, SYNC_RESOURCES, self.resource.metadata, patch))
            self.resource = msgspec.structs.replace(self.resource, metadata=metadata)
        if fresh and text is None:
            status = as_status(self.resource, fresh)
            await self.write(status)
            self.resource = msgspec.structs.replace(self.resource, status=status)
