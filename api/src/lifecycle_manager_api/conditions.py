"""Conditions, after the conventions of the Kubernetes API (meta/v1 Condition)."""

from datetime import datetime
from typing import Literal

import msgspec

from lifecycle_manager_api.meta import Struct

ConditionStatus = Literal["True", "False", "Unknown"]


class Condition(Struct, frozen=True, kw_only=True):
    """One aspect of an object's state. `last_transition_time` is when the status last changed."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None
    observed_generation: int | None = None


def find(conditions: tuple[Condition, ...], kind: str) -> Condition | None:
    """Return the condition of a type, or None."""
    return next((condition for condition in conditions if condition.type == kind), None)


def set_condition(conditions: tuple[Condition, ...], new: Condition, now: datetime) -> tuple[Condition, ...]:
    """Return the conditions with one set; its transition time stays while its status does."""
    known = find(conditions, new.type)
    unchanged = known is not None and known.status == new.status and known.last_transition_time is not None
    time = known.last_transition_time if known is not None and unchanged else now.replace(microsecond=0)
    settled = msgspec.structs.replace(new, last_transition_time=time)
    if known is None:
        return (*conditions, settled)
    return tuple(settled if condition.type == new.type else condition for condition in conditions)
