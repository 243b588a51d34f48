"""Carries out one step of a SyncResource's plan. Every step may be repeated."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from kube_runtime import ApplyResult, InventoryEntry, ObjectKey
from lifecycle_manager.object_set import Record, SkrObjects
from lifecycle_manager.object_set.borrowing import BorrowedSkr
from lifecycle_manager.object_set.inventory import unresolved_entries, without
from lifecycle_manager.object_set.steps import ApplyObjects, DeleteObjects, PruneObjects, Step
from lifecycle_manager.skr import AccessSecretMissing
from lifecycle_manager.sync_resource.intent import TooManyObjects, as_annotation, as_status, unrecorded
from lifecycle_manager.sync_resource.plan import RecordIntent, ResolveScopes
from lifecycle_manager.sync_resource.snapshot import Snapshot
from lifecycle_manager_api import SyncResource, names


@dataclass(slots=True)
class SyncResourceState:
    """What this process remembers of a SyncResource from reconcile to reconcile.

    - `inventory`: what is in the SKR or about to be, from before the status says so
    - `claims`: what it claims among the SyncResources of its Kyma, from before the inventory is known
    """

    inventory: tuple[InventoryEntry, ...] = ()
    claims: frozenset[InventoryEntry] = frozenset()
    objects: SkrObjects | None = None

    def remember(self, entries: Iterable[InventoryEntry]) -> None:
        """Put these objects in the place of those that were known."""
        self.inventory = tuple(entries)
        self.claims = frozenset(self.inventory)


@dataclass(eq=False)
class Steps:
    """The steps of one reconcile."""

    record: Record[SyncResource]
    key: ObjectKey
    state: SyncResourceState
    skr: BorrowedSkr = field(repr=False)

    async def apply(self, seen: Snapshot, step: Step) -> Snapshot:
        """Carry a step out and return the snapshot with its outcome. Raises KubeError, SkrAccessError."""
        match step:
            case ResolveScopes(objects):
                # Before the first await: of two SyncResources that want one object, the second sees the first's claim.
                self.state.claims = unresolved_entries(objects)
                return replace(seen, scopes=await (await self._objects()).scopes(objects))
            case RecordIntent():
                return await self._record_intent(seen, step)
            case ApplyObjects():
                return replace(seen, applied=self._remembered(await (await self._objects()).apply(step)))
            case PruneObjects():
                result = await (await self._objects()).prune(step)
                return replace(seen, applied=self._remembered(result), pruned=True)
            case DeleteObjects(inventory):
                try:
                    result = await (await self._objects()).applier.delete(inventory)
                except AccessSecretMissing:
                    return replace(seen, cluster_gone=True)
                self.state.remember((*without(seen.inventory, inventory), *result.inventory))
                return replace(seen, removed=result)
            case _:
                raise TypeError(step)

    def _remembered(self, result: ApplyResult) -> ApplyResult:
        self.state.remember(result.inventory)
        return result

    async def _objects(self) -> SkrObjects:
        skr, module = await self.skr.client(), self.record.item.spec.module
        self.state.objects = SkrObjects.of(self.state.objects, skr, owner=self.key, module=module)
        return self.state.objects

    async def _record_intent(self, seen: Snapshot, step: RecordIntent) -> Snapshot:
        intended = await (await self._objects()).applier.intended(step.objects, step.inventory)
        resource = self.record.item
        fresh = unrecorded(resource, intended)
        try:
            text = as_annotation(resource, fresh) if fresh else None
        except TooManyObjects as error:
            return replace(seen, too_many=str(error))
        if text is not None:
            await self.record.intend(annotations={names.INTENDED: text})
        else:
            await self.record.intend(as_status(resource, fresh) if fresh else None)
        self.state.remember(intended)
        return replace(seen, resource=self.record.item, recorded=True)
