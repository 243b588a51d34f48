"""Conditions (meta/v1 Condition) and the last operation of a status."""

from collections.abc import Collection, Iterable
from datetime import datetime

from kube_crds import Condition, ConditionStatus, Struct, set_condition

NewCondition = tuple[str, ConditionStatus, str, str]
"""Type, status, reason and message of a condition to set."""

MAX_MESSAGE_LENGTH = 4_000
"""Characters of a message. An API server accepts eight times as many, but nobody reads them."""
MAX_LISTED = 10
"""How many names a message has."""


class LastOperation(Struct, frozen=True, kw_only=True):
    """The last operation of Lifecycle Manager on the object."""

    operation: str
    """The operation, as text for people."""
    last_update_time: datetime | None = None
    """When it was carried out."""


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
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def listed(things: Collection[str], most: int = MAX_LISTED) -> str:
    """Join names for a message: the first ones, with the number of the others."""
    shown = ", ".join(list(things)[:most])
    return shown if len(things) <= most else f"{shown} and {len(things) - most} more"


def shortened(text: str, max_length: int = MAX_MESSAGE_LENGTH) -> str:
    """Return a text, cut to a maximum length."""
    return text if len(text) <= max_length else f"{text[: max_length - 2]} …"
