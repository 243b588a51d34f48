"""The rules for a Kyma that is being deleted: what is removed, in which order, and what it waits for.

The stages are the Manifests, the ModuleConfigs and SyncResources, the Watcher and the catalog, the Kyma CR and the CRD
in the SKR, and the finalizer. The domains of the Watcher and the catalog see from the Kyma's conditions that it is
their turn.

May delete: all Manifests of the Kyma; once they are gone, the SyncResources that are not deleted with a ModuleConfig;
in the SKR the Kyma CR, the image pull Secret and the Kyma CRD, once all of the stages before are done. Finalizers of
others on what is being deleted in the SKR only with `--enable-purge-finalizer`; those on the Kyma in KCP only with
`--remove-finalizers-of-others`, once its access Secret is gone. Nothing while the brake holds its deletion
(`skr.brake`).
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from lifecycle_manager.contract.conditions import PULL_SECRET_SYNC, modules_removed, remaining_parts, was_reached
from lifecycle_manager.kyma import steps
from lifecycle_manager.kyma.module_status import module_cr_of
from lifecycle_manager.kyma.snapshot import KymaSnapshot
from lifecycle_manager.kyma.status import deleting_status
from lifecycle_manager.kyma.steps import KymaOutcome, KymaStep, ModuleChange
from lifecycle_manager.module_catalog import module_of_manifest
from lifecycle_manager.skr import AccessSecretMissing, ClusterClaimed, failure_of
from lifecycle_manager_api import Kyma, Manifest, ModuleConfig, SyncResource, find, names


def plan_deletion(seen: KymaSnapshot) -> KymaStep | KymaOutcome:
    error, finalizers = seen.skr_error, seen.kyma.metadata.finalizers
    if finalizers and (hold := seen.brake.hold) is not None:
        removed = modules_removed(seen.kyma)
        decision = deleting_status(seen, (hold.waits_for,), modules_removed=removed, reason=hold.reason)
        return KymaOutcome(decision.in_kcp, again=seen.timing.now + timedelta(seconds=hold.seconds))
    if seen.skr is None and error is None:
        return steps.ReadSkr(metadata_suffices=True)
    if seen.tried(steps.RemoveKymaFinalizer):
        return KymaOutcome()
    has_no_access = isinstance(error, AccessSecretMissing) and not _may_have_objects(seen)
    is_abandoned = has_no_access and seen.settings.timeouts.others_finalizers
    if names.KYMA_FINALIZER not in finalizers:
        return steps.RemoveKymaFinalizer(of_others=True) if is_abandoned and finalizers else KymaOutcome()
    if seen.manifests:
        waits = tuple(sorted({f"module {module_of_manifest(each)}" for each in seen.manifests}))
        held = (each for each in seen.manifests if not each.metadata.being_deleted)
        return _wait(
            seen, waits, tuple(steps.DeleteManifest(each.metadata.name) for each in held), purge=seen.manifests
        )
    if waits := _configurations(seen):
        return _wait(seen, waits, _stray_sync_resources(seen), purge=seen.sync_resources)
    if has_no_access or isinstance(error, ClusterClaimed):
        return steps.RemoveKymaFinalizer(of_others=is_abandoned)
    if error is not None:
        return _wait(seen, (failure_of(error).message,), modules_removed=True)
    if waits := remaining_parts(seen.kyma):
        return _wait(seen, waits, modules_removed=True)
    inner = seen.skr.kyma if seen.skr is not None else None
    return _plan_last_steps(seen) if inner is None else _plan_removal(seen, inner)


def _may_have_objects(seen: KymaSnapshot) -> bool:
    """Tell whether something may be in the SKR that would be forgotten."""
    return was_reached(seen.kyma) and not seen.brake.may_forget


def _plan_removal(seen: KymaSnapshot, inner: Kyma) -> KymaStep | KymaOutcome:
    """Delete the Kyma CR in the SKR, and wait until it is gone."""
    is_held = not inner.metadata.being_deleted or names.KYMA_FINALIZER in inner.metadata.finalizers
    purge = _is_purge_due(seen) and bool(inner.metadata.finalizers)
    if (is_held or purge) and not seen.tried(steps.DeleteKyma):
        return steps.DeleteKyma(purge)
    waits = (f"Kyma {names.SKR_NAMESPACE}/{names.DEFAULT_KYMA_NAME} in the cluster",)
    decision = deleting_status(seen, waits, modules_removed=True)
    again = _next(seen, decision.again, _purge_due(seen))
    return KymaOutcome(decision.in_kcp, again=again, at_once=seen.tried(steps.DeleteKyma))


def _plan_last_steps(seen: KymaSnapshot) -> KymaStep | KymaOutcome:
    synced, name = find(seen.kyma.status.conditions, PULL_SECRET_SYNC), seen.settings.pull_secret
    if name and synced is not None and synced.status == "True" and not seen.tried(steps.DeletePullSecret):
        return steps.DeletePullSecret(name)
    return steps.RemoveKymaFinalizer() if seen.tried(steps.RemoveCrd) else steps.RemoveCrd()


def _wait(
    seen: KymaSnapshot,
    waits: tuple[str, ...],
    changes: tuple[ModuleChange, ...] = (),
    *,
    purge: tuple[Manifest | SyncResource, ...] | None = None,
    modules_removed: bool = False,
) -> KymaStep | KymaOutcome:
    """Show in the SKR and in KCP what the deletion waits for, and begin with it. `purge` are objects that block it."""
    decision = deleting_status(seen, waits, modules_removed=modules_removed)
    is_reachable = seen.skr is not None and seen.skr_error is None
    if is_reachable:
        if decision.in_skr is not None and not seen.tried(steps.WriteSkrStatus):
            return steps.WriteSkrStatus(decision.in_skr, decision)
        if purge and _is_purge_due(seen) and not seen.tried(steps.PurgeFinalizers):
            return steps.PurgeFinalizers(purge)
    if changes and not seen.tried(steps.ChangeModules):
        return steps.ChangeModules(changes)
    purge_due = _purge_due(seen) if purge is not None and is_reachable else None
    return KymaOutcome(decision.in_kcp, again=_next(seen, decision.again, purge_due))


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
    return tuple(map(steps.DeleteSyncResource, held))
