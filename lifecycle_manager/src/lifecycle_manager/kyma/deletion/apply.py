"""Carries out the steps of the deletion of a Kyma, each idempotent."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import assert_never

from kube_runtime import (
    Causes,
    Client,
    Forbidden,
    InventoryEntry,
    KindUnknown,
    KubeError,
    NotFound,
    ObjectKey,
    Request,
    Result,
    TooManySteps,
    find_object,
    read_kind,
)
from kube_runtime.apply.contents import kind_in
from kube_runtime.controller.steps import MAX_STEPS
from kube_runtime.exceptions import without_frames
from kube_runtime.tracing import part
from lifecycle_manager.contract.conditions import PULL_SECRET_SYNC
from lifecycle_manager.contract.former import is_former
from lifecycle_manager.contract.resources import CUSTOM_RESOURCE_DEFINITIONS, KYMAS, SECRETS
from lifecycle_manager.contract.writes import write_each
from lifecycle_manager.kyma.deletion.plan import (
    ChangeModules,
    DeleteKyma,
    DeletePullSecret,
    DeletionDone,
    DeletionStep,
    PurgeFinalizers,
    ReadSkr,
    RemoveCrd,
    RemoveKymaFinalizer,
    SkrStep,
    SkrSteps,
    WriteSkrStatus,
    plan_deletion,
)
from lifecycle_manager.kyma.snapshot import KymaSnapshot, KymaSnapshots, KymaState
from lifecycle_manager.kyma.writes import KymaWrites
from lifecycle_manager.object_set.inventory import is_crd, own_inventory
from lifecycle_manager.skr.access import SkrAccessError
from lifecycle_manager.skr.connections import Connections
from lifecycle_manager.skr.finalizers import is_held, strip_finalizers
from lifecycle_manager_api import Kyma, Manifest, SyncResource, find, names

KymaRequest = Request[ObjectKey, KymaState]


@dataclass(frozen=True, eq=False)
class KymaDeletion:
    """Reconciles a Kyma that is being deleted, step by step."""

    snapshots: KymaSnapshots
    connections: Connections
    writes: KymaWrites

    async def reconcile(self, key: ObjectKey, causes: Causes, state: KymaState) -> Result:
        """Take the planned steps to their end, and write the status. Raises KubeError."""
        seen = self.snapshots.read(key, causes, state)
        if seen is None:
            return Result()
        async with Request(key, state, causes) as request:
            end = await self._take_steps(request, seen)
        state.repeats = end.repeats
        if end.status is not None:
            await self.writes.write_status(seen.kyma, end.status)
        if end.error is not None:
            raise end.error
        return Result(end.requeue_after, end.reasons)

    async def _take_steps(self, request: KymaRequest, seen: KymaSnapshot) -> DeletionDone:
        """Take steps until one of them is the end, in the order that `plan_deletion` states."""
        for _ in range(MAX_STEPS):
            step = plan_deletion(seen)
            if isinstance(step, DeletionDone):
                return step
            seen = await self._taken(request, seen, step)
        raise TooManySteps(f"not deleted after {MAX_STEPS} steps; the next would be {plan_deletion(seen)!r}")

    async def _taken(self, request: KymaRequest, seen: KymaSnapshot, step: DeletionStep) -> KymaSnapshot:
        """Take a step; the next one is planned from its outcome, also where it failed."""
        with part(type(step).__name__):
            try:
                return replace(await self._apply(request, seen, step), taken=(*seen.taken, step))
            except (KubeError, SkrAccessError) as error:
                return replace(seen, failures=(*seen.failures, (step, without_frames(error))))

    async def _apply(self, request: KymaRequest, seen: KymaSnapshot, step: DeletionStep) -> KymaSnapshot:
        """Carry a step out; return the snapshot with its outcome. Raises KubeError, SkrAccessError."""
        kyma, metadata = seen.kyma, seen.kyma.metadata
        match step:
            case ChangeModules(changes):
                await self.writes.change_modules(kyma, changes)
            case RemoveKymaFinalizer(of_others):
                removed = [
                    each for each in metadata.finalizers if of_others or each == names.KYMA_FINALIZER or is_former(each)
                ]
                await self.writes.remove_finalizers(kyma, *removed)
            case SkrStep():
                skr = await request.shared("skr", lambda: self.connections.to(metadata.name))
                return await self._apply_in_skr(skr, request.state, seen, step)
            case _:
                assert_never(step)
        return seen

    async def _apply_in_skr(self, skr: Client, state: KymaState, seen: KymaSnapshot, step: SkrSteps) -> KymaSnapshot:
        inner = seen.skr.kyma if seen.skr is not None else None
        match step:
            case ReadSkr():
                return await self.snapshots.read_skr(skr, seen, state, metadata_suffices=True)
            case WriteSkrStatus(status):
                await self.writes.write_skr_status(skr, inner, status)
            case PurgeFinalizers(owners):
                await purge_finalizers(skr, owners)
            case DeleteKyma(purge):
                if inner is not None:
                    await self.writes.release_skr_kyma(skr, inner, of_others=purge)
                with suppress(NotFound):  # a user was faster
                    await skr.delete(KYMAS, names.DEFAULT_KYMA_NAME, names.SKR_NAMESPACE)
            case DeletePullSecret(name):
                with suppress(NotFound):  # a user was faster
                    await _delete_pull_secret(skr, name, seen.kyma)
            case RemoveCrd():
                await _remove_crd(skr)
            case _:
                assert_never(step)
        return seen


async def _delete_pull_secret(skr: Client, name: str, kyma: Kyma) -> None:
    """Delete the copy, and not what users have under its name where it was perhaps never written."""
    synced = find(kyma.status.conditions, PULL_SECRET_SYNC)
    if synced is not None and synced.status == "True":
        await skr.delete(SECRETS, name, names.SKR_NAMESPACE)
        return
    with suppress(Forbidden):  # it forbade the copy, too
        copy = await skr.get(SECRETS, name, names.SKR_NAMESPACE)
        if copy.metadata.labels.get(names.MANAGED_BY) == names.LIFECYCLE_MANAGER:
            await skr.delete(SECRETS, name, names.SKR_NAMESPACE, uid=copy.metadata.uid)


async def _remove_crd(skr: Client) -> None:
    left = await read_kind(skr, KYMAS.api_version, KYMAS.kind, skr.list_revisions)
    if left is None or left:  # it was deleted before, or never created; or there are users' own
        return
    with suppress(NotFound):  # a user was faster
        await skr.delete(CUSTOM_RESOURCE_DEFINITIONS, KYMAS.plural_name)


async def purge_finalizers(skr: Client, owners: Iterable[Manifest | SyncResource]) -> None:
    """Remove finalizers from objects of a module that no controller cleans up any more.

    Only objects that are being deleted are changed: those in inventories that did not exist before, and those of the
    kinds whose CRDs are among these. Raises KubeError, that of one object once all were tried.
    """
    await write_each(_purge(skr, owner, entry) for owner in owners for entry in own_inventory(owner))


async def _purge(skr: Client, owner: Manifest | SyncResource, entry: InventoryEntry) -> None:
    """Remove the finalizers of an object, of the CRD of a module after those of its objects."""
    found = await find_object(skr, entry)
    if found is None:
        return
    if isinstance(owner, Manifest) and is_crd(entry):
        kind = kind_in(found.live)
        with suppress(KindUnknown):  # it serves no version
            for item in filter(is_held, (await skr.list(kind)).items):
                await strip_finalizers(skr, kind, item, owner)
    if is_held(found.live):
        await strip_finalizers(skr, found.resource, found.live, owner)
