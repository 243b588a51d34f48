"""Removals that wait for an operator: one change of KCP removes a module from more clusters than it may at once.

Nothing is deleted then, not even in KCP, so that whoever made the change by mistake can take it back. It goes on by
`klm continue`, as do the deletions that the brake in `skr.deletion_brake` holds.
"""

from collections.abc import Iterable
from datetime import datetime

from lifecycle_manager.skr.deletion_brake import DELETION_HELD, continued_at, is_continued
from lifecycle_manager_api import Kyma, ObjectMeta

__all__ = ["DELETION_HELD", "is_held", "note_of", "waiting_since"]


def waiting_since(changed_at: datetime | None, kymas: Iterable[Kyma], limit: int) -> datetime | None:
    """Return since when a removal from these Kymas waits; None where it does not."""
    waiting = sum(not each.metadata.being_deleted and is_held(changed_at, each.metadata) for each in kymas)
    return changed_at if waiting > limit else None


def is_held(since: datetime | None, kyma: ObjectMeta) -> bool:
    """Tell whether a removal that waits since then has to wait for this Kyma."""
    return since is not None and not is_continued(since, continued_at(kyma))


def note_of(kyma: str) -> str:
    """Return what a removal waits for."""
    return f"an operator's word: klm continue {kyma} (one change removes the module from very many clusters)"
