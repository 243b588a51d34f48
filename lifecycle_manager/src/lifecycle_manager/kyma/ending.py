"""How a reconcile of a Kyma ends: what is written and remembered, whether it failed, and when the next one follows.

Limits: MAX_REPEATS, REVERTED_SECONDS; the intervals are in `settings`.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta

from kube_runtime import ApiError, KubeError
from lifecycle_manager.contract.conditions import MODULES, interval_for
from lifecycle_manager.kyma import steps
from lifecycle_manager.kyma.events import KymaEvent, events_between, for_operators
from lifecycle_manager.kyma.pull_secret.plan import PullSecretCopy
from lifecycle_manager.kyma.reasons import READY
from lifecycle_manager.kyma.snapshot import KymaSnapshot
from lifecycle_manager.kyma.steps import Decision, KymaDone
from lifecycle_manager.skr import ClusterClaimed
from lifecycle_manager_api import Kyma, KymaStatus, State, find

MAX_REPEATS = 3
"""How often in a row the outcome is read at once. An SKR that reverts it each time has to wait after that."""

REVERTED_SECONDS = 5.0

USERS_PROGRESS = timedelta(seconds=1)
"""How long modules that were ready may stay so in the status while a change of their user is under way.

Most modules are ready by then: one write in KCP and one in the SKR say so, and not two.
"""
PROGRESS = timedelta(seconds=10)
"""The same for a change that no user of the cluster waits for, as a new version in a channel: it concerns many."""

REQUEUE_REASONS = {
    steps.AddFinalizer: "labels_and_finalizers_update",
    steps.InstallCrd: "crds_sync",
    steps.CreateKyma: "initial_state_handling",
    steps.DeleteKyma: "remote_kyma_deletion",
    steps.RemoveSkrFinalizer: "finalizers_removal_from_remote_kyma",
    steps.RemoveKymaFinalizer: "kyma_deletion",
}
"""Upstream's names in the metric of requeues, by what a reconcile does."""


def ended(
    seen: KymaSnapshot, status: KymaStatus | None = None, *, again: datetime | None = None, at_once: bool = False
) -> KymaDone:
    """Return the end of a reconcile.

    `again` is when time alone changes the plan; `at_once` says that the outcome has to be read at once. Missing access
    to the SKR is not an error, since a new access Secret triggers the Kyma; nothing triggers it once another Kyma, to
    which the SKR belongs, is gone. A KCP that does not answer gets no status.
    """
    error, known, settings = seen.skr_error, seen.pull_secret_outcome, seen.settings
    is_repeated = at_once or any(isinstance(each, steps.CreateKyma) for each in seen.taken)
    repeats = seen.repeats + is_repeated if is_repeated or error is not None else 0
    if isinstance(error, ClusterClaimed):
        seconds: float | None = settings.interval_seconds
    elif error is not None:
        seconds = _seconds_until(seen, again)
    elif at_once:
        seconds = 0.0 if repeats <= MAX_REPEATS else REVERTED_SECONDS
    else:
        is_deleted, interval = seen.kyma.metadata.being_deleted, interval_for(seen.kyma, settings.interval_seconds)
        unseen = seen.skr.read_again_after if seen.skr is not None else None
        times = (_seconds_until(seen, again), unseen, known.retry_after if known is not None else None)
        regular = settings.deletion_interval_seconds if is_deleted else interval
        seconds = min((regular, *(each for each in times if each is not None)))
    in_kcp = seen.failure_of(steps.AddFinalizer, steps.ChangeModules, steps.RemoveKymaFinalizer)
    is_answering = in_kcp is None or isinstance(in_kcp, ApiError)
    status, events = report(seen.kyma, status if is_answering else None)
    return KymaDone(
        requeue_after=seconds,
        error=error if isinstance(error, KubeError) else in_kcp,
        status=status,
        events=events,
        reasons=tuple(_reasons(seen)),
        repeats=repeats,
        pull_secret=known.copy if known is not None else PullSecretCopy(),
    )


def progress_shown_at(seen: KymaSnapshot, inner: Kyma, decision: Decision) -> datetime | None:
    """Return until when a status is not written that says only that modules are being changed that were ready.

    None where it is written: the time is over, something else has changed as well, or something failed.
    """
    before, after = seen.kyma.status, decision.in_kcp
    were_ready, are_ready = (_are_modules_ready(each) for each in (before, after))
    if not were_ready or are_ready or seen.failures:
        return None
    if not decision.changes and seen.progress_since is None:
        return None
    if {each.state for each in after.modules} - {State.READY, State.PROCESSING, State.UNMANAGED}:
        return None
    if others_of(before) != others_of(after):
        return None
    is_users = inner.status.observed_generation != inner.metadata.generation
    until = (seen.progress_since or seen.timing.now) + (USERS_PROGRESS if is_users else PROGRESS)
    return until if seen.timing.now < until else None


def _are_modules_ready(status: KymaStatus) -> bool:
    known = find(status.conditions, MODULES)
    return known is not None and known.status == "True"


def others_of(status: KymaStatus) -> list[tuple[str, str, str]]:
    """Return the conditions that say something else than which modules are ready."""
    return [(each.type, each.status, each.reason) for each in status.conditions if each.type not in {MODULES, READY}]


def report(kyma: Kyma, status: KymaStatus | None) -> tuple[KymaStatus | None, tuple[KymaEvent, ...]]:
    """Return a status if it differs from the one in KCP, and the Events of what changed."""
    if status is None or status == kyma.status:
        return None, ()
    return status, for_operators(events_between(kyma.status, status))


def _seconds_until(seen: KymaSnapshot, when: datetime | None) -> float | None:
    return max((when - seen.timing.now).total_seconds(), 0.0) if when is not None else None


def _reasons(seen: KymaSnapshot) -> Iterator[str]:
    yield from (name for each in seen.taken if (name := REQUEUE_REASONS.get(type(each))) is not None)
    if seen.kyma.metadata.being_deleted:
        if any(isinstance(change, steps.DeleteManifest) for change in seen.changes):
            yield "manifest_crs_cleanup"
        if seen.kyma.status.state is not State.DELETING:
            yield "kyma_status_update_to_deleting"
