"""Conditions (meta/v1 Condition): the aspects of an object's state."""

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Literal

import msgspec

from kube_crds.fields import REQUIRED, keyed_by, schema
from kube_crds.meta import Struct

ConditionStatus = Literal["True", "False", "Unknown"]

_NAME = r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])"
REASON = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"
_PREFIX = r"([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"


class Condition(Struct, frozen=True, kw_only=True):
    """One aspect of an object's state."""

    type: Annotated[str, schema(pattern=f"^{_PREFIX}{_NAME}$", maxLength=316)]
    """The aspect, in CamelCase."""
    status: ConditionStatus
    """Whether it holds: True, False or Unknown."""
    reason: Annotated[str, schema(pattern=REASON, minLength=1, maxLength=1024)]
    """Reason for the status, as one word in CamelCase, for programs."""
    message: Annotated[str, schema(maxLength=32768)]
    """Reason for the status, as text for people."""
    last_transition_time: Annotated[datetime | None, REQUIRED] = None
    """When the status last changed."""
    observed_generation: Annotated[int | None, schema(minimum=0)] = None
    """The metadata.generation that the condition is about."""


Conditions = Annotated[tuple[Condition, ...], keyed_by("type")]


def find(conditions: Iterable[Condition], kind: str) -> Condition | None:
    """Return the condition of a type, or None."""
    return next((condition for condition in conditions if condition.type == kind), None)


def set_condition(conditions: tuple[Condition, ...], new: Condition, now: datetime) -> tuple[Condition, ...]:
    """Return the conditions with one set; its transition time changes only with its status."""
    known = find(conditions, new.type)
    unchanged = known is not None and known.status == new.status
    time = known.last_transition_time if known is not None and unchanged else None
    dated = msgspec.structs.replace(new, last_transition_time=time or now.replace(microsecond=0))
    if known is None:
        return (*conditions, dated)
    return tuple(dated if condition.type == new.type else condition for condition in conditions)
