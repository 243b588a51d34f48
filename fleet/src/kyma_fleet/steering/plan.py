"""Which objects a pause, its end, a request to reconcile or the word to continue deletions changes, and how.

A pause is the label `skip-reconciliation`, which Lifecycle Manager honours on a Kyma and on a Manifest. A word is an
annotation of the Kyma alone: it is about all that was deleted in its cluster before.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from kyma_fleet.explanation.marks import (
    PAUSED_BY,
    PAUSED_REASON,
    RECONCILE_BY,
    RECONCILE_REASON,
)
from lifecycle_manager_api import Kyma, Manifest, names

Steered = Kyma | Manifest
Verb = Literal["pause", "resume", "reconcile", "continue"]
EVENT_REASONS = {
    "pause": "Paused",
    "resume": "Resumed",
    "reconcile": "ReconcileRequested",
    "continue": "DeletionContinued",
}
DONE = {"pause": "paused", "resume": "resumed", "reconcile": "reconcile requested", "continue": "deletions continued"}


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be done, by whom, when and why."""

    verb: Verb
    by: str
    at: datetime
    reason: str

    @property
    def note(self) -> str:
        """The text of the Event."""
        return f"{DONE[self.verb]} by {self.by}{': ' if self.reason else ''}{self.reason}"


@dataclass(frozen=True, slots=True)
class ObjectPatch:
    """One object and the patch of its metadata."""

    item: Steered
    labels: dict[str, str | None]
    annotations: dict[str, str | None]

    @property
    def patch(self) -> dict[str, Any]:
        """The patch; it applies to this very object alone, not to a later one of the same name."""
        metadata: dict[str, Any] = {"annotations": self.annotations, "uid": self.item.metadata.uid}
        return {"metadata": metadata | ({"labels": self.labels} if self.labels else {})}


def plan(order: Order, items: Iterable[Steered]) -> Iterator[ObjectPatch]:
    """Return what to change; objects that are as they should be are left out."""
    for item in items:
        step = _step(order, item)
        if step is not None:
            yield step


def _step(order: Order, item: Steered) -> ObjectPatch | None:
    at = order.at.isoformat(timespec="seconds")
    match order.verb:
        case "pause":
            if item.metadata.is_paused:
                return None
            marks: dict[str, str | None] = {PAUSED_BY: order.by, names.PAUSED_AT: at, PAUSED_REASON: order.reason}
            return ObjectPatch(item, {names.SKIP_RECONCILIATION: "true"}, marks)
        case "resume":
            if not item.metadata.is_paused:
                return None
            is_kept = item.metadata.is_kept_from_former_version
            return ObjectPatch(
                item,
                {} if is_kept else {names.SKIP_RECONCILIATION: None},
                dict.fromkeys((PAUSED_BY, names.PAUSED_AT, PAUSED_REASON)),
            )
        case "reconcile":
            return ObjectPatch(
                item, {}, {RECONCILE_BY: order.by, names.RECONCILE_AT: at, RECONCILE_REASON: order.reason}
            )
        case "continue":
            if not isinstance(item, Kyma):
                return None
            return ObjectPatch(item, {}, {names.CONTINUE_DELETION: at})
