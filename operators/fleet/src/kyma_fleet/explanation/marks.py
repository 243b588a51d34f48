"""The annotations by which `klm pause` and `klm reconcile` leave who did it, when and why."""

from dataclasses import dataclass
from datetime import datetime

from kyma_fleet.times import time_in
from lifecycle_manager_api import ObjectMeta, names

PAUSED_BY = f"{names.GROUP}/paused-by"
PAUSED_REASON = f"{names.GROUP}/paused-reason"
RECONCILE_BY = f"{names.GROUP}/reconcile-requested-by"
RECONCILE_REASON = f"{names.GROUP}/reconcile-requested-reason"


@dataclass(frozen=True, slots=True)
class Pause:
    """Who paused an object, since when and why; empty where somebody set the label by other means."""

    by: str
    since: datetime | None
    reason: str


def pause_of(metadata: ObjectMeta) -> Pause | None:
    """Return the pause of an object; None where it is reconciled."""
    if not metadata.is_paused:
        return None
    noted = metadata.annotations
    return Pause(noted.get(PAUSED_BY, ""), time_in(noted.get(names.PAUSED_AT)), noted.get(PAUSED_REASON, ""))
