"""Signs of life: the control plane hears from each Watcher often enough to notice when it does not any more.

Any event that was taken shows it, so a heartbeat is sent only where for a while there was none. The answer to a canary
is one, which is why a quiet Watcher that canaries reach sends no heartbeats at all.
"""

import asyncio
from collections.abc import Callable
from random import random


async def keep_heard(quiet_seconds: Callable[[], float], beat: Callable[[], None], longest: float) -> None:
    """Send a heartbeat, by `beat`, where nothing was taken for about `longest` seconds. Runs until cancelled."""
    while True:
        seconds = longest * (0.9 + 0.1 * random())  # noqa: S311 - spreads load only
        if (left := seconds - quiet_seconds()) > 0:
            await asyncio.sleep(left)
        else:
            beat()
            await asyncio.sleep(seconds)
