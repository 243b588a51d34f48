"""Which objects of a set are repaired at once because an event reported a change, and which only at the interval.

An object that somebody changes back after each repair would keep both sides busy without end. So each object has a
budget: a few repairs in a row, then one a minute. What exceeds it is found at the interval.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kube_runtime import ObjectOutcome, RateLimit
from lifecycle_manager.contract.signals import ObjectChanged, ObjectReference
from lifecycle_manager.object_set.inventory import Identity
from lifecycle_manager.skr.announcement import NOTHING, ObservedObject

REPAIRS_IN_A_ROW = 5
SECONDS_FOR_A_REPAIR = 60.0
CONTESTED = "ObjectContested"
"""The reason of the Event of an object whose changes exceed its budget."""
MAX_NAME_LENGTH = 100
MAX_BUDGETS = 100
"""How many budgets are kept although they are unused again; the others are those of objects of the inventory."""


@dataclass(slots=True)
class _Budget:
    limit: RateLimit
    last: ObjectChanged
    is_granted: bool
    changed_by: str = ""


@dataclass(eq=False, slots=True)
class Repairs:
    """The budgets of the objects of one set that were changed lately: part of the state of its owner's key."""

    _budgets: dict[Identity, _Budget] = field(default_factory=lambda: NOTHING)

    def grants(self, change: ObjectChanged, now: float) -> bool:
        """Tell whether a reported object is to be repaired at once. A change that is reported again counts once."""
        budget = self._budgets.get(change.reference)
        if budget is not None and budget.last == change:
            return budget.is_granted
        limit = budget.limit if budget is not None else RateLimit(1 / SECONDS_FOR_A_REPAIR, REPAIRS_IN_A_ROW)
        granted = limit.grants(now)
        changed_by = budget.changed_by if budget is not None else ""
        if self._budgets is NOTHING or len(self._budgets) >= MAX_BUDGETS:
            self._budgets = {key: each for key, each in self._budgets.items() if not each.limit.is_unused(now)}
        self._budgets[change.reference] = _Budget(limit, change, granted, changed_by)
        return granted

    def contested(self, change: ObjectChanged) -> str:
        """Return the note of an Event about an object whose budget is used up."""
        reference, budget = change.reference, self._budgets.get(change.reference)
        where = f"{reference.namespace}/{reference.name}" if reference.namespace else reference.name
        by = f", last by the field manager {budget.changed_by!r}" if budget is not None and budget.changed_by else ""
        return f"{reference.kind} {where} is changed after each repair{by}; for now it is repaired at the interval only"

    def remember(self, outcomes: Iterable[ObjectOutcome]) -> None:
        """Remember who had changed the objects that were repaired."""
        for each in outcomes:
            budget = self._budgets.get(each.entry.identity)
            if budget is not None and each.changed_by:
                budget.changed_by = each.changed_by[:MAX_NAME_LENGTH]


def seen_in(outcomes: Iterable[ObjectOutcome]) -> dict[ObjectReference, ObservedObject]:
    """Return the objects that an apply has read or written, as they are now."""
    return {ObjectReference(*each.entry.identity): as_seen(each.live) for each in outcomes if each.live is not None}


def as_seen(live: Mapping[str, Any]) -> ObservedObject:
    metadata = live["metadata"]
    return ObservedObject(metadata["uid"], metadata["resourceVersion"], bool(metadata.get("deletionTimestamp")))
