"""An event precedes its write, because another webhook is slow: the change is not lost."""

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from kyma_demo.walkthrough import Walkthrough
from tests.integration.lifecycle_manager.event_path import is_watcher_ready
from tests.integration.lifecycle_manager.programs import manager_with
from tests.integration.lifecycle_manager.slow_webhook import slow_updates
from tests.waiting import eventually


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def without_interval(walkthrough: Walkthrough) -> AsyncIterator[Walkthrough]:
    """Module CRs are read on events only; the interval is longer than a test waits."""
    async with manager_with(walkthrough.programs, "--kyma-requeue-success-interval=10m"):
        await eventually(lambda: is_watcher_ready(walkthrough.environment))
        yield walkthrough


@pytest.mark.parametrize("seconds", [0.5, 5.0])
async def test_event_that_precedes_its_write_is_not_lost(
    without_interval: Walkthrough, tmp_path: Path, seconds: float
) -> None:
    walkthrough = without_interval
    await walkthrough.change_volume("710Gi")
    async with slow_updates(walkthrough.environment, tmp_path, seconds) as webhook:
        requests, started = webhook.requests, time.monotonic()
        await walkthrough.patch_volume(f"{711 + int(seconds)}Gi")
        assert webhook.requests > requests
        assert time.monotonic() - started >= seconds  # the event was sent before the delay
        await walkthrough.wait_for_volume(f"{711 + int(seconds)}Gi")
