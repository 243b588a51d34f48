"""The rules of a Watcher CR.

May delete: nothing. Of a Watcher CR that is being deleted it removes the finalizers of the former version.
"""

from lifecycle_manager.contract.former import is_former
from lifecycle_manager_api import ObjectMeta, State, WatcherStatus

ROLLOUT_SECONDS = 5.0
INTERVAL_SECONDS = 300.0


def former_finalizers(metadata: ObjectMeta) -> tuple[str, ...]:
    """Return the finalizers on which nobody acts any more."""
    return tuple(filter(is_former, metadata.finalizers))


def seconds_after(status: WatcherStatus) -> float:
    """Return after how many seconds a Watcher CR is reconciled again."""
    return ROLLOUT_SECONDS if status.state is State.PROCESSING else INTERVAL_SECONDS
