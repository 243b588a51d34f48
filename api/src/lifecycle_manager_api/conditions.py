"""Conditions and the last operation: how an object's status tells what happened (meta/v1 Condition)."""

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Literal

import msgspec

from lifecycle_manager_api.fields import REQUIRED, keyed_by, schema
from lifecycle_manager_api.meta import Struct

ConditionStatus = Literal["True", "False", "Unknown"]

Said = tuple[str, ConditionStatus, str, str]
"""What a condition says: its type, status, reason and message."""

LONGEST_MESSAGE = 4_000
"""Characters of a message. An API server takes eight times as many, and people read fewer."""

_NAME = r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])"
_PREFIX = r"([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"


class Condition(Struct, frozen=True, kw_only=True):
    """One aspect of an object's state."""

    type: Annotated[str, schema(pattern=f"^{_PREFIX}{_NAME}$", maxLength=316)]
    """The aspect, in CamelCase."""
    status: ConditionStatus
    """Whether it holds: True, False or Unknown."""
    reason: Annotated[str, schema(pattern="^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$", minLength=1, maxLength=1024)]
    """Why, as one word in CamelCase for machines."""
    message: Annotated[str, schema(maxLength=32768)]
    """Why, for people."""
    last_transition_time: Annotated[datetime | None, REQUIRED] = None
    """When the status last changed."""
    observed_generation: Annotated[int | None, schema(minimum=0)] = None
    """The metadata.generation that was looked at."""


class LastOperation(Struct, frozen=True, kw_only=True):
    """What was done last."""

    operation: str
    """What was done, for people."""
    last_update_time: datetime | None = None
    """When it was done."""


Conditions = Annotated[tuple[Condition, ...], keyed_by("type")]


def find(conditions: Iterable[Condition], kind: str) -> Condition | None:
    """Return the condition of a type, or None."""
    return next((condition for condition in conditions if condition.type == kind), None)


def set_condition(conditions: tuple[Condition, ...], new: Condition, now: datetime) -> tuple[Condition, ...]:
    """Return the conditions with one set; its transition time stays while its status does."""
    known = find(conditions, new.type)
    unchanged = known is not None and known.status == new.status
    time = known.last_transition_time if known is not None and unchanged else None
    settled = msgspec.structs.replace(new, last_transition_time=time or now.replace(microsecond=0))
    if known is None:
        return (*conditions, settled)
    return tuple(settled if condition.type == new.type else condition for condition in conditions)


def set_conditions(
    conditions: tuple[Condition, ...], said: Iterable[Said], generation: int, now: datetime
) -> tuple[Condition, ...]:
    """Return the conditions with all set that were said of a generation; messages are cut at their longest."""
    for kind, status, reason, message in said:
        new = Condition(
            type=kind, status=status, reason=reason, message=shortened(message), observed_generation=generation
        )
        conditions = set_condition(conditions, new, now)
    return conditions


def last_operation(before: LastOperation | None, operation: str, now: datetime) -> LastOperation:
    """Return what was done last; its time stays while it is the same."""
    done = LastOperation(operation=shortened(operation), last_update_time=now)
    return before if before is not None and before.operation == done.operation else done


def shortened(text: str, most: int = LONGEST_MESSAGE) -> str:
    """Return a text that is cut where it is too long to be stored or read."""
    return text if len(text) <= most else f"{text[: most - 2]} …"
