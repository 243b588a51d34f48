"""How urgent a key is, and the share of those that are not urgent."""

from collections.abc import Sequence, Sized
from enum import IntEnum
from typing import TypeVar

L = TypeVar("L", bound=Sized)

FAIR_SHARE = 16
"""One key in so many is of the least urgent, so that no key waits for ever."""


class Priority(IntEnum):
    """How urgent a key is: an event that a user waits for, a change in a watch, a resync."""

    EVENT = 0
    CHANGE = 1
    RESYNC = 2


def next_lane(lanes: Sequence[L], number: int) -> L:
    """Return the lane to take from: the most urgent that holds something, for one number in FAIR_SHARE the least."""
    return next(lane for lane in (lanes if number % FAIR_SHARE else lanes[::-1]) if lane)
