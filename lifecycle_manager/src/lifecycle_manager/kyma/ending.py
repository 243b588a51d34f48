"""How a reconcile of a Kyma ends: what is written and remembered, whether it failed, and when the next one follows.

Limits: MAX_REPEATS, REVERTED_SECONDS; the intervals are in `settings`.
"""

from collections.abc import Iterator

from kube_runtime import ApiError, KubeError
from lifecycle_manager.kyma import steps
from lifecycle_manager.kyma.pull_secret.plan import PullSecretCopy
from lifecycle_manager.kyma.snapshot import KymaSnapshot
from lifecycle_manager.kyma.steps import KymaDone, KymaOutcome
from lifecycle_manager.skr import ClusterClaimed
from lifecycle_manager_api import State

MAX_REPEATS = 3
"""How often in a row the outcome is read at once. An SKR that reverts it each time has to wait after that."""

REVERTED_SECONDS = 5.0

REQUEUE_REASONS = {
    steps.AddFinalizer: "labels_and_finalizers_update",
    steps.InstallCrd: "crds_sync",
    steps.CreateKyma: "initial_state_handling",
    steps.DeleteKyma: "remote_kyma_deletion",
    steps.RemoveSkrFinalizer: "finalizers_removal_from_remote_kyma",
    steps.RemoveKymaFinalizer: "kyma_deletion",
}
"""Upstream's names in the metric of requeues, by what a reconcile does."""


def ended(seen: KymaSnapshot, outcome: KymaOutcome) -> KymaDone:
    """Return the end of a reconcile.

    Missing access to the SKR is not an error, since a new access Secret triggers the Kyma; nothing triggers it once
    another Kyma, to which the SKR belongs, is gone. A KCP that does not answer gets no status.
    """
    error, known, status = seen.skr_error, seen.pull_secret_outcome, outcome.status
    is_repeated = outcome.at_once or any(isinstance(each, steps.CreateKyma) for each in seen.taken)
    repeats = seen.repeats + is_repeated if is_repeated or error is not None else 0
    in_kcp = seen.failure_of(steps.AddFinalizer, steps.ChangeModules, steps.RemoveKymaFinalizer)
    is_answering = in_kcp is None or isinstance(in_kcp, ApiError)
    return KymaDone(
        requeue_after=_pause(seen, outcome, repeats),
        error=error if isinstance(error, KubeError) else in_kcp,
        status=status if is_answering and status != seen.kyma.status else None,
        reasons=tuple(_reasons(seen)),
        repeats=repeats,
        pull_secret=known.copy if known is not None else PullSecretCopy(),
    )


def _pause(seen: KymaSnapshot, outcome: KymaOutcome, repeats: int) -> float | None:
    """Return in how many seconds the Kyma is reconciled without a trigger."""
    error, metadata, known = seen.skr_error, seen.kyma.metadata, seen.pull_secret_outcome
    left = (outcome.again - seen.timing.now).total_seconds() if outcome.again is not None else None
    again = max(left, 0.0) if left is not None else None
    if metadata.is_paused and not metadata.being_deleted:
        return None
    if isinstance(error, ClusterClaimed):
        return seen.settings.interval_seconds
    if error is not None:
        return again
    if outcome.at_once:
        return 0.0 if repeats <= MAX_REPEATS else REVERTED_SECONDS
    unseen = seen.skr.read_again_after if seen.skr is not None else None
    times = (again, unseen, known.retry_after if known is not None else None)
    return min((seen.interval_seconds, *(each for each in times if each is not None)))


def _reasons(seen: KymaSnapshot) -> Iterator[str]:
    yield from (name for each in seen.taken if (name := REQUEUE_REASONS.get(type(each))) is not None)
    if seen.kyma.metadata.being_deleted:
        if any(isinstance(change, steps.DeleteManifest) for change in seen.changes):
            yield "manifest_crs_cleanup"
        if seen.kyma.status.state is not State.DELETING:
            yield "kyma_status_update_to_deleting"
