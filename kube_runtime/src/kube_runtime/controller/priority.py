"""How urgent a key is, and the share of those that are not urgent."""

from enum import IntEnum

__all__ = ["FAIR_SHARE", "Priority"]

FAIR_SHARE = 16
"""One key in so many is of the least urgent, so that no key waits for ever."""


class Priority(IntEnum):
    """How urgent a key is: an event that a user waits for, a change in a watch, a periodic resync."""

    EVENT = 0
    CHANGE = 1
    RESYNC = 2
