"""Heartbeats: each Watcher sends events often enough for the control plane to notice when they stop.

Any accepted event counts, also the answer to a canary, so a heartbeat is sent only after a time without one.
"""

import asyncio
from collections.abc import Callable
from random import uniform

MIN_SHARE = 0.95
"""The share of `max_quiet_seconds` that passes at least before a heartbeat."""


async def send_heartbeats(
    quiet_seconds: Callable[[], float], beat: Callable[[], None], *, max_quiet_seconds: float
) -> None:
    """Call `beat` when no event was accepted for about `max_quiet_seconds`. Runs until cancelled."""
    while True:
        seconds = max_quiet_seconds * uniform(MIN_SHARE, 1.0)  # noqa: S311 - spreads load only
        if (left := seconds - quiet_seconds()) > 0:
            await asyncio.sleep(left)
        else:
            beat()
            await asyncio.sleep(seconds)
