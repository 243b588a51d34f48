"""The rules of a Watcher CR.

May delete: nothing. Of a Watcher CR that is being deleted it removes the finalizers of the former version.
"""

from dataclasses import dataclass

from kube_runtime import End, Step
from lifecycle_manager.watcher_crs.snapshot import WatcherCrSnapshot
from lifecycle_manager.watcher_crs.status import status_of
from lifecycle_manager_api import State, WatcherStatus

ROLLOUT_SECONDS = 5.0
INTERVAL_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class RemoveFormerFinalizers(Step):
    """Remove the finalizers of the former version, which does not act on them any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatcherCrDone(End):
    """The end of a reconcile, with this status unless it is None."""

    status: WatcherStatus | None = None


def plan(seen: WatcherCrSnapshot) -> RemoveFormerFinalizers | WatcherCrDone:
    if seen.watcher.metadata.being_deleted:
        done = seen.is_released or seen.error is not None
        return WatcherCrDone(error=seen.error) if done else RemoveFormerFinalizers()
    status = status_of(seen.watcher, seen.all_watchers, seen.kymas, seen.now, fault=seen.fault)
    interval = ROLLOUT_SECONDS if status.state == State.PROCESSING else INTERVAL_SECONDS
    return WatcherCrDone(status=status, requeue_after=interval)
