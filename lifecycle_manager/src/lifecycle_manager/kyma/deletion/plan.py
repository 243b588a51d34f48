"""The rules for a Kyma that is being deleted: what is removed, in which order, and what it waits for.

The stages are the Manifests, the ModuleConfigs and SyncResources, the Watcher and the catalog, the Kyma CR and the CRD
in the SKR, and the finalizer. The domains of the Watcher and the catalog see from the Kyma's conditions that it is
their turn.

May delete: all Manifests of the Kyma, and with them the SyncResources of their modules that no ModuleConfig takes
along; once they are gone, the other SyncResources that are not deleted with a ModuleConfig; in the SKR the Kyma CR, the
image pull Secret and the Kyma CRD, once all of the stages before are done. Finalizers of others on what is being
deleted in the SKR only with `--enable-purge-finalizer`; those on the Kyma in KCP only with
`--remove-finalizers-of-others`, once its access Secret is gone. Nothing while the brake holds its deletion
(`skr.brake`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from kube_runtime import ApiError, End, KubeError, Step
from lifecycle_manager.contract.conditions import PULL_SECRET_SYNC, modules_removed, remaining_parts, was_reached
from lifecycle_manager.kyma.module_status import module_cr_of
from lifecycle_manager.kyma.rules import pause
from lifecycle_manager.kyma.snapshot import KymaSnapshot
from lifecycle_manager.kyma.status import deleting_status
from lifecycle_manager.kyma.wanted import DeleteManifest, DeleteSyncResource, ModuleChange, taken_by_none
from lifecycle_manager.module_catalog.manifests import module_of_manifest
from lifecycle_manager.skr.access import AccessSecretMissing, ClusterClaimed
from lifecycle_manager.skr.failure import failure_of
from lifecycle_manager_api import Kyma, KymaStatus, Manifest, ModuleConfig, State, SyncResource, find, names


@dataclass(frozen=True, slots=True)
class SkrStep(Step):
    """A step in the SKR, after whose failure nothing more is done there."""


@dataclass(frozen=True, slots=True)
class ReadSkr(SkrStep):
    """Read the Kyma CR in the SKR. Its metadata suffices; the rest may be unreadable."""


@dataclass(frozen=True, slots=True)
class WriteSkrStatus(SkrStep):
    """Write the status of the Kyma CR in the SKR, and record there as Kubernetes Events what changed."""

    status: KymaStatus


@dataclass(frozen=True, slots=True)
class PurgeFinalizers(SkrStep):
    """Remove the finalizers of objects of these that are being deleted in the SKR."""

    owners: tuple[Manifest | SyncResource, ...]


@dataclass(frozen=True, slots=True)
class DeleteKyma(SkrStep):
    """Delete the Kyma CR in the SKR and remove the finalizer of Lifecycle Manager; with `purge` all finalizers."""

    purge: bool = False


@dataclass(frozen=True, slots=True)
class DeletePullSecret(SkrStep):
    """Delete the image pull Secret in the SKR."""

    name: str


@dataclass(frozen=True, slots=True)
class RemoveCrd(SkrStep):
    """Remove the Kyma CRD from the SKR, unless users have Kymas of their own there."""


@dataclass(frozen=True, slots=True)
class ChangeModules(Step):
    """Delete Manifests and SyncResources in KCP. Each is deleted whether KCP refuses others or not."""

    changes: tuple[ModuleChange, ...]


@dataclass(frozen=True, slots=True)
class RemoveKymaFinalizer(Step):
    """Remove the finalizer, so that the Kyma is gone; with `of_others` all finalizers."""

    of_others: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionDone(End):
    """The end of a reconcile.

    - `status`: the status to be written in KCP; None where it stays
    - `reasons`: for the metric of requeues; `repeats`: how often in a row the outcome was read at once
    """

    status: KymaStatus | None = None
    reasons: tuple[str, ...] = ()
    repeats: int = 0


SkrSteps = ReadSkr | WriteSkrStatus | PurgeFinalizers | DeleteKyma | DeletePullSecret | RemoveCrd
DeletionStep = SkrSteps | ChangeModules | RemoveKymaFinalizer
REQUEUE_REASONS = {DeleteKyma: "remote_kyma_deletion", RemoveKymaFinalizer: "kyma_deletion"}
"""Upstream's names in the metric of requeues, by what a reconcile does."""


def plan_deletion(seen: KymaSnapshot) -> DeletionStep | DeletionDone:
    error, finalizers = _skr_error(seen), seen.kyma.metadata.finalizers
    if finalizers and (hold := seen.brake.hold) is not None:
        removed = modules_removed(seen.kyma)
        decision = deleting_status(seen, (hold.waits_for,), modules_removed=removed, reason=hold.reason)
        return _done(seen, decision.in_kcp, again=seen.timing.now + timedelta(seconds=hold.seconds))
    if seen.skr is None and error is None:
        return ReadSkr()
    if _tried(seen, RemoveKymaFinalizer):
        return _done(seen)
    may_be_forgotten = seen.brake.may_forget or not was_reached(seen.kyma)
    has_no_access = isinstance(error, AccessSecretMissing) and may_be_forgotten
    is_abandoned = has_no_access and seen.settings.timeouts.removes_finalizers_of_others
    if names.KYMA_FINALIZER not in finalizers:
        return RemoveKymaFinalizer(of_others=True) if is_abandoned and finalizers else _done(seen)
    if seen.manifests:
        waits = tuple(sorted({f"module {module_of_manifest(each)}" for each in seen.manifests}))
        held = (DeleteManifest(each.metadata.name) for each in seen.manifests if not each.metadata.being_deleted)
        left = map(DeleteSyncResource, taken_by_none(seen, {module_of_manifest(each) for each in seen.manifests}))
        return _wait(seen, waits, (*held, *left), purge=seen.manifests)
    if waits := _configurations(seen):
        return _wait(seen, waits, _stray_sync_resources(seen), purge=seen.sync_resources)
    if has_no_access or isinstance(error, ClusterClaimed):
        return RemoveKymaFinalizer(of_others=is_abandoned)
    if error is not None:
        return _wait(seen, (failure_of(error).message,), modules_removed=True)
    if waits := remaining_parts(seen.kyma):
        return _wait(seen, waits, modules_removed=True)
    inner = seen.skr.kyma if seen.skr is not None else None
    return _plan_last_steps(seen) if inner is None else _plan_removal(seen, inner)


def _done(
    seen: KymaSnapshot, status: KymaStatus | None = None, *, again: datetime | None = None, at_once: bool = False
) -> DeletionDone:
    """Return the end of a reconcile. Missing access is no error, and a KCP that does not answer gets no status.

    `again`: when time alone changes the plan; `at_once`: the outcome of the steps has to be read at once.
    """
    error, in_kcp = _skr_error(seen), seen.failure_of(ChangeModules, RemoveKymaFinalizer)
    is_answering = in_kcp is None or isinstance(in_kcp, ApiError)
    repeats = seen.repeats + at_once if at_once or error is not None else 0
    return DeletionDone(
        requeue_after=pause(seen, error, again, repeats=repeats if at_once else 0),
        error=error if isinstance(error, KubeError) else in_kcp,
        status=status if is_answering and status != seen.kyma.status else None,
        reasons=tuple(_reasons(seen)),
        repeats=repeats,
    )


def _reasons(seen: KymaSnapshot) -> Iterator[str]:
    yield from (name for each in seen.taken if (name := REQUEUE_REASONS.get(type(each))) is not None)
    changed = (change for each in seen.taken if isinstance(each, ChangeModules) for change in each.changes)
    if any(isinstance(change, DeleteManifest) for change in changed):
        yield "manifest_crs_cleanup"
    if seen.kyma.status.state is not State.DELETING:
        yield "kyma_status_update_to_deleting"


def _skr_error(seen: KymaSnapshot) -> Exception | None:
    """Return why the SKR can't be read or written."""
    if seen.skr is not None and seen.skr.claimed_by:
        return ClusterClaimed(seen.kyma.metadata.name, seen.skr.claimed_by)
    return seen.failure_of(SkrStep)


def _tried(seen: KymaSnapshot, step: type[Step]) -> bool:
    """Tell whether a step of this type succeeded or failed in this reconcile."""
    return any(isinstance(each, step) for each in seen.taken) or seen.failure_of(step) is not None


def _plan_removal(seen: KymaSnapshot, inner: Kyma) -> DeletionStep | DeletionDone:
    """Delete the Kyma CR in the SKR, and wait until it is gone."""
    is_held = not inner.metadata.being_deleted or names.KYMA_FINALIZER in inner.metadata.finalizers
    purge = _is_purge_due(seen) and bool(inner.metadata.finalizers)
    if (is_held or purge) and not _tried(seen, DeleteKyma):
        return DeleteKyma(purge)
    waits = (f"Kyma {names.SKR_NAMESPACE}/{names.DEFAULT_KYMA_NAME} in the cluster",)
    decision = deleting_status(seen, waits, modules_removed=True)
    again = _next(seen, decision.again, _purge_due(seen))
    return _done(seen, decision.in_kcp, again=again, at_once=_tried(seen, DeleteKyma))


def _plan_last_steps(seen: KymaSnapshot) -> DeletionStep | DeletionDone:
    synced, name = find(seen.kyma.status.conditions, PULL_SECRET_SYNC), seen.settings.pull_secret
    if name and synced is not None and not _tried(seen, DeletePullSecret):  # "False" may be about a later version
        return DeletePullSecret(name)
    return RemoveKymaFinalizer() if _tried(seen, RemoveCrd) else RemoveCrd()


def _wait(
    seen: KymaSnapshot,
    waits: tuple[str, ...],
    changes: tuple[ModuleChange, ...] = (),
    *,
    purge: tuple[Manifest | SyncResource, ...] | None = None,
    modules_removed: bool = False,
) -> DeletionStep | DeletionDone:
    """Show in the SKR and in KCP what the deletion waits for, and begin with it. `purge` are objects that block it."""
    decision = deleting_status(seen, waits, modules_removed=modules_removed)
    is_reachable = seen.skr is not None and _skr_error(seen) is None
    if is_reachable:
        if decision.in_skr is not None and not _tried(seen, WriteSkrStatus):
            return WriteSkrStatus(decision.in_skr)
        if purge and _is_purge_due(seen) and not _tried(seen, PurgeFinalizers):
            return PurgeFinalizers(purge)
    if changes and not _tried(seen, ChangeModules):
        return ChangeModules(changes)
    purge_due = _purge_due(seen) if purge is not None and is_reachable else None
    return _done(seen, decision.in_kcp, again=_next(seen, decision.again, purge_due))


def _purge_due(seen: KymaSnapshot) -> datetime | None:
    return seen.deletion_plus(seen.settings.timeouts.purge)


def _is_purge_due(seen: KymaSnapshot) -> bool:
    due = _purge_due(seen)
    return due is not None and due <= seen.timing.now


def _next(seen: KymaSnapshot, *times: datetime | None) -> datetime | None:
    return min((each for each in times if each is not None and each > seen.timing.now), default=None)


def _configurations(seen: KymaSnapshot) -> tuple[str, ...]:
    """Name the Module CRs and the objects that are still to be deleted, as users know them."""
    module_crs = [module_cr_of(each) or f"a Module CR of {each.spec.module}" for each in _configs(seen)]
    objects = [f"the objects of module {each.spec.module}" for each in _resources(seen)]
    return tuple(dict.fromkeys((*module_crs, *objects)))


def _resources(seen: KymaSnapshot) -> Sequence[SyncResource]:
    """Return the SyncResources to wait for. Others keep one without objects in the SKR only for `timeouts.deletion`."""
    is_over = _is_overdue(seen)
    return [
        each
        for each in seen.sync_resources
        if not (
            is_over and each.metadata.being_deleted and names.SYNC_RESOURCE_FINALIZER not in each.metadata.finalizers
        )
    ]


def _configs(seen: KymaSnapshot) -> Sequence[ModuleConfig]:
    """Return the ModuleConfigs to wait for: one that is being deleted waits for the SyncResources of its module."""
    if not _is_overdue(seen):
        return seen.module_configs
    waiting = {each.spec.module for each in _resources(seen)}
    return [each for each in seen.module_configs if not each.metadata.being_deleted or each.spec.module in waiting]


def _is_overdue(seen: KymaSnapshot) -> bool:
    due = seen.deletion_plus(seen.settings.timeouts.deletion)
    return due is not None and due <= seen.timing.now


def _stray_sync_resources(seen: KymaSnapshot) -> tuple[ModuleChange, ...]:
    """Return the deletions of the SyncResources that are not deleted with a ModuleConfig."""
    if _configs(seen):
        return ()
    held = (each for each in seen.sync_resources if not each.metadata.being_deleted)
    return tuple(map(DeleteSyncResource, held))
