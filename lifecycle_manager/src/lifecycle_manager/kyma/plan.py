"""The rules of a Kyma: from a snapshot to the next step, or to the end of the reconcile.

A Kyma that is not being deleted gets the Kyma CRD and a Kyma CR in its SKR, once; from then on the `spec` of that CR
belongs to the users and is only read. The modules in it become Manifests. `deletion` holds the rules for a Kyma that is
being deleted, `pull_secret` those for the image pull Secret.

A step is taken once in a reconcile. After the SKR refused one, nothing more is written there. If its Kyma CR was
read, the modules are changed all the same, since a CRD or a status that it refuses is no reason to keep users waiting
for a module; then the status says what was refused, and the reconcile is retried. Where KCP refuses the change of
a module, the others are changed and the status is written, and the reconcile is retried.

May delete: Manifests of modules that users do not request any more or that this Kyma may not have, never those of
mandatory modules; then the SyncResources of the module that no ModuleConfig takes with it. Nothing in the SKR, but for
the finalizer on a Kyma CR that a user deletes.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from kube_runtime import ApiError
from lifecycle_manager.kyma import steps
from lifecycle_manager.kyma.deletion import plan_deletion
from lifecycle_manager.kyma.ending import MAX_REPEATS, ended
from lifecycle_manager.kyma.pull_secret.plan import plan_pull_secret
from lifecycle_manager.kyma.snapshot import KymaSnapshot
from lifecycle_manager.kyma.status import failed_status, status_of
from lifecycle_manager.kyma.steps import Decision, KymaDone, KymaOutcome, KymaStep
from lifecycle_manager.kyma.wanted import wanted_of
from lifecycle_manager.skr import failure_of
from lifecycle_manager_api import Kyma, KymaStatus, names

# The labels of the Kyma in KCP that the users of the SKR may see.
VISIBLE_LABELS = frozenset(
    {
        names.RUNTIME_ID,
        names.INSTANCE_ID,
        names.GLOBAL_ACCOUNT_ID,
        names.SUBACCOUNT_ID,
        names.REGION,
        names.PLATFORM_REGION,
        names.BROKER_PLAN_NAME,
        names.INTERNAL,
        names.BETA,
    }
)


def plan(seen: KymaSnapshot) -> KymaStep | KymaDone:
    found = plan_deletion(seen) if seen.kyma.metadata.being_deleted else _plan(seen)
    return ended(seen, found) if isinstance(found, KymaOutcome) else found


def _plan(seen: KymaSnapshot) -> KymaStep | KymaOutcome:
    metadata = seen.kyma.metadata
    if metadata.is_paused:
        return KymaOutcome()  # not even its SKR is read
    if names.KYMA_FINALIZER not in metadata.finalizers:  # without it nothing may be done in the SKR
        return steps.AddFinalizer() if not seen.tried(steps.AddFinalizer) else KymaOutcome()
    if (error := seen.skr_error) is not None:
        return _plan_failure(seen, error)
    if seen.skr is None:
        return steps.ReadSkr()
    if seen.skr.kyma is None:
        return _plan_creation(seen)
    return plan_pull_secret(seen.pull_secret, seen.failures) or _plan_upkeep(seen, seen.skr.kyma)


def visible_metadata(kyma: Kyma) -> tuple[dict[str, str], dict[str, str]]:
    """Return the labels and annotations that the Kyma CR in the SKR carries."""
    labels = {key: value for key, value in kyma.metadata.labels.items() if key in VISIBLE_LABELS}
    labels |= {names.WATCHED_BY: "kyma", names.MANAGED_BY: names.LIFECYCLE_MANAGER}
    return labels, {names.OWNED_BY: f"{kyma.metadata.namespace}/{kyma.metadata.name}"}


def _plan_failure(seen: KymaSnapshot, error: Exception) -> KymaStep | KymaOutcome:
    inner = seen.skr.kyma if seen.skr is not None else None
    if isinstance(error, ApiError) and inner is not None and not seen.tried(steps.ChangeModules):
        changes = wanted_of(seen, inner.spec).changes
        if changes:
            return steps.ChangeModules(changes)
    return KymaOutcome(*failed_status(seen, failure_of(error)))


def _plan_creation(seen: KymaSnapshot) -> KymaStep | KymaOutcome:
    """Create the Kyma CR; nothing that is recorded of an SKR without it counts, unless the Kyma is new."""
    if not seen.tried(steps.InstallCrd):
        return steps.InstallCrd()
    if seen.tried(steps.CreateKyma):
        return KymaOutcome(at_once=True)  # a user was faster
    labels, annotations = visible_metadata(seen.kyma)
    is_replaced = seen.is_known and seen.repeats < MAX_REPEATS
    return steps.CreateKyma(seen.kyma.spec, labels, annotations, is_replaced=is_replaced)


def _plan_upkeep(seen: KymaSnapshot, inner: Kyma) -> KymaStep | KymaOutcome:
    is_deleted = inner.metadata.being_deleted  # by a user; it is created again
    is_held = is_deleted and names.KYMA_FINALIZER in inner.metadata.finalizers
    if seen.needs_crd:
        return steps.InstallCrd()
    if is_held and not seen.tried(steps.RemoveSkrFinalizer):
        return steps.RemoveSkrFinalizer()
    if not is_deleted and not seen.tried(steps.SyncMetadata) and (sync := _sync_metadata(seen.kyma, inner)):
        return sync
    decision = _decided(seen) or status_of(seen, wanted_of(seen, inner.spec))
    is_changed = seen.tried(steps.ChangeModules) or not decision.changes
    change = None if is_changed else steps.ChangeModules(decision.changes, decision)
    if not is_deleted and decision.in_skr is not None and not seen.tried(steps.WriteSkrStatus):
        return steps.WriteSkrStatus(decision.in_skr, decision)
    return change or KymaOutcome(_in_kcp(seen, decision), decision.again, at_once=is_held)


def _in_kcp(seen: KymaSnapshot, decision: Decision) -> KymaStatus:
    """Return the status in KCP. It lists removed modules until KCP has accepted the deletion of what they left."""
    if seen.failure_of(steps.ChangeModules) is None:
        return decision.in_kcp
    listed = {each.name for each in decision.in_kcp.modules}
    deletions = (each.resource for each in decision.changes if isinstance(each, steps.DeleteSyncResource))
    left = {each.spec.module for each in deletions} - listed
    kept = (each for each in seen.kyma.status.modules if each.name in left)
    return msgspec.structs.replace(decision.in_kcp, modules=(*decision.in_kcp.modules, *kept))


def _decided(seen: KymaSnapshot) -> Decision | None:
    """Return what this reconcile has decided before its first write: only the outcomes of steps are newer."""
    writes = (each for each in seen.taken if isinstance(each, steps.WriteSkrStatus | steps.ChangeModules))
    return next((each.decision for each in writes), None)


def _sync_metadata(kyma: Kyma, inner: Kyma) -> steps.SyncMetadata | None:
    labels, annotations = visible_metadata(kyma)
    gone = dict.fromkeys(sorted(VISIBLE_LABELS & inner.metadata.labels.keys() - labels.keys()))
    if gone or not _holds(inner.metadata.labels, labels) or not _holds(inner.metadata.annotations, annotations):
        return steps.SyncMetadata({**labels, **gone}, annotations)
    return None


def _holds(actual: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(actual.get(key) == value for key, value in wanted.items())
