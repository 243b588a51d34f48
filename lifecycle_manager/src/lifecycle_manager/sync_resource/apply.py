"""Carries out one step of a SyncResource's plan. Every step may be repeated."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from kube_runtime import ApplyResult, InventoryEntry
from lifecycle_manager.object_set import Record, SkrObjects
from lifecycle_manager.object_set.borrowing import LazySkrClient
from lifecycle_manager.object_set.inventory import united, unresolved_entries, without
from lifecycle_manager.object_set.ownership import Place, by_place
from lifecycle_manager.object_set.protected import is_protected_entry
from lifecycle_manager.object_set.repairs import Repairs
from lifecycle_manager.object_set.reporting import set_owner
from lifecycle_manager.object_set.steps import ApplyObjects, DeleteObjects, PruneObjects, Step
from lifecycle_manager.skr import AccessSecretMissing, Announcements
from lifecycle_manager.sync_resource.intent import TooManyObjects, begun
from lifecycle_manager.sync_resource.plan import RecordIntent, ResolveScopes
from lifecycle_manager.sync_resource.snapshot import Snapshot
from lifecycle_manager_api import SyncResource


@dataclass(slots=True)
class SyncResourceState:
    """What this process remembers of a SyncResource from reconcile to reconcile.

    - `inventory`: what is in the SKR or about to be, from before the status says so
    - `claims`: what it claims among the SyncResources of its Kyma by its place, from before the inventory is known
    - `check_due`: the monotonic time from which on every object is read, whatever triggers the reconcile
    """

    inventory: tuple[InventoryEntry, ...] = ()
    claims: Mapping[Place, tuple[InventoryEntry, ...]] = field(default_factory=dict)
    objects: SkrObjects | None = None
    announcements: Announcements = field(default_factory=Announcements)
    repairs: Repairs = field(default_factory=Repairs)
    check_due: float = float("-inf")

    def remember(self, entries: Iterable[InventoryEntry]) -> None:
        """Put these objects in the place of those that were known."""
        self.inventory = tuple(entries)
        self.claims = by_place(self.inventory)


@dataclass(eq=False)
class Steps:
    """The steps of one reconcile."""

    record: Record[SyncResource]
    state: SyncResourceState
    skr: LazySkrClient = field(repr=False)

    async def apply(self, seen: Snapshot, step: Step) -> Snapshot:
        """Carry a step out and return the snapshot with its outcome. Raises KubeError, SkrAccessError."""
        match step:
            case ResolveScopes(objects):
                # Before the first await: of two SyncResources that want one object, the second sees the first's claim.
                self.state.claims = by_place(unresolved_entries(objects))
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
        skr, resource = await self.skr.client(), self.record.item
        owner = set_owner(resource, resource.spec.module)
        self.state.objects = SkrObjects.of(self.state.objects, skr, owner=owner)
        return self.state.objects

    async def _record_intent(self, seen: Snapshot, step: RecordIntent) -> Snapshot:
        wanted = await (await self._objects()).applier.intended(step.objects, ())
        if protected := tuple(each for each in wanted if is_protected_entry(each, seen.pull_secret)):
            return replace(seen, protected=protected)
        intended = united(step.inventory, wanted)
        try:
            status = begun(self.record.item, intended)
        except TooManyObjects as error:
            return replace(seen, too_many=str(error))
        await self.record.intend(status)
        self.state.remember(intended)
        return replace(seen, recorded=True)
