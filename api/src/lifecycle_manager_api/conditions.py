"""Conditions (meta/v1 Condition) and the last operation of a status."""

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Literal

import msgspec

from lifecycle_manager_api.fields import REQUIRED, keyed_by, schema
from lifecycle_manager_api.meta import Struct

ConditionStatus = Literal["True", "False", "Unknown"]

NewCondition = tuple[str, ConditionStatus, str, str]
"""Type, status, reason and message of a condition to set."""

MAX_MESSAGE_LENGTH = 4_000
"""Characters of a message. An API server accepts eight times as many, but nobody reads them."""

_NAME = r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])"
_PREFIX = r"([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"


class Condition(Struct, frozen=True, kw_only=True):
    """One aspect of an object's state."""

    type: Annotated[str, schema(pattern=f"^{_PREFIX}{_NAME}$", maxLength=316)]
    """The aspect, in CamelCase."""
    status: ConditionStatus
    """Whether it holds: True, False or Unknown."""
    reason: Annotated[str, schema(pattern="^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$", minLength=1, maxLength=1024)]
    """Reason for the status, as one word in CamelCase, for programs."""
    message: Annotated[str, schema(maxLength=32768)]
    """Reason for the status, as text for people."""
    last_transition_time: Annotated[datetime | None, REQUIRED] = None
    """When the status last changed."""
    observed_generation: Annotated[int | None, schema(minimum=0)] = None
    """The metadata.generation that the condition is about."""


class LastOperation(Struct, frozen=True, kw_only=True):
    """The last operation of Lifecycle Manager on the object."""

    operation: str
    """The operation, as text for people."""
    last_update_time: datetime | None = None
    """When it was carried out."""


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


def set_conditions(
    conditions: tuple[Condition, ...], new_conditions: Iterable[NewCondition], generation: int, now: datetime
) -> tuple[Condition, ...]:
    """Return the conditions with new ones set, all for one generation; long messages are shortened."""
    for kind, status, reason, message in new_conditions:
        new = Condition(
            type=kind, status=status, reason=reason, message=shortened(message), observed_generation=generation
        )
        conditions = set_condition(conditions, new, now)
    return conditions


def last_operation(before: LastOperation | None, operation: str, now: datetime) -> LastOperation:
    """Return the last operation; its time changes only with its text."""
    new = LastOperation(operation=shortened(operation), last_update_time=now)
    return before if before is not None and before.operation == new.operation else new


def counted(number: int, noun: str) -> str:
    """Return a number of things for a message: `1 object`, `2 objects`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def shortened(text: str, max_length: int = MAX_MESSAGE_LENGTH) -> str:
    """Return a text, cut to a maximum length."""
    return text if len(text) <= max_length else f"{text[: max_length - 2]} …"
