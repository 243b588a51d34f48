"""When it is a Kyma's turn within an interval, so that what is done at intervals is spread over the fleet.

A Kyma has the same place in every interval, in every process. So clusters that were installed, restarted or upgraded
together are checked one after the other, and not all at once as soon as the interval has passed.
"""

import hashlib
from datetime import datetime

MIN_PAUSE = 0.4
"""The share of an interval that passes at least before something is checked again that was just seen in order."""
TOLERANCE = 0.05
"""How much before its turn a check counts for that turn, as a share of the interval."""


def share_of(text: str) -> float:
    """Return a place in an interval, 0 to 1: always the same for a text, and evenly spread over many of them."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=6).digest()) / 2**48


def until_turn(kyma: str, interval: float, *, now: datetime) -> float:
    """Return the seconds until it is a Kyma's turn, less than the interval."""
    return (share_of(kyma) * interval - now.timestamp()) % interval


def until_check(kyma: str, interval: float, *, now: datetime) -> float:
    """Return the seconds until the next check of something that is in order now, at most the interval.

    That is at the Kyma's turn. If it comes too soon, there is one check half an interval after it, which leaves as much
    time until the next turn.
    """
    seconds = until_turn(kyma, interval, now=now)
    if seconds >= MIN_PAUSE * interval:
        return seconds
    return interval if seconds < TOLERANCE * interval else seconds + interval / 2
