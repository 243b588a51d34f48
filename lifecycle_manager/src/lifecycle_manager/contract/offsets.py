"""The offset of a Kyma within an interval, so that what is done at intervals is spread over the fleet.

A Kyma has the same offset in every interval, in every process. So clusters that were installed, restarted or upgraded
together are checked one after the other, and not all at once as soon as the interval has passed.
"""

import hashlib
from datetime import datetime

MIN_PAUSE = 0.4
"""The part of an interval that passes at least before something is checked again that was just seen in order."""
TOLERANCE = 0.05
"""How much before its time a check counts for that time, as a part of the interval."""


def offset_of(text: str) -> float:
    """Return an offset in an interval, 0 to 1: always the same for a text, and evenly spread over many of them."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=6).digest()) / 2**48


def until_offset(kyma: str, interval: float, *, now: datetime) -> float:
    """Return the seconds until the time of a Kyma, less than the interval."""
    return (offset_of(kyma) * interval - now.timestamp()) % interval


def until_check(kyma: str, interval: float, *, now: datetime) -> float:
    """Return the seconds until the next check of something that is in order now, at most the interval.

    That is at the Kyma's offset. If it comes too soon, there is one check half an interval after it, which leaves as
    much time until the next one.
    """
    seconds = until_offset(kyma, interval, now=now)
    if seconds >= MIN_PAUSE * interval:
        return seconds
    return interval if seconds < TOLERANCE * interval else seconds + interval / 2
