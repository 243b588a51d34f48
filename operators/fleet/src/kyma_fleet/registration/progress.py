"""What Lifecycle Manager does with a Kyma that joins or leaves, as lines, until it has done it."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from functools import partial

from kube_runtime import Client, NotFound
from kyma_fleet.running import once_answered
from kyma_fleet.screen import Screen
from kyma_fleet.text import plain
from lifecycle_manager.contract.resources import KYMAS
from lifecycle_manager_api import Kyma, find, names

SECONDS = 0.5
MAX_SECONDS = 5.0


async def kyma_named(kcp: Client, name: str) -> Kyma | None:
    """Return a Kyma, None where there is none. Raises KubeError."""
    try:
        return await kcp.get(KYMAS, name, names.KCP_NAMESPACE)
    except NotFound:
        return None


async def follow(
    kcp: Client, screen: Screen, name: str, until: Callable[[Kyma | None], bool], within: timedelta
) -> bool:
    """Print what the Kyma reports until a condition is met. Returns whether it was in time. Raises KubeError."""
    shown, pause = "", SECONDS
    try:
        async with asyncio.timeout(max(within.total_seconds(), SECONDS)):
            while not until(kyma := await once_answered(partial(kyma_named, kcp, name))):
                if (line := _line(kyma)) != shown:
                    shown = line
                    screen.print(f"  {plain(line)}")
                    screen.flush()
                await asyncio.sleep(pause)
                pause = min(pause * 1.2, MAX_SECONDS)
    except TimeoutError:
        return False
    return True


def _line(kyma: Kyma | None) -> str:
    if kyma is None:
        return "the Kyma does not exist yet"
    ready = find(kyma.status.conditions, "Ready")
    if ready is None:
        return "Lifecycle Manager has not reconciled it yet"
    return f"{kyma.status.state.value}: {ready.message or ready.reason}"
