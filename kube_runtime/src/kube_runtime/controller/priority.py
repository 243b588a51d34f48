"""How urgent a key is, and the share of those that are not urgent."""

from enum import IntEnum

__all__ = ["FAIR_SHARE", "Priority"]

FAIR_SHARE = 16
"""One key in so many is of the least urgent, so that no key waits for ever."""


class Priority(IntEnum):
    """How urgent a key is.

    An event that a user waits for, a change in a watch, what may have changed while no process looked, a resync.
    """

    EVENT = 0
    CHANGE = 1
    MISSED = 2
    RESYNC = 3
